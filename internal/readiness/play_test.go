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
	for i, changed := range play.Run(play.Next()) {
		if len(changed.Conditions) == 0 || changed.Node.Name != string(rune('a'+i)) || len(changed.Node.Spec.Taints) != 2-i {
			t.Errorf("node %d to change is %s with the taints %v, want NoSchedule at once, and NoExecute if it is first",
				i, changed.Node.Name, changed.Node.Spec.Taints)
		}
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
