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

func TestAForecastTakesNodesThatFallAtOneInstantByName(t *testing.T) {
	var nodes []*corev1.Node
	for _, name := range []string{"c", "a", "b", "d", "e"} {
		nodes = append(nodes, readyNode(name))
	}
	for i, course := range Forecast(nodes, []string{"b", "a"}, nil, defaultGrace, policy, noon)[:2] {
		if want := noon.Add(DefaultMonitorGrace); !course.SilentAt.Equal(want) {
			t.Errorf("node %s is silent at %s, want %s", course.Node, course.SilentAt, want)
		}
		first := course.Steps[0]
		if !first.At.Equal(course.SilentAt) || len(first.Taints) != 2-i {
			t.Errorf("at %s node %s has the taints %v, want NoSchedule at once, and NoExecute if it is first", first.At, course.Node, first.Taints)
		}
	}
}

func TestAForecastWithoutSilentNodesChangesNothing(t *testing.T) {
	node := readyNode("a")
	before := node.DeepCopy()
	courses := Forecast([]*corev1.Node{node}, nil, nil, defaultGrace, policy, noon)
	if len(courses) != 1 || len(courses[0].Steps) != 0 || courses[0].Held != nil || !courses[0].SilentAt.IsZero() {
		t.Errorf("the courses are %+v, want that of node a, on which nothing happens", courses)
	}
	Forecast([]*corev1.Node{node}, []string{"a", "unknown"}, nil, defaultGrace, policy, noon)
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
