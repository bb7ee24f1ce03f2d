// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// What a history allows the Controller.
const (
	// seesAgain is for how long an outage can last for the Controller after its end: client-go tries to open a watch again,
	// and the Controller to change a node, every 30 s at least.
	seesAgain = time.Minute
	// noticesWithin is twice the longer grace period: gaps between echoes count for little.
	noticesWithin = 2 * readiness.DefaultStartupGrace
	// untaintsWithin is the longest pause between tries to write.
	untaintsWithin = apicall.LastBackoff + 5*time.Second
	// tokenLasts is how long a token of a zone lasts at DefaultRate, used or not.
	tokenLasts = 10 * time.Second
)

// invariants are what holds at every moment of every history, for a node as it is now.
var invariants = []func(h *history, node *corev1.Node){
	(*history).foreignTaintsStay,
	(*history).noNodeIsCalledSilentBeforeItsGracePeriodIsOver,
	(*history).noLiveNodeIsCalledSilent,
	(*history).aSilentNodeIsCalledSo,
	(*history).aReadyNodeLosesItsTaints,
	(*history).zonesTaintAtTheirRate,
}

// look checks the invariants.
func (h *history) look() {
	h.T.Helper()
	list, err := h.Client.CoreV1().Nodes().List(h.T.Context(), metav1.ListOptions{})
	h.Must(nil, err)
	for i := range list.Items {
		for _, holds := range invariants {
			holds(h, &list.Items[i])
		}
		h.known[list.Items[i].Name].remembers(&list.Items[i])
	}
}

func (w *witness) remembers(node *corev1.Node) {
	w.posted = readiness.Condition(node, corev1.NodeReady) != nil
	w.silent = calledSilent(node)
	w.executed = len(executing(node)) > 0
}

func (h *history) violated(format string, args ...any) {
	h.T.Helper()
	h.T.Errorf("after %s %s", time.Since(h.Start), fmt.Sprintf(format, args...))
}

func (h *history) foreignTaintsStay(node *corev1.Node) {
	if !slices.Contains(node.Spec.Taints, foreign) {
		h.violated("node %s has lost a foreign taint: %v", node.Name, node.Spec.Taints)
	}
}

// noNodeIsCalledSilentBeforeItsGracePeriodIsOver knows when each kubelet gave its last sign of life, whatever the
// Controller could see of it. This is the promise without any leniency.
func (h *history) noNodeIsCalledSilentBeforeItsGracePeriodIsOver(node *corev1.Node) {
	known, grace := h.known[node.Name], readiness.DefaultStartupGrace
	if known.posted {
		grace = readiness.DefaultMonitorGrace
	}
	if silence := time.Since(known.lastSign); calledSilent(node) && !known.silent && silence < grace {
		h.violated("node %s is considered silent %s after its last sign of life", node.Name, silence)
	}
}

// noLiveNodeIsCalledSilent whatever the Controller and the kubelets can see of the API server.
func (h *history) noLiveNodeIsCalledSilent(node *corev1.Node) {
	if calledSilent(node) && !h.known[node.Name].silent && !h.Silent[node.Name] {
		h.violated("node %s lives, and is considered silent", node.Name)
	}
}

