// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"

// kind is what happens to pods, nodes and workloads. It has a color, a shape and a word, and is also the name of the
// shape in the page.
type kind string

// What happens to a pod according to a plan.
const (
	kindNone    kind = ""
	kindLeaves  kind = "leaves"
	kindEarlier kind = "earlier"
	kindLater   kind = "later"
	kindSame    kind = "same"
	kindStays   kind = "stays"
)

// What happens in a simulation.
const (
	kindUnreachable kind = "unreachable"
	kindTainted     kind = "tainted"
	kindLeft        kind = "left"
	kindFewer       kind = "fewer"
	kindLost        kind = "lost"
	kindNowhere     kind = "nowhere"
)

// kindOf returns the kind of a pod, which is empty if the pod stays with and without the plan.
func kindOf(pod *cliv1alpha1.PlannedPod) kind {
	switch pod.Change {
	case cliv1alpha1.ChangeLeaves:
		return kindLeaves
	case cliv1alpha1.ChangeEarlier:
		return kindEarlier
	case cliv1alpha1.ChangeLater:
		return kindLater
	case cliv1alpha1.ChangeStays:
		return kindStays
	}
	if pod.Leaves {
		return kindSame
	}
	return kindNone
}

// Word is the word for it in tables.
func (k kind) Word() string {
	if k == kindSame || k == kindNone {
		return "none"
	}
	return string(k)
}

// Meaning explains the kind.
func (k kind) Meaning() string {
	switch k {
	case kindLeaves:
		return "leaves, but would stay without the plan"
	case kindEarlier:
		return "leaves earlier than it would without the plan"
	case kindLater:
		return "leaves later than it would without the plan"
	case kindSame:
		return "leaves at the same time with or without the plan"
	case kindStays:
		return "stays, but would leave at this time without the plan"
	case kindUnreachable:
		return "nodes are unreachable"
	case kindTainted:
		return "nodes have a NoExecute taint"
	case kindLeft:
		return "pods leave"
	case kindFewer:
		return "workloads have fewer ready replicas"
	case kindLost:
		return "workloads have no ready replica"
	case kindNowhere:
		return "pods find no room"
	}
	return "stays with and without the plan"
}

// verb says what that many pods do.
func (k kind) verb(n int) string {
	verb, s := "leave", ""
	if n == 1 {
		s = "s"
	}
	switch k {
	case kindEarlier:
		return verb + s + " earlier"
	case kindLater:
		return verb + s + " later"
	case kindSame:
		return verb + s + " at the same time with or without the plan"
	case kindStays:
		return "stay" + s + " that would have left"
	case kindNowhere:
		return "find" + s + " no room"
	}
	return verb + s
}

// height returns the height of a bar.
func (k kind) height() float64 {
	switch k {
	case kindUnreachable:
		return 6.5
	case kindFewer:
		return 4
	}
	return 8
}

// shape is the shape of a kind, drawn around the origin.
type shape struct {
	Kind kind
	Path string
}

// shapes are in the order in which kinds are drawn and explained.
var shapes = []shape{
	{kindLeaves, "M-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0z"},
	{kindEarlier, "M-7.5 0L5.5 -7.5V7.5z"},
	{kindLater, "M7.5 0L-5.5 -7.5V7.5z"},
	{kindSame, "M0 -7.5L7.5 0L0 7.5L-7.5 0z"},
	{kindStays, "M-5.5 -5.5h11v11h-11z"},
	{kindUnreachable, "M-9 -3.5h18v7h-18z"},
	{kindTainted, "M-9 -4h18v8h-18z"},
	{kindLeft, "M-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0z"},
	{kindFewer, "M-9 -1.5h18v3h-18z"},
	{kindLost, "M-9 -4h18v8h-18z"},
	{kindNowhere, "M-7 -4.5L-4.5 -7L0 -2.5L4.5 -7L7 -4.5L2.5 0L7 4.5L4.5 7L0 2.5L-4.5 7L-7 4.5L-2.5 0z"},
}
