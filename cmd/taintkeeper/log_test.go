// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// storm is how many pods are due at once. Their lines have the same message and differ only in the pod.
const storm = 50_000

func podOf(i int) klog.ObjectRef { return klog.KRef("default", fmt.Sprintf("pod-%d", i)) }

var podName = regexp.MustCompile(`"name":"(pod-[0-9]+)"`)

// checkEveryPodIsNamed checks that there is one line for each pod of a storm.
func checkEveryPodIsNamed(t *testing.T, written *bytes.Buffer) {
	t.Helper()
	lines, named := 0, map[string]bool{}
	for line := range bytes.Lines(written.Bytes()) {
		lines++
		if match := podName.FindSubmatch(line); match != nil {
			named[string(match[1])] = true
		}
	}
	if lines != storm || len(named) != storm {
		t.Errorf("%d lines name %d pods, want %d", lines, len(named), storm)
	}
}

func TestEveryPodOfAStormHasItsLineInTheLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, level := range []int{0, maxLogLevel} {
			t.Run(fmt.Sprintf("%s at level %d", format, level), func(t *testing.T) {
				var out bytes.Buffer
				log := newLogger(&options{logFormat: format, logLevel: level}, &out)
				for i := range storm {
					log.Info("Dry run: would evict", "pod", podOf(i))
				}
				checkEveryPodIsNamed(t, &out)
			})
		}
	}
}

func TestLinesOfManyWorkersAreNotMixedUp(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&options{logFormat: "json"}, &out)
	var workers sync.WaitGroup
	for worker := range 10 {
		workers.Go(func() {
			for i := worker; i < storm; i += 10 {
				log.Info("Evicted", "pod", podOf(i))
			}
		})
	}
	workers.Wait()
	checkEveryPodIsNamed(t, &out)
}

func TestALevelShowsItsOwnLinesAndThoseBelow(t *testing.T) {
	for level := range maxLogLevel + 1 {
		var out bytes.Buffer
		log := newLogger(&options{logFormat: "text", logLevel: level}, &out)
		for line := range maxLogLevel + 3 {
			log.V(line).Info("A line")
		}
		if got := strings.Count(out.String(), "\n"); got != level+1 {
			t.Errorf("--v=%d: %d lines of the levels from 0 to %d", level, got, maxLogLevel+2)
		}
	}
}

// TestWhatClientGoSaysIsInTheLog is about the lines that client-go writes with klog.
func TestWhatClientGoSaysIsInTheLog(t *testing.T) {
	share := func(level int, out io.Writer) {
		if err := shareLogger(newLogger(&options{logFormat: "json", logLevel: level}, out), level); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { share(0, io.Discard) })
	const lines = 1000 // a sampler lets the first hundred pass
	for level := range 3 {
		var out bytes.Buffer
		share(level, &out)
		for i := range lines {
			klog.ErrorS(nil, "Failed to watch", "pod", podOf(i))
			klog.Background().Error(nil, "Failed to watch", "pod", podOf(i))
			klog.V(1).InfoS("Old ways", "pod", podOf(i))
			klog.FromContext(t.Context()).V(2).Info("New ways", "pod", podOf(i))
		}
		if got, want := strings.Count(out.String(), "\n"), (2+level)*lines; got != want {
			t.Errorf("--v=%d: %d lines, want %d", level, got, want)
		}
	}
}

// BenchmarkLine measures what a line costs, without the call that writes it.
func BenchmarkLine(b *testing.B) {
	log := newLogger(&options{logFormat: "json"}, io.Discard)
	for b.Loop() {
		log.Info("Evicted", "pod", podOf(1), "node", "node-1", "taint", "maintenance=soon:NoExecute")
	}
}
