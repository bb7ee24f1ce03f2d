// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// pacing is a scene whose pods leave at a pace.
type pacing struct {
	*scene

	scopes map[string]string // of pods
}

// The paces of TestPacesAndBreakersSurviveTheLeader. Its long form is -paced=5 -per=30s -paced-on-node=34 -kills=40s.
var (
	pacedPods   = flag.Int("paced", 2, "how many pods may leave in a window")
	pacedPer    = flag.Duration("per", 8*time.Second, "how long a window is")
	pacedOnNode = flag.Int("paced-on-node", 4, "how many pods each of the three nodes has")
	kills       = flag.Duration("kills", 0, "kill the leader this often while pods leave; 0 kills only one, once")
)

// startPacing makes pods on three nodes in two zones, which are due at once.
func startPacing(s *scene, scope v1alpha1.PaceScope) *pacing {
	s.t.Helper()
	p := &pacing{s, map[string]string{}}
	s.policy(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: int32(*pacedPods), Per: *within(*pacedPer), Scope: scope},
	})
	var nodes []string
	for name, zone := range map[string]string{"a": "east", "b": "east", "c": "west"} {
		node := s.nodeIn(zone, name)
		nodes = append(nodes, node)
		for i := range *pacedOnNode {
			pod := s.pod(fmt.Sprint(name, i), node)
			p.scopes[pod.Name] = map[v1alpha1.PaceScope]string{v1alpha1.ScopeNode: node, v1alpha1.ScopeZone: zone}[scope]
		}
	}
	for _, node := range nodes {
		s.taint(node)
	}
	return p
}

// check waits until all pods have left, and checks when.
func (p *pacing) check() {
	p.t.Helper()
	await.Eventually(p.t, "all pods leave", func(context.Context) error {
		if left := len(p.left()); left < len(p.scopes) {
			return fmt.Errorf("%d of %d have", left, len(p.scopes))
		}
		return nil
	})
	before, twice := map[string][]auditlog.Event{}, map[string]bool{}
	for _, c := range p.left() {
		if twice[c.Name] {
			p.t.Errorf("deleted twice: %v", c)
		}
		twice[c.Name] = true
		scope := p.scopes[c.Name]
		if i := len(before[scope]) - *pacedPods; i >= 0 && c.Received.Sub(before[scope][i].Received) < *pacedPer {
			p.t.Errorf("scope %q: %d pods left within %s", scope, *pacedPods+1, c.Received.Sub(before[scope][i].Received))
		}
		before[scope] = append(before[scope], c)
	}
}

// TestPacesAndBreakersSurviveTheLeader kills the leader and later stops the next one, so it runs alone.
func TestPacesAndBreakersSurviveTheLeader(t *testing.T) {
	standby, err := startReplica(t.Context(), "two")
	await.Must(t, err)
	tripped := sceneFor(t)
	node := tripped.node("tainted")
	policy := tripped.policy(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2)},
	})
	pods := []*corev1.Pod{tripped.pod("a", node), tripped.pod("b", node), tripped.pod("c", node)}
	tripped.taint(node)
	tripped.awaitTripped(policy, metav1.ConditionTrue)
	var paced []*pacing
	for _, scope := range []v1alpha1.PaceScope{v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster} {
		paced = append(paced, startPacing(sceneFor(t), scope))
	}
	await.Eventually(t, "pods leave", func(context.Context) error {
		for _, p := range paced {
			if len(p.left()) == 0 {
				return fmt.Errorf("none has left in %s", p.Namespace)
			}
		}
		return nil
	})

	await.Must(t, leader.Kill())
	tripped.wipeStatus(policy)
	leader, err = startReplica(t.Context(), "one")
	await.Must(t, err)
	tripped.awaitTripped(policy, metav1.ConditionTrue)
	if *kills > 0 {
		leader, standby = killInTurns(t, leader, standby, paced)
	}
	await.Must(t, standby.Stop())
	for _, p := range paced {
		p.check()
	}
	for _, pod := range pods {
		tripped.stays(pod)
	}
	tripped.untaint(node)
	tripped.awaitTripped(policy, metav1.ConditionFalse)
}

// killInTurns repeatedly kills the leader and waits until the standby leads, until all pods have left.
func killInTurns(t *testing.T, leads, follows *localcluster.Taintkeeper, paced []*pacing) (_, _ *localcluster.Taintkeeper) {
	t.Helper()
	const takeover = 20 * time.Second // a Lease lasts 15 s
	for slices.ContainsFunc(paced, func(p *pacing) bool { return len(p.left()) < len(p.scopes) }) {
		await.Until(t, time.Now().Add(*kills-takeover))
		await.Must(t, leads.Kill())
		await.Until(t, time.Now().Add(takeover))
		again, err := startReplica(t.Context(), string(leads.Component()))
		await.Must(t, err)
		leads, follows = follows, again
	}
	return leads, follows
}

// wipeStatus removes what is known about a policy from its status.
func (s *scene) wipeStatus(policy string) {
	s.t.Helper()
	var object v1alpha1.EvictionPolicy
	await.Must(s.t, custom.Get(s.t.Context(), client.ObjectKey{Name: policy}, &object))
	object.Status = v1alpha1.EvictionPolicyStatus{}
	await.Must(s.t, custom.Status().Update(s.t.Context(), &object))
}

func TestBreaker(t *testing.T) {
	const settle = 5 * time.Second
	s := newScene(t)
	nodes := map[string][]*corev1.Pod{}
	for name, pods := range map[string]int{"few": 2, "first": 3, "second": 3} {
		for i := range pods {
			if i == 0 {
				s.node(name)
			}
			nodes[name] = append(nodes[name], s.pod(fmt.Sprint(name, i), s.NodeName(name)))
		}
	}
	policy := s.policy(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromString("25%"), Settle: within(settle)},
	})
	trips := func(node string) {
		came := s.taint(s.NodeName(node))
		c := s.awaitTripped(policy, metav1.ConditionTrue)
		late := c.LastTransitionTime.Sub(came)
		if !strings.HasPrefix(c.Message, "3 of ") || late > cluster.Stalls().Allowed(came, c.LastTransitionTime.Time) {
			t.Errorf("tainted at %s, the condition is %+v", came, c)
		}
		await.Until(t, came.Add(3*settle))
		for _, pod := range nodes[node] {
			s.stays(pod)
		}
	}

	came := s.taint(s.NodeName("few")) // exactly as many as may be
	for _, pod := range nodes["few"] {
		s.wantBetween("pod leaves", s.leaves(pod), came.Add(settle), came.Add(settle))
	}
	trips("first")
	resumed := time.Now()
	s.edit(policy, func(spec *v1alpha1.EvictionPolicySpec) { spec.Breaker.ResumedAt = new(metav1.NewTime(resumed)) })
	for _, pod := range nodes["first"] {
		s.wantBetween("pod leaves", s.leaves(pod), resumed, resumed.Add(settle))
	}
	s.awaitTripped(policy, metav1.ConditionFalse)
	trips("second")
	s.untaint(s.NodeName("second"))
	s.awaitTripped(policy, metav1.ConditionFalse)
}
