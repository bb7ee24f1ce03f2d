// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
)

// subject is what the specs of taint eviction have in their names, and no others.
const subject = "NoExecuteTaintManager"

// spec is one of upstream's specs, by the names in its reports.
type spec struct {
	container string // around it
	text      string // its own
	// unevicted is a part of what it says when it fails because a pod was not evicted. It is empty for a spec that expects
	// no eviction, which passes if nothing evicts.
	unevicted string
}

// specs are upstream's specs (v1.37.2) about taints that need no real kubelet.
var specs = []spec{
	{singlePod, "evicts pods from tainted nodes [Serial]", "Failed to evict Pod"},
	{singlePod, "doesn't evict pod with tolerations from tainted nodes [Serial]", ""},
	{singlePod, "eventually evict pod with finite tolerations from tainted nodes [Serial]", "Pod wasn't evicted"},
	{singlePod, "removing taint cancels eviction [Conformance] [Disruptive] [Serial]", ""},
	{singlePod, "pods evicted from tainted nodes have pod disruption condition [Serial]", "to be is terminating"},
	{multiplePods, "only evicts pods without tolerations from tainted nodes [Serial]", "Failed to evict Pod1"},
	{multiplePods, "evicts pods with minTolerationSeconds [Conformance] [Disruptive] [Serial]", "2 pod(s) is not evicted"},
	{"[sig-scheduling] SchedulerPredicates", "validates that taints-tolerations is respected if matching [Serial]", ""},
	{"[sig-scheduling] SchedulerPredicates", "validates that taints-tolerations is respected if not matching [Serial]", ""},
	{"[sig-scheduling] SchedulerPriorities", "Pod should be preferably scheduled to nodes pod can tolerate [Serial]", ""},
	{"[sig-cli] Kubectl client Kubectl taint", "should update the taint on a node [Serial]", ""},
	{"[sig-cli] Kubectl client Kubectl taint", "should remove all the taints with the same key off a node [Serial]", ""},
	{"[sig-node] RuntimeClass", "should run a Pod requesting a RuntimeClass with scheduling with taints [Serial]", ""},
}

const (
	singlePod    = "[sig-node] NoExecuteTaintManager Single Pod"
	multiplePods = "[sig-node] NoExecuteTaintManager Multiple Pods"
)

// name is the spec's in a report.
func (s spec) name() string { return s.container + " " + s.text }

// aboutEviction reports whether the spec is about taint eviction.
func (s spec) aboutEviction() bool { return strings.Contains(s.container, subject) }

// passesIn reports whether the spec must pass in a run. Otherwise it must fail.
func (s spec) passesIn(r run) bool { return s.unevicted == "" || r.evicts() }

// focus returns the regular expressions that select the specs. Those about eviction are selected by their subject, so
// that one which a later version of upstream adds is played too; the judge then asks for it to be listed here.
func focus() []string {
	all := []string{subject}
	for _, s := range specs {
		if !s.aboutEviction() {
			all = append(all, regexp.QuoteMeta(s.name())+"$")
		}
	}
	return all
}

// tags are the labels that upstream writes into its names, but for Conformance, which says something about what is
// tested.
var tags = regexp.MustCompile(`\[(sig-[a-z-]+|Serial|Disruptive)\]`)

// untagged returns a name without its tags.
func untagged(name string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(name, "")), " ")
}
