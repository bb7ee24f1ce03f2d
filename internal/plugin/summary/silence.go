// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Silence says when the nodes of a plan fall silent, when they are tainted NoExecute, and which are held back.
func Silence(plan *cliv1alpha1.TaintPlan) []string {
	if !plan.Silent {
		return nil
	}
	silent := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.SilentAt }
	tainted := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.TaintedAt }
	var falls, turns, held lines
	for _, node := range byInstant(plan.Nodes, silent) {
		if node.SilentAt == nil {
			falls.add("Unknown already", node.Name)
		} else {
			falls.add("Silent "+in(plan, node.SilentAt), node.Name)
		}
		if node.Held != "" {
			held.add("Held back, as "+node.Held, node.Name)
		}
	}
	for _, node := range byInstant(plan.Nodes, tainted) {
		if node.TaintedAt != nil {
			turns.add("Tainted NoExecute, zone "+cmp.Or(node.Zone, "(none)"), node.Name+" "+in(plan, node.TaintedAt))
		}
	}
	return slices.Concat(falls, turns, held).all()
}

// byInstant orders nodes by an instant. Those that have none come first.
func byInstant(
	nodes []cliv1alpha1.PlannedNode, of func(cliv1alpha1.PlannedNode) *metav1.MicroTime,
) []cliv1alpha1.PlannedNode {
	at := func(node cliv1alpha1.PlannedNode) time.Time { return ptr.Deref(of(node), metav1.MicroTime{}).Time }
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b cliv1alpha1.PlannedNode) int {
		return at(a).Compare(at(b))
	})
}

// in says how long it is to an instant of a plan.
func in(plan *cliv1alpha1.TaintPlan, at *metav1.MicroTime) string {
	if text := output.Relative(plan.At.Time, at.Time); text != "now" {
		return "in " + text
	}
	return "now"
}

// line is names, or what there is to say of each, of nodes that have something in common.
type line struct {
	what  string
	names []string
}

type lines []line

func (l *lines) add(what, name string) {
	i := slices.IndexFunc(*l, func(known line) bool { return known.what == what })
	if i < 0 {
		*l, i = append(*l, line{what: what}), len(*l)
	}
	(*l)[i].names = append((*l)[i].names, name)
}

func (l lines) all() []string {
	var all []string
	for _, line := range l {
		all = append(all, fmt.Sprintf("%s: %s.", line.what, sentence.Enumerate(line.names)))
	}
	return all
}
