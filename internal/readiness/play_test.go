// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var defaultGrace = Grace{Monitor: DefaultMonitorGrace, Startup: DefaultStartupGrace}

// readyNode returns a node with the given name, which says that it is ready.
func readyNode(name string) *corev1.Node {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue})
	node.Name = name
	return node
}

func TestNodesThatFallSilentAtOneInstantAreTakenByName(t *testing.T) {
	var nodes []*corev1.Node
	for _, name := range []string{"c", "a", "b", "d", "e"} {
		nodes = append(nodes, readyNode(name))
	}
	play := NewPlay(nodes, defaultGrace, policy, noon)
	play.Run(noon)
	play.Fall("b", time.Time{}, noon)
	play.Fall("a", time.Time{}, noon)
	if got, want := play.Next(), noon.Add(DefaultMonitorGrace); !got.Equal(want) {
		t.Errorf("they are silent at %s, want %s", got, want)
	}
	all := play.Run(play.Next())
	if len(all) != 2 {
		t.Fatalf("%d nodes change, want both", len(all))
	}
	for i, changed := range all {
		if len(changed.Conditions) == 0 || changed.Node.Name != string(rune('a'+i)) || len(changed.Node.Spec.Taints) != 2-i {
			t.Errorf("node %d to change is %s with the taints %v, want NoSchedule at once, and NoExecute if it is first",
				i, changed.Node.Name, changed.Node.Spec.Taints)
		}
	}
}

func TestTheNextTokenOfAZoneChangesOnlyTaints(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a"), readyNode("b"), readyNode("c")}, defaultGrace, policy, noon)
	play.Run(noon)
	play.Fall("a", time.Time{}, noon)
	play.Fall("b", time.Time{}, noon)
	play.Run(play.Next())
	if all := play.Run(play.Next()); len(all) != 1 || all[0].Node.Name != "b" || !all[0].Retainted || len(all[0].Conditions) > 0 {
		t.Errorf("with the next token %+v change, want the taints of b", all)
	}
	if next := play.Next(); !next.IsZero() {
		t.Errorf("something is to happen at %s", next)
	}
}

func TestANodeThatComesBackInTimeIsNotCalledSilent(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a"), readyNode("b")}, defaultGrace, policy, noon)
	play.Run(noon)
	play.Fall("a", time.Time{}, noon)
	play.Back("a", noon.Add(10*time.Second))
	if changed := play.Run(play.Next()); len(changed) > 0 || !play.Next().IsZero() {
		t.Errorf("%+v change, and something is to happen at %s", changed, play.Next())
	}
}

func TestWhenTheLastNodeFallsSilentTheTaintsOfTheOthersAreRemoved(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a"), readyNode("b")}, defaultGrace, policy, noon)
	play.Run(noon)
	play.Fall("a", time.Time{}, noon)
	play.Fall("b", time.Time{}, noon.Add(time.Minute))
	tainted := func(name string) (noExecute int) {
		for _, taint := range play.Node(name).Spec.Taints {
			if taint.Effect == corev1.TaintEffectNoExecute {
				noExecute++
			}
		}
		return noExecute
	}
	if play.Run(play.Next()); tainted("a") != 1 {
		t.Errorf("node a has %v, want a NoExecute taint while b is ready", play.Node("a").Spec.Taints)
	}
	for next := play.Next(); !next.IsZero() && next.Before(noon.Add(time.Hour)); next = play.Next() {
		play.Run(next)
	}
	if tainted("a")+tainted("b") != 0 {
		t.Errorf("the nodes have %v and %v, want no NoExecute taint while no node is ready", play.Node("a").Spec.Taints, play.Node("b").Spec.Taints)
	}
}

func TestAPlayWithoutSilentNodesChangesNothing(t *testing.T) {
	node := readyNode("a")
	before := node.DeepCopy()
	play := NewPlay([]*corev1.Node{node}, defaultGrace, policy, noon)
	play.Fall("unknown", time.Time{}, noon)
	if changed := play.Run(noon); len(changed) > 0 || !play.Next().IsZero() || play.Held("a") != nil {
		t.Errorf("%+v change, and something is to happen at %s", changed, play.Next())
	}
	play.Fall("a", time.Time{}, noon)
	play.Run(play.Next())
	if node.ResourceVersion != before.ResourceVersion || len(node.Spec.Taints) > 0 || !IsReady(node) {
		t.Errorf("the node was changed: %+v", node)
	}
}

func TestANodeThatFallsSilentInAnOutageIsGivenTimeAfterIt(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a")}, Grace{Monitor: time.Second}, policy, noon)
	play.Run(noon)
	over := noon.Add(time.Minute)
	play.Outage(noon, over)
	play.Fall("a", time.Time{}, noon.Add(time.Second))
	// Of the outage 5 s count, which is 4 s more than the grace period. A node counts as silent 20 s after its grace
	// period.
	if got, want := play.Next(), over.Add(ExtraGrace-4*time.Second); !got.Equal(want) {
		t.Errorf("the node is silent at %s, want %s", got, want)
	}
}

func TestAShortOutageChangesNothing(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a")}, defaultGrace, policy, noon)
	play.Run(noon)
	play.Fall("a", time.Time{}, noon)
	play.Outage(noon.Add(10*time.Second), noon.Add(10*time.Second+CountedMost))
	if got, want := play.Next(), noon.Add(DefaultMonitorGrace); !got.Equal(want) {
		t.Errorf("the node is silent at %s, want %s", got, want)
	}
}

func TestAnOutageOfAsLongAsCountsGivesNoExtraGrace(t *testing.T) {
	play := NewPlay([]*corev1.Node{readyNode("a")}, Grace{Monitor: 20 * time.Second}, policy, noon)
	play.Run(noon)
	play.Fall("a", time.Time{}, noon)
	play.Outage(noon.Add(10*time.Second), noon.Add(10*time.Second+CountedMost))
	if got, want := play.Next(), noon.Add(20*time.Second); !got.Equal(want) {
		t.Errorf("the node is silent at %s, want %s", got, want)
	}
}

func TestAnOutageThatLastsLongerCountsOnce(t *testing.T) {
	silent := func(outages ...time.Duration) time.Time {
		play := NewPlay([]*corev1.Node{readyNode("a")}, defaultGrace, policy, noon)
		play.Run(noon)
		play.Fall("a", time.Time{}, noon)
		for _, until := range outages {
			play.Outage(noon.Add(10*time.Second), noon.Add(until))
		}
		return play.Next()
	}
	if got, want := silent(time.Minute, 2*time.Minute), silent(2*time.Minute); !got.Equal(want) {
		t.Errorf("after an outage that was extended, the node is silent at %s, want %s", got, want)
	}
}
