// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// zone is an outage of 5,000 nodes, which 150,000 pods of 500 namespaces must leave at once.
const (
	zoneNodes      = 5000
	zonePods       = 30 // on each node
	zoneNamespaces = 500
	zoneAnswer     = 5 * ms // how long each eviction takes
)

// BenchmarkZone lets the pods of a zone leave, 16 at a time, in simulated time. It reports the processor time, which
// must stay below 2 s, and the longest call of each method, which must stay below 50 ms: the caller holds a lock.
func BenchmarkZone(bench *testing.B) {
	nodes, leaving := zone(t0)
	for bench.Loop() {
		s := &stopwatch{longest: map[string]time.Duration{}}
		b, used := New(Lanes{std}, there), processorTime(bench)
		for i, node := range nodes {
			s.measure("Set", func() { b.Set(node, leaving[i], t0.Add(-sec)) })
		}
		s.measure("Stats", func() { b.Stats(t0) })
		s.measure("Due", func() { b.Due(t0) })
		s.drain(b, len(nodes)*zonePods)
		bench.ReportMetric((processorTime(bench) - used).Seconds(), "cpu-s/zone")
		s.report(bench)
	}
}

// BenchmarkOneNode tells a Backlog of 10,000 pods on one node, and then that they may stay.
func BenchmarkOneNode(bench *testing.B) {
	leaving := pods("a", 10_000, t0)
	for bench.Loop() {
		s := &stopwatch{longest: map[string]time.Duration{}}
		b := New(Lanes{std}, there)
		s.measure("Set", func() { b.Set("n", leaving, t0) })
		s.measure("Next", func() { b.Next(t0) })
		s.measure("Set-again", func() { b.Set("n", leaving, t0) })
		s.measure("Set-none", func() { b.Set("n", nil, t0) })
		s.report(bench)
	}
}

// zone returns the names of its nodes and the pods on them, all due at an instant.
func zone(due time.Time) (nodes []string, leaving [][]Leaving) {
	for n := range zoneNodes {
		var on []Leaving
		for i := range zonePods {
			namespace := fmt.Sprint("ns", (n*7919+i*104729)%zoneNamespaces)
			uid := types.UID(fmt.Sprintf("%08x-71c1-4e8f-9d3a-%012x", n*2654435761%(1<<32), i))
			on = append(on, Leaving{UID: uid, Namespace: namespace, Group: namespace, Due: due})
		}
		nodes, leaving = append(nodes, fmt.Sprint("n", n)), append(leaving, on)
	}
	return nodes, leaving
}

// stopwatch notes the longest call of each method.
type stopwatch struct{ longest map[string]time.Duration }

func (s *stopwatch) measure(method string, call func()) {
	began := time.Now()
	call()
	s.longest[method] = max(s.longest[method], time.Since(began))
}

func (s *stopwatch) report(bench *testing.B) {
	for method, took := range s.longest {
		bench.ReportMetric(float64(took.Microseconds())/1000, "ms/"+method)
	}
}

// drain lets all pods leave: each eviction is answered after a while, as the API server does it.
func (s *stopwatch) drain(b *Backlog, pods int) {
	for now, gone := t0, 0; gone < pods; now = now.Add(zoneAnswer) {
		var begun []*Eviction
		for range std.Prompt {
			s.measure("Excess", func() { b.Excess(now) })
			s.measure("Next", func() {
				if e, _ := b.Next(now); e != nil {
					begun = append(begun, e)
				}
			})
		}
		for _, e := range begun {
			s.measure("Done", func() { b.Done(e, Over, now.Add(zoneAnswer)) })
		}
		gone += len(begun)
	}
}

func processorTime(bench *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		bench.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
