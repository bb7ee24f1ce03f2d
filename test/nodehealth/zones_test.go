// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

func TestTheNodesOfASilentZoneAreTaintedAtItsRateAndOtherZonesAreUntouched(t *testing.T) {
	s := newScene(t)
	a, b := s.zone(t, "a", 3), s.zone(t, "b", 2) // of three nodes none is in partial disruption
	const rate = 2 * time.Second
	s.keep(t, "--node-eviction-rate=0.5")

	last := fall(t, a)
	s.executed(t, a, 2)
	s.restart(t)
	s.executed(t, a, 3)

	received := time.Time{} // the first write of conditions: nobody had a turn before
	for i, k := range a {
		if w := s.calledSilent(t, k, last[i].Add(grace)); received.IsZero() || w.Received.Before(received) {
			received = w.Received
		}
	}
	tainted := s.executions(t, a)
	if gap := tainted[1].Received.Sub(received); gap < rate {
		t.Errorf("the second node was tainted %s after the first turn, want at least %s", gap, rate)
	}
	// A restart gives no turn: of the latest the taint's timeAdded tells, which knows whole seconds only.
	checkInstant(t, "the third node was tainted", tainted[2].call, timeAdded(tainted[1]).Add(rate))
	says(t, tainted[1].node.UID, "NoExecuteTaintHeld", "zone local/a has the state ")
	says(t, tainted[1].node.UID, "NoExecuteTaintHeld", "one node of it is tainted every 2 s")

	for _, k := range a {
		s.checkFell(t, k)
		k.returns(t)
		s.becomes(t, k, untainted)
		if story := s.story(t, k); story[len(story)-2] != unreachable {
			t.Errorf("node %s did not lose both taints at once: %q", k.node.Name, story)
		}
	}
	for _, k := range b {
		s.wantStory(t, k)
	}
}

func TestWhileAllZonesAreSilentNobodyIsTaintedNoExecuteUntilOneComesBack(t *testing.T) {
	s := newScene(t)
	a, b := s.zone(t, "a", 2), s.zone(t, "b", 2)
	all := slices.Concat(a, b)
	s.keep(t)

	fall(t, a)
	s.executed(t, a, 2)
	fall(t, b)
	for _, k := range all {
		s.becomes(t, k, unscheduled)
	}
	for _, k := range b {
		says(t, k.node.UID, "NoExecuteTaintHeld", "every zone is fully disrupted (zone local/")
	}
	for _, k := range a { // what they had was taken off, and nothing else
		story := s.story(t, k)
		if !slices.Equal(story[len(story)-2:], []string{unreachable, unscheduled}) {
			t.Errorf("node %s became %q", k.node.Name, story)
		}
	}

	// Neither does a restart in the middle change anything.
	before := s.stories(t, all)
	await.Until(t, s.restart(t).Add(4*time.Second))
	for i, k := range all {
		s.wantStory(t, k, before[i]...)
	}

	from := b[0].returns(t)
	s.becomes(t, b[0], untainted)
	s.wantStory(t, b[0], append(before[2], untainted)...)
	for _, i := range []int{0, 1, 3} {
		s.becomes(t, all[i], unreachable)
		s.wantStory(t, all[i], append(before[i], unreachable)...)
	}
	again := s.executions(t, a)
	if gap := again[3].Received.Sub(from); gap < time.Second {
		t.Errorf("the second node of zone a was tainted %s after the return of a node, want at least 1s", gap)
	}
}

// timeAdded returns since when a node has had its NoExecute taint, in whole seconds, by its own word.
func timeAdded(w write) time.Time {
	i := slices.IndexFunc(w.node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
	return w.node.Spec.Taints[i].TimeAdded.Time
}

// fall makes kubelets silent, all at the same moment. It returns the instant of the last sign of life of each.
func fall(t *testing.T, kubelets []*kubelet) []time.Time {
	t.Helper()
	var last []time.Time
	for _, k := range kubelets {
		last = append(last, k.falls(t))
	}
	return last
}

// executed waits until so many nodes have got a NoExecute taint.
func (s *scene) executed(t *testing.T, kubelets []*kubelet, count int) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("%d nodes have been tainted NoExecute", count), func(context.Context) error {
		if done := s.executions(t, kubelets); len(done) < count {
			return fmt.Errorf("%d have: %v", len(done), s.stories(t, kubelets))
		}
		return nil
	})
}

func (s *scene) stories(t *testing.T, kubelets []*kubelet) [][]string {
	t.Helper()
	var all [][]string
	for _, k := range kubelets {
		all = append(all, s.story(t, k))
	}
	return all
}

// checkFell checks that a node was called silent once and tainted for both effects, NoExecute when its zone
// allowed it, and that no taint went and came back.
func (s *scene) checkFell(t *testing.T, k *kubelet) {
	t.Helper()
	story := s.story(t, k)
	if !slices.Equal(story, []string{silent, unreachable}) && !slices.Equal(story, []string{silent, unscheduled, unreachable}) {
		t.Errorf("node %s became in turn %q", k.node.Name, story)
	}
}
