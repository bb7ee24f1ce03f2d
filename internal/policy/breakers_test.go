// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// brake returns a policy whose breaker lets a number of pods leave, without settling.
func brake(t *testing.T, name string, most int32, change ...func(*spec)) *policy.Policy {
	t.Helper()
	is := spec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(most), Settle: seconds(0)}}
	for _, change := range change {
		change(&is)
	}
	return named(t, name, is)
}

// addSome adds pods on nodes of their own that are due at an instant.
func (c *cluster) addSome(pods int, due time.Time, pod policy.Pod) {
	for i := range pods {
		c.add(types.UID(fmt.Sprint(i)), fmt.Sprintf("n%d", i), due, pod)
	}
}

// flips are the policies that Next said have flipped, in order.
func (c *cluster) flips() []string {
	all := c.flipped
	c.flipped = nil
	return all
}

func TestNextSaysWhichBreakersHaveOpenedOrClosed(t *testing.T) {
	c := newCluster(t)
	c.follow(named(t, "no-breaker", spec{Action: v1alpha1.ActionDelete}), brake(t, "strict", 1), brake(t, "wide", 9))
	c.pass(at(1))
	c.addSome(2, at(5), policy.Pod{})
	c.pass(at(4))
	if flipped := c.flips(); len(flipped) > 0 {
		t.Errorf("%q have flipped before a pod is due", flipped)
	}
	c.pass(at(6))
	if flipped := c.flips(); !slices.Equal(flipped, []string{"strict"}) {
		t.Errorf("%q have opened, want the one that is too strict for two pods", flipped)
	}
	c.pass(at(8))
	if flipped := c.flips(); len(flipped) > 0 {
		t.Errorf("%q have flipped although nothing happens", flipped)
	}
	c.leave("0")
	c.pass(at(9))
	if flipped := c.flips(); !slices.Equal(flipped, []string{"strict"}) || len(c.evict()) != 1 {
		t.Errorf("%q have closed, want the one that one pod satisfies, which then leaves", flipped)
	}
}

func TestAPolicyAfterOneThatDoesNotCountThePodCountsIt(t *testing.T) {
	for name, first := range map[string]func(*spec){
		"without a breaker":      func(s *spec) { s.Breaker = nil },
		"for another taint":      func(s *spec) { s.Taints = taints("other") },
		"whose breaker is ended": func(s *spec) { s.Breaker.ResumedAt = nil; s.Taints = taints("another") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.follow(brake(t, "a", 1, first), brake(t, "b", 1))
			c.addSome(2, at(0), policy.Pod{})
			c.pass(at(1))
			if left := c.evict(); len(left) > 0 {
				t.Errorf("%v have left through a breaker that allows one", left)
			}
		})
	}
}

func TestADeadlineCountsFromWhenTheBreakerThatHaltedThePodCloses(t *testing.T) {
	c := newCluster(t)
	c.follow(brake(t, "brake", 1), named(t, "hold", spec{Action: v1alpha1.ActionHold, Deadline: seconds(10)}))
	for _, uid := range []types.UID{"kept", "x", "y"} {
		c.add(uid, "n-"+string(uid), at(0), policy.Pod{})
	}
	c.pass(at(30)) // the breaker is open since the Hold has let three pods go
	c.leave("x")
	c.leave("y")
	for _, second := range []float64{30, 31, 39.9} {
		c.pass(at(second))
		if left := c.evict(); len(left) > 0 {
			t.Errorf("%v have left at %g s, want the Hold to keep the pod for 10 s after the breaker closed", left, second)
		}
	}
	c.pass(at(40))
	if left := c.evict(); !slices.Equal(left, []types.UID{"kept"}) {
		t.Errorf("%v have left at 40 s, want the pod that was kept", left)
	}
}

func TestChangesThatComeTogetherAreCountedOnce(t *testing.T) {
	c := newCluster(t)
	c.engine = policy.NewEngine(c, time.Second)
	c.follow(brake(t, "brake", 9))
	c.pass(at(5))
	clear(c.counted)
	if _, _, again := c.engine.Next(c.now); !again.IsZero() {
		t.Errorf("nothing has changed, and the engine wants to count at %s", again.Sub(due))
	}
	for _, tt := range []struct {
		at, again float64
		counted   int
	}{{5, 6, 0}, {5.5, 6, 0}, {6, 0, 1}} {
		c.engine.MarkStale("n")
		_, _, again := c.engine.Next(at(tt.at))
		if tt.again > 0 && !again.Equal(at(tt.again)) || tt.again == 0 && !again.IsZero() || c.counted["n"] != tt.counted {
			t.Errorf("at %g s the node was counted %d times, next at %s, want %d and %g s", tt.at, c.counted["n"], again.Sub(due), tt.counted, tt.again)
		}
	}
}

