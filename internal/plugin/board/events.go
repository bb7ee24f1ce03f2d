// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// mostDifferences is how many differences of shadow mode are listed, newest first.
const mostDifferences = 200

// nodeEvent is an event on a node.
type nodeEvent struct {
	node, reason, message string
	at                    time.Time
}

// differences are the reasons of shadow mode's events, and their meanings. A test compares them with those of
// internal/controller/shadow, which the plugin does not import because it needs the controller's framework.
var differences = map[string]string{
	v1alpha1.EventBuiltInEarly:     "early",
	v1alpha1.EventBuiltInLate:      "late",
	v1alpha1.EventBuiltInNever:     "never",
	v1alpha1.EventBuiltInUnfounded: "should have stayed",
	v1alpha1.EventBuiltInTwice:     "twice",
}

func (c *cluster) setEvent(event *corev1.Event) {
	if event.InvolvedObject.Kind != "Node" || event.Reason != v1alpha1.EventNodeTaintHeld && differences[event.Reason] == "" {
		return
	}
	c.events[event.UID] = &nodeEvent{
		event.InvolvedObject.Name, event.Reason, sentence.Printable(event.Message), event.LastTimestamp.Time,
	}
}

// renderEvents lists the differences, and records for each waiting node why it waits.
func (c *cluster) renderEvents() {
	var rows []differenceRow
	held := map[string]*nodeEvent{}
	for uid, event := range c.events {
		switch {
		case event.reason != v1alpha1.EventNodeTaintHeld:
			found := v1alpha1.ParseShadowText(event.message)
			rows = append(rows, differenceRow{string(uid), event.node, event.at.UnixMilli(), differences[event.reason], found})
		case held[event.node] == nil || held[event.node].at.Before(event.at):
			held[event.node] = event
		}
	}
	slices.SortFunc(rows, func(a, b differenceRow) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.ID, b.ID)) })
	replace(c.sheets, sheetDifferences, rows[:min(len(rows), mostDifferences)],
		func(row differenceRow) string { return row.ID })
	for name, node := range c.nodes {
		why := ""
		if event := held[name]; event != nil && waits(c.live.Node(name)) {
			why = event.message
		}
		if node.held != why {
			node.held, c.changed[name] = why, true
		}
	}
}

// waits reports whether a node is not ready, but has no NoExecute taint for that.
func waits(node *state.LiveNode) bool {
	if readiness.IsReady(node.Node) {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoExecute &&
			(taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable)
	})
}
