// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

// between is when something was stored: after the call that did it was received, and before it was answered.
type between struct{ after, before time.Time }

func (b between) happened() bool { return !b.before.IsZero() }

// watched is what was seen of one silent node.
type watched struct {
	name    string
	lease   time.Time // the last sign of life, by the lease's own account
	unknown between   // the condition Ready became Unknown
	noNew   between   // NoSchedule came
	leave   between   // NoExecute came
	free    between   // both had gone
	halved  bool      // one of the two was seen without the other after the return

	version string   // the newest that was seen
	taints  timeline // what there was of NoExecute
}

// vigil watches the nodes of a silent zone in the API server's audit log, so that the instants are bounds and no
// guesses.
type vigil struct {
	began, back time.Time
	seen        int // changes of nodes
	nodes       []*watched
	strangers   []string // nodes of other zones that had a taint

	plan *cliv1alpha1.TaintPlan // what was foreseen
}

func newVigil(names []string, began time.Time) *vigil {
	v := &vigil{began: began}
	for _, name := range names {
		v.nodes = append(v.nodes, &watched{name: name, version: "1", taints: timeline(nil).next(began, nil)})
	}
	return v
}

func (v *vigil) names() []string {
	var names []string
	for _, n := range v.nodes {
		names = append(names, n.name)
	}
	return names
}

// look reads the log on, and notes what is new.
func (v *vigil) look(log ledger) error {
	changes, err := log.changes(v.began, v.seen)
	if err != nil {
		return err
	}
	v.seen += len(changes)
	for _, c := range changes {
		if err := v.note(c); err != nil {
			return err
		}
	}
	return nil
}

// note takes down what a change has brought.
func (v *vigil) note(c change) error {
	if w := v.find(c.node.Name); w != nil {
		return w.note(c, !v.back.IsZero() && c.at.after.After(v.back))
	}
	if len(c.node.Spec.Taints) > 0 && !slices.Contains(v.strangers, c.node.Name) {
		v.strangers = append(v.strangers, c.node.Name)
	}
	return nil
}

func (v *vigil) find(name string) *watched {
	i := slices.IndexFunc(v.nodes, func(w *watched) bool { return w.name == name })
	if i < 0 {
		return nil
	}
	return v.nodes[i]
}

// note takes down a change, unless a newer one was answered before it.
func (w *watched) note(c change, back bool) error {
	node, at := c.node, c.at
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, w.version)
	if err != nil {
		return fmt.Errorf("compare versions of node %s: %w", w.name, err)
	}
	if order <= 0 {
		return nil
	}
	w.version = node.ResourceVersion
	noNew, leave := unreachable(node, corev1.TaintEffectNoSchedule), unreachable(node, corev1.TaintEffectNoExecute)
	once(&w.unknown, readyUnknown(node), at)
	once(&w.noNew, noNew, at)
	once(&w.leave, leave, at)
	once(&w.free, back && !noNew && !leave, at)
	w.halved = w.halved || back && noNew != leave && w.leave.happened()
	if now := taints.NoExecute(node.Spec.Taints); len(now) != len(w.taints[len(w.taints)-1].taints) {
		w.taints = w.taints.next(at.after, now)
	}
	return nil
}

// once notes the first time that something is so.
func once(known *between, so bool, at between) {
	if so && !known.happened() {
		*known = at
	}
}

func unreachable(node *corev1.Node, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnreachable && t.Effect == effect
	})
}

func readyUnknown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// lastSigns reads when the silent nodes renewed their leases last.
func (v *vigil) lastSigns(ctx context.Context, client kubernetes.Interface) error {
	for _, w := range v.nodes {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the lease of node %s: %w", w.name, err)
		}
		if lease.Spec.RenewTime != nil {
			w.lease = lease.Spec.RenewTime.Time
		}
	}
	return nil
}

// rows are the pods that are on the nodes, or were, each with what is promised to it. Those that came after the taints
// had gone are none of them.
func (v *vigil) rows(seen []sighting) []row {
	var all []row
	for _, w := range v.nodes {
		all = append(all, w.rows(seen)...)
	}
	return all
}

func (w *watched) rows(seen []sighting) []row {
	rows := rowsOf(rule, seen, w.name, w.taints)
	return slices.DeleteFunc(rows, func(r row) bool { return !r.original(w.taints) })
}

// cue reports whether the zone may come back: all nodes are tainted, and those whose pods are due have none left that
// is.
func (v *vigil) cue(seen []sighting, now time.Time) bool {
	done := 0
	for _, w := range v.nodes {
		if !w.leave.happened() {
			return false
		}
		if !slices.ContainsFunc(w.rows(seen), func(r row) bool { return r.Leaves && r.outcome(now) == waiting }) {
			done++
		}
	}
	return done > 0
}

// over reports whether nothing more is to be expected.
func (v *vigil) over(seen []sighting, now time.Time) bool {
	return !slices.ContainsFunc(v.nodes, func(w *watched) bool {
		return !w.free.happened() || !over(w.rows(seen), w.taints, now)
	})
}

// problems says what taintkeeper did to the nodes that it should not have done.
func (v *vigil) problems() []string {
	var all []string
	for _, name := range v.strangers {
		all = append(all, fmt.Sprintf("node %s of another zone was tainted", name))
	}
	first := v.nodes[0].unknown.after
	var last time.Time
	for _, w := range v.nodes {
		if w.unknown.before.Before(w.lease.Add(grace)) {
			all = append(all, fmt.Sprintf("node %s was called silent before its %s were over", w.name, grace))
		}
		if w.halved {
			all = append(all, fmt.Sprintf("node %s lost one of its taints before the other", w.name))
		}
		if w.unknown.after.Before(first) {
			first = w.unknown.after
		}
		if w.leave.before.After(last) {
			last = w.leave.before
		}
	}
	if turns := time.Duration(len(v.nodes)-1) * taintEvery; last.Sub(first) < turns {
		all = append(all, fmt.Sprintf("the nodes of zone %s were tainted within %s, and their turns take %s", silentZone, last.Sub(first).Round(time.Millisecond), turns))
	}
	return all
}

// table says when what became of the nodes.
func (v *vigil) table() []string {
	cells := [][]string{{
		"NODE", "SILENT FOR " + strings.ToUpper(grace.String()), "NoSchedule", "NoExecute", "BOTH TAKEN OFF",
	}}
	for _, w := range v.nodes {
		cells = append(cells, []string{w.name, v.cell(w.unknown), v.cell(w.noNew), v.cell(w.leave), v.cell(w.free)})
	}
	return align(cells)
}

func (v *vigil) cell(at between) string {
	if !at.happened() {
		return "-"
	}
	return seconds(at.after.Sub(v.began))
}
