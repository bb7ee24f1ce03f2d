// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// slow returns a policy with a pace.
func slow(t *testing.T, name string, pods int32, per float64, scope v1alpha1.PaceScope) *policy.Policy {
	t.Helper()
	pace := &v1alpha1.EvictionPace{Pods: pods, Per: *seconds(per), Scope: scope}
	return named(t, name, spec{Action: v1alpha1.ActionDelete, Pace: pace})
}

// leaveUntil evicts what may leave at each second, and returns how many pods have left at an instant.
func (c *cluster) leaveUntil(second int) (left int) {
	for now := int(c.now.Sub(due) / time.Second); now <= second; now++ {
		c.pass(at(float64(now)))
		left += len(c.evict())
	}
	return left
}

func TestWhatAPaceRemembersWhenItsPolicyChanges(t *testing.T) {
	plain := func(t *testing.T) *policy.Policy {
		t.Helper()
		return named(t, "a", spec{Action: v1alpha1.ActionDelete})
	}
	for name, test := range map[string]struct {
		then  func(t *testing.T) *policy.Policy
		known bool // in the cluster as long as in the Engine
		want  int  // how many pods may leave within 9 s after the change
	}{
		"nothing changes":       {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "b", 2, 60, v1alpha1.ScopeCluster) }, true, 0},
		"more pods":             {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "b", 5, 60, v1alpha1.ScopeCluster) }, true, 3},
		"a shorter time":        {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "b", 2, 15, v1alpha1.ScopeCluster) }, true, 2},
		"a longer time":         {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "b", 5, 100, v1alpha1.ScopeCluster) }, true, 0},
		"another scope":         {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "b", 9, 60, v1alpha1.ScopeNode) }, true, 0},
		"a policy that is new":  {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "c", 3, 60, v1alpha1.ScopeCluster) }, true, 3},
		"one that may be older": {func(t *testing.T) *policy.Policy { t.Helper(); return slow(t, "c", 3, 60, v1alpha1.ScopeCluster) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.follow(plain(t), slow(t, "b", 2, 60, v1alpha1.ScopeCluster))
			for i := range 9 {
				c.add(types.UID(fmt.Sprint(i)), fmt.Sprintf("n%d", i), at(0), policy.Pod{})
			}
			if left := c.leaveUntil(10); left != 2 {
				t.Fatalf("%d pods have left at a pace of 2", left)
			}
			c.all = []*policy.Policy{plain(t), test.then(t)}
			c.engine.Follow(c.all, c.now, test.known)
			for _, node := range c.Tainted() {
				c.look(node)
			}
			if left := c.leaveUntil(19); left != test.want {
				t.Errorf("%d pods have left within 9 s, want %d", left, test.want)
			}
		})
	}
}

func TestAFreePlaceOfABudgetIsNotForAPodThatWaitsForAPace(t *testing.T) {
	c := newCluster(t)
	c.engine.SetBudget("shop/web", 9, c.now)
	c.taints = []string{"x", "y"}
	c.follow(
		named(t, "ask", spec{Action: v1alpha1.ActionEvict, Taints: taints("x")}),
		named(t, "slow", spec{Action: v1alpha1.ActionDelete, Taints: taints("y"), Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}}),
	)
	for _, uid := range []types.UID{"a", "b"} {
		c.add(uid, "n", at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
	}
	if left := c.leaveUntil(1); left != 1 {
		t.Errorf("%d pods have left at a pace of 1", left)
	}
	for uid := range c.pods {
		if said := c.engine.Decide(c.leaver(uid, c.now), c.now); !said.Stays() {
			t.Errorf("pod %s, which waits for the pace, is asked about: %v", uid, said.Said)
		}
	}
}

func TestAPodThatNeedsAPaceAndABudgetSaysWhichIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		allowed int
		want    policy.Why
	}{"the pace": {9, policy.Paced}, "the budget": {0, policy.Budget}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.engine.Exact = true
			c.engine.SetBudget("shop/web", test.allowed, c.now)
			pace := &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}
			c.follow(named(t, "both", spec{Action: v1alpha1.ActionEvict, Pace: pace}))
			for _, uid := range []types.UID{"a", "b"} {
				c.add(uid, "n", at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
			}
			c.leaveUntil(1)
			for uid := range c.pods {
				if said := c.engine.Decide(c.leaver(uid, c.now), c.now); said.Why != test.want {
					t.Errorf("the answer is %v, want %s", said.Said, test.want)
				}
			}
		})
	}
}

func TestAPaceIsKeptIfAnotherThatIsKeptComesFirst(t *testing.T) {
	c := newCluster(t)
	all := []*policy.Policy{slow(t, "a", 9, 60, v1alpha1.ScopeCluster), slow(t, "b", 2, 60, v1alpha1.ScopeCluster)}
	for i := range 9 {
		c.add(types.UID(fmt.Sprint(i)), fmt.Sprintf("n%d", i), at(0), policy.Pod{})
	}
	c.follow(all...)
	c.leaveUntil(1)
	c.follow(all...)
	if left := c.leaveUntil(10); left != 0 {
		t.Errorf("%d more pods have left at a pace of 2 per minute", left)
	}
}

func TestSinceWhenDeparturesAreKnownAfterAPaceHasChanged(t *testing.T) {
	for name, test := range map[string]struct{ next, since, want float64 }{
		"a longer window: only the last one is known":      {100, -90, -50},
		"a longer window, known for less than the old one": {100, -20, -20},
		"a shorter window":           {30, -90, -90},
		"a window as long as before": {60, -90, -90},
	} {
		pace := policy.Pace{Per: time.Minute}
		if got := pace.KnownSince(policy.Pace{Per: seconds(test.next).Duration}, at(test.since), at(10)); !got.Equal(at(test.want)) {
			t.Errorf("%s: departures are known since %s, want %g s", name, got.Sub(due), test.want)
		}
	}
}
