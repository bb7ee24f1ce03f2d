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

// Its kubelet last posted what is not Unknown. The rest is good: Ready is True, and pressure is False.
func TestANodeThatWasUnknownAllAlongComesBackWithGoodConditions(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionUnknown, corev1.NodeDiskPressure: corev1.ConditionUnknown,
		corev1.NodePIDPressure: corev1.ConditionTrue,
	})
	node.Name = "a"
	play := NewPlay([]*corev1.Node{node, readyNode("b")}, defaultGrace, policy, noon)
	play.Run(noon)
	play.Back("a", noon)
	for _, c := range play.Node("a").Status.Conditions {
		want := map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: corev1.ConditionTrue, corev1.NodeDiskPressure: corev1.ConditionFalse,
			corev1.NodePIDPressure: corev1.ConditionTrue,
		}[c.Type]
		if c.Status != want {
			t.Errorf("%s is %s, want %s", c.Type, c.Status, want)
		}
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
	play.Back("unknown", noon)
	if changed := play.Run(noon); len(changed) > 0 || !play.Next().IsZero() || play.Held("a") != nil {
		t.Errorf("%+v change, and something is to happen at %s", changed, play.Next())
	}
	play.Fall("a", time.Time{}, noon)
	play.Run(play.Next())
	if node.ResourceVersion != before.ResourceVersion || len(node.Spec.Taints) > 0 || !IsReady(node) {
		t.Errorf("the node was changed: %+v", node)
	}
}

// Each outage begins 10 s after noon, or when it says, and extends the one before.
func TestWhenANodeIsSilentAroundAnOutage(t *testing.T) {
	type outage struct{ from, to time.Duration }
	const sec = time.Second
	for name, test := range map[string]struct {
		grace   time.Duration
		outages []outage
		during  bool // it falls silent in the first, a second after noon
		want    time.Duration
	}{
		"a short one changes nothing":                                {DefaultMonitorGrace, []outage{{10 * sec, 10*sec + CountedMost}}, false, DefaultMonitorGrace},
		"one as long as counts gives no extra grace":                 {20 * sec, []outage{{10 * sec, 10*sec + CountedMost}}, false, 20 * sec},
		"a minute, of which 5 s count":                               {DefaultMonitorGrace, []outage{{10 * sec, 70 * sec}}, false, DefaultMonitorGrace + 55*sec},
		"one that is extended counts once":                           {DefaultMonitorGrace, []outage{{10 * sec, 70 * sec}, {20 * sec, 130 * sec}}, false, DefaultMonitorGrace + 115*sec},
		"it falls silent in it, and has 20 s after its grace period": {sec, []outage{{0, 60 * sec}}, true, 60*sec + ExtraGrace - 4*sec}, // 5 s count
	} {
		t.Run(name, func(t *testing.T) {
			play := NewPlay([]*corev1.Node{readyNode("a")}, Grace{Monitor: test.grace}, policy, noon)
			play.Run(noon)
			if !test.during {
				play.Fall("a", time.Time{}, noon)
			}
			for _, is := range test.outages {
				play.Outage(noon.Add(is.from), noon.Add(is.to))
			}
			if test.during {
				play.Fall("a", time.Time{}, noon.Add(sec))
			}
			if got := play.Next().Sub(noon); got != test.want {
				t.Errorf("the node is silent %s after noon, want %s", got, test.want)
			}
		})
	}
}