func TestOnlyNodesWhoseDemandChangesWithTimeAreCountedAgain(t *testing.T) {
	c := newCluster(t)
	c.follow(brake(t, "brake", 9))
	c.add("now", "a", at(0), policy.Pod{})
	c.add("soon", "b", at(20), policy.Pod{})
	c.add("later", "c", at(40), policy.Pod{})
	c.pass(at(10))
	clear(c.counted)
	c.engine.Open(c.all[0], c.now)
	if len(c.counted) > 0 {
		t.Errorf("nothing has changed, and %v are counted", c.counted)
	}
	c.now = at(20)
	c.engine.Open(c.all[0], c.now)
	if c.counted["a"]+c.counted["c"] > 0 || c.counted["b"] != 1 {
		t.Errorf("%v are counted, want the node whose pod is due now", c.counted)
	}
}

func TestPodsThatAreNotReadHoldAllOnlyIfTheyCouldBeTooMany(t *testing.T) {
	unread := policy.Pod{Budgets: policy.Budgets{Name: "shop/web", Objects: policy.PodUnread}}
	ask := func(s *spec) { s.Action = v1alpha1.ActionEvict }
	for _, test := range []struct {
		most  int32
		holds bool
	}{{1, true}, {2, false}, {3, false}} {
		t.Run(fmt.Sprint(test.most), func(t *testing.T) {
			c := newCluster(t)
			c.engine.SetBudget("shop/web", 9, c.now)
			c.follow(brake(t, "brake", test.most, ask))
			for i := range 2 {
				c.add(types.UID(fmt.Sprint("u", i)), fmt.Sprintf("u%d", i), at(0), unread)
			}
			c.now = at(1)
			if said := c.engine.Decide(c.leaver("u0", c.now), c.now); said.Why == policy.BreakerOpen || len(c.toRead) == 0 {
				t.Errorf("pods that are not read trip a breaker, or are not read: %v", said.Said)
			}
			ready := c.leaver("u0", c.now)
			ready.Budgets = policy.Budgets{}
			if holds := c.engine.Decide(ready, c.now).Stays(); holds != test.holds {
				t.Errorf("a breaker that allows %d holds a pod that is read, while two are not: %t, want %t", test.most, holds, test.holds)
			}
		})
	}
}

func TestACountThatFlipsABreakerWantsATurn(t *testing.T) {
	c := newCluster(t)
	c.follow(brake(t, "brake", 1))
	c.addSome(2, at(5), policy.Pod{})
	c.pass(at(4))
	if c.now = at(5); c.engine.Pending() || c.engine.Open(c.all[0], c.now) == "" || !c.engine.Pending() {
		t.Error("the engine wants no turn after the breaker was counted and is open")
	}
}

func TestAPodIsReadIfOneOfItsBreakersDependsOnIt(t *testing.T) {
	unread := policy.Pod{Budgets: policy.Budgets{Name: "shop/web", Objects: policy.PodUnread}}
	for name, asking := range map[string]string{"the first": "a", "the last": "b"} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.taints = []string{"asking", "other"}
			policies := map[string]*policy.Policy{}
			for _, name := range []string{"a", "b"} {
				policies[name] = brake(t, name, 9, func(s *spec) { s.Taints = taints("other") })
			}
			policies[asking] = brake(t, asking, 9, func(s *spec) { s.Action, s.Taints = v1alpha1.ActionEvict, taints("asking") })
			c.follow(policies["a"], policies["b"])
			c.add("p", "n", at(0), unread)
			c.toRead = nil
			c.engine.MarkStale("n")
			if c.engine.Open(c.all[0], at(1)); len(c.toRead) == 0 {
				t.Error("the pod is not to be read")
			}
		})
	}
}

func TestABreakerCountsAsManyPodsOfABudgetAsItAllows(t *testing.T) {
	for allowed, opens := range map[int]bool{1: false, 2: true} {
		c := newCluster(t)
		c.engine.SetBudget("shop/web", allowed, c.now)
		c.follow(brake(t, "brake", 1, func(s *spec) { s.Action = v1alpha1.ActionEvict }))
		c.addSome(3, at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
		c.pass(at(1))
		if why := c.engine.Open(c.all[0], c.now); (why != "") != opens {
			t.Errorf("if the budget of three pods allows %d, the breaker says %q, want it open: %t", allowed, why, opens)
		}
	}
}