// calledSilent reports whether a node's condition or its taints say that it is silent: either can be there alone
// while the other is refused.
func calledSilent(node *corev1.Node) bool {
	ready := readiness.Condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// aSilentNodeIsCalledSo counts only the time in which the Controller has a fair chance (see notices).
func (h *history) aSilentNodeIsCalledSo(node *corev1.Node) {
	if known := h.known[node.Name]; known.unnoticed > h.noticesWithin && !calledSilent(node) {
		h.violated("node %s, silent for %s and %s of them with nothing in the way, is not called so", node.Name, time.Since(known.lastSign), known.unnoticed)
	}
}

// aReadyNodeLosesItsTaints when its kubelet says that it is ready: each taint for its readiness, as soon as it can be
// written. Time in which the kubelet is silent, or in which writes are refused, does not count.
func (h *history) aReadyNodeLosesItsTaints(node *corev1.Node) {
	known := h.known[node.Name]
	if !readiness.IsReady(node) || h.Silent[node.Name] || h.refusal.Load() != nil {
		known.ready = 0
		return
	}
	if known.ready > untaintsWithin && slices.ContainsFunc(node.Spec.Taints, forReadiness) {
		h.violated("node %s has been ready for %s and has %v", node.Name, known.ready, node.Spec.Taints)
	}
}

func forReadiness(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

// zonesTaintAtTheirRate says that no zone ever gets first NoExecute taints faster than the highest rate allows, but for
// one at once: not by changes of its state, nor by restarts. Instants are in whole seconds. There are two ways in which
// one more is possible: a token that could not be used because writes were refused can be used shortly before the next
// one, and a restart cannot know of a token whose taint is gone.
func (h *history) zonesTaintAtTheirRate(node *corev1.Node) {
	at := latestToken(node)
	if at.IsZero() || h.known[node.Name].executed {
		return
	}
	zone := node.Labels[corev1.LabelTopologyZone]
	h.tokens[zone] = append(h.tokens[zone], at)
	tokens := h.tokens[zone]
	for i, from := range tokens {
		most := 1 + int((at.Sub(from)+time.Second).Seconds()*readiness.DefaultRate)
		if h.refused.Add(tokenLasts).After(from) {
			most++
		}
		for _, lost := range h.lost[zone] {
			if !lost.Before(from) {
				most++
			}
		}
		if got := len(tokens) - i; got > most {
			h.violated("%d nodes of zone %s were tainted within %s, want %d at most", got, zone, at.Sub(from), most)
			return
		}
	}
}

// latestToken returns when a node got the NoExecute taint for readiness that it has; zero if it has none.
func latestToken(node *corev1.Node) time.Time {
	var latest time.Time
	for _, taint := range executing(node) {
		if taint.TimeAdded != nil && taint.TimeAdded.After(latest) {
			latest = taint.TimeAdded.Time
		}
	}
	return latest
}

// forgetsTokens notes the zones in which no taint tells a Controller that begins now of the latest token.
func (h *history) forgetsTokens() {
	latest := map[string]time.Time{}
	for _, name := range h.nodes {
		node := h.Node(name)
		if zone, at := node.Labels[corev1.LabelTopologyZone], latestToken(node); at.After(latest[zone]) {
			latest[zone] = at
		}
	}
	for zone, tokens := range h.tokens {
		if latest[zone].Before(tokens[len(tokens)-1]) {
			h.lost[zone] = append(h.lost[zone], time.Now())
		}
	}
}

// notices counts a time that has passed, for those invariants that say that something happens in the end.
//
// Silence goes unnoticed without blame while leases can be neither written nor watched, or writes are refused, and some
// time thereafter. A restart begins the count again, and so does the end of a full disruption
// of every zone; but neither does so for a node that was never heard of.
func (h *history) notices(passed time.Duration) {
	if h.refusal.Load() != nil {
		h.refused = time.Now()
	}
	if h.watch.IsHeld() || h.watch.IsBroken() {
		h.blind = time.Now()
	}
	if h.everyZoneMayBeDisrupted() {
		h.forgives()
	}
	fair := !h.inTrouble() && time.Since(h.troubled) > seesAgain && time.Since(h.blind) > seesAgain
	for name, known := range h.known {
		known.ready += passed
		switch {
		case !h.Silent[name], known.silent:
			known.unnoticed = 0
		case fair:
			known.unnoticed += passed
		}
	}
}

func (h *history) forgives() {
	for _, known := range h.known {
		if known.posted {
			known.unnoticed = 0
		}
	}
}

// everyZoneMayBeDisrupted reports whether no node that counts is ready and renews. Sometimes the Controller already thinks
// so although the silent nodes are not yet marked as silent.
func (h *history) everyZoneMayBeDisrupted() bool {
	return !slices.ContainsFunc(h.nodes, func(name string) bool {
		node := h.Node(name)
		_, excluded := node.Labels[excludeDisruption]
		return !excluded && readiness.IsReady(node) && !h.Silent[name]
	})
}

// onlyTheForeignTaintIsLeft is for a cluster that has healed.
func (h *history) onlyTheForeignTaintIsLeft() {
	for _, name := range h.nodes {
		for _, taint := range h.Node(name).Spec.Taints {
			if taint != foreign {
				h.violated("healed node %s has %s", name, taint.ToString())
			}
		}
	}
}
