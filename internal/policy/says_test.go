// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// What policies and pods of these tests are made of.
var (
	maintenance = "maintenance until noon"
	empty       = ""
	tripped     = policy.State{Open: "9 of 30 selected pods would leave, and the breaker allows 3"}
	unread      = policy.State{Unread: true}

	finished  = policy.Pod{Finished: true}
	unready   = policy.Pod{Unready: true}
	ending    = policy.Pod{NamespaceEnds: true, Finished: true}
	allowed   = policy.Pod{Budgets: policy.Budgets{Name: "web"}}
	blocked   = policy.Pod{Budgets: policy.Budgets{Objects: policy.Budget, Name: "web"}}
	blockedBy = func(why policy.Why) policy.Pod {
		return policy.Pod{Budgets: policy.Budgets{Objects: why, Name: "web, db"}}
	}
	blockedUnready = policy.Pod{Unready: true, Budgets: blocked.Budgets}
)

// held, waits and asked are the answers of policy p; n is when the answer ends, in seconds after due; 0 is never.
func held(why policy.Why, n float64, detail string) policy.Answer {
	return policy.Answer{Step: policy.Hold, Policy: "p", Why: why, Until: end(n), Detail: detail}
}

func waits(why policy.Why, n float64) policy.Answer {
	return policy.Answer{Step: policy.Wait, Policy: "p", Why: why, Until: end(n)}
}

func asked(n float64, budget string) policy.Answer {
	return policy.Answer{Step: policy.Ask, Policy: "p", Until: end(n), Detail: budget}
}

var free policy.Answer

func end(n float64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return at(n)
}

// room is the state of a pace that has room n seconds after due.
func room(n float64) policy.State { return policy.State{Room: since(n)} }

func since(n float64) func() time.Time { return func() time.Time { return at(n) } }

// everything is a policy in which each line has something to say.
func everything(edits ...func(*spec)) spec {
	s := spec{
		Action: v1alpha1.ActionHold, Deadline: seconds(600), Finished: v1alpha1.FinishedKeep, Paused: &maintenance,
		Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}, Breaker: &v1alpha1.EvictionBreaker{Settle: seconds(10)},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func dryRun(s *spec)   { s.DryRun = true }
func unpaused(s *spec) { s.Paused = nil }
func evicts(s *spec)   { s.Action = v1alpha1.ActionEvict }
func deletes(s *spec)  { s.Action, s.Deadline = v1alpha1.ActionDelete, nil }

var all = policy.State{Open: tripped.Open, Room: since(3600)}

// TestTheRuleOfOnePolicy has the lines of the rule in their order (doc.go).
func TestTheRuleOfOnePolicy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spec  spec
		pod   policy.Pod
		now   float64 // in seconds after due
		state policy.State
		want  policy.Answer
	}{
		{"1: a dry run objects to nothing", everything(dryRun), finished, 0, all, free},
		{"1: nor does any policy in a namespace that is being deleted, not even for a finished pod", everything(), ending, 0, all, free},
		{"1: finished: Keep holds a pod that has finished, before a pause", everything(), finished, 0, all, held(policy.Finished, 0, "")},
		{"1: and never lets it go", everything(unpaused), finished, 1e6, policy.State{}, held(policy.Finished, 0, "")},
		{"1: with finished: Delete it is treated like any other pod", spec{Action: v1alpha1.ActionHold, Finished: v1alpha1.FinishedDelete}, finished, 0, all, held(policy.Held, 0, "")},
		{"1: which is the default", spec{Action: v1alpha1.ActionEvict}, finished, 0, policy.State{}, asked(0, "")},

		{"2: a pause holds, before an open breaker, and says its reason", everything(), policy.Pod{}, 0, all, held(policy.Paused, 0, maintenance)},
		{"2: a pause outranks the deadline", everything(), policy.Pod{}, 1e6, policy.State{}, held(policy.Paused, 0, maintenance)},
		{"2: a pause holds unready pods too", everything(evicts), unready, 0, all, held(policy.Paused, 0, maintenance)},
		{"2: an empty reason pauses as well", spec{Action: v1alpha1.ActionDelete, Paused: &empty}, policy.Pod{}, 0, policy.State{}, held(policy.Paused, 0, "")},
		{"2: an open breaker holds, before it has settled", everything(unpaused), policy.Pod{}, 0, all, held(policy.BreakerOpen, 0, tripped.Open)},
		{"2: an open breaker outranks the deadline", everything(unpaused), policy.Pod{}, 1e6, tripped, held(policy.BreakerOpen, 0, tripped.Open)},
		{"2: an open breaker holds unready pods too", everything(unpaused, evicts), unready, 60, tripped, held(policy.BreakerOpen, 0, tripped.Open)},
		{"2: an open breaker holds what becomes due when it is resumed", resumed(0), policy.Pod{}, 60, tripped, held(policy.BreakerOpen, 0, tripped.Open)},
		{"2: and what was due before, until then", resumed(60), policy.Pod{}, 59.999, tripped, held(policy.BreakerOpen, 60, tripped.Open)},
		{"2: but not from then on", resumed(60), policy.Pod{}, 60, tripped, free},
		{"2: what is resumed goes at the pace", resumed(60), policy.Pod{}, 60, policy.State{Open: tripped.Open, Room: since(90)}, waits(policy.Paced, 90)},
		{"2: what is resumed need not settle", resumed(1), policy.Pod{}, 1, tripped, free},

		{"3: a pod waits until due + settle, before the action counts", everything(unpaused), policy.Pod{}, 0, room(3600), waits(policy.Settling, 10)},
		{"3: an unready pod waits too", everything(unpaused, evicts), blockedUnready, 9.999, room(3600), waits(policy.Settling, 10)},
		{"3: and not longer", everything(unpaused), policy.Pod{}, 10, room(3600), held(policy.Held, 600, "")},
		{"3: settle outranks the deadline", spec{Action: v1alpha1.ActionHold, Deadline: seconds(5), Breaker: &v1alpha1.EvictionBreaker{Settle: seconds(10)}}, policy.Pod{}, 7, policy.State{}, waits(policy.Settling, 10)},
		{"3: a pod that has settled waits while others may turn out to be too many", everything(unpaused, deletes), policy.Pod{}, 10, unread, waits(policy.PodUnread, 0)},
		{"3: also after the deadline", everything(unpaused), policy.Pod{}, 1e6, unread, waits(policy.PodUnread, 0)},
		{"3: but not one that is resumed", resumed(60), policy.Pod{}, 60, unread, free},

		{"4: Hold holds until due + deadline", spec{Action: v1alpha1.ActionHold, Deadline: seconds(60)}, policy.Pod{}, 59.999, policy.State{}, held(policy.Held, 60, "")},
		{"4: and not longer", spec{Action: v1alpha1.ActionHold, Deadline: seconds(60)}, policy.Pod{}, 60, policy.State{}, free},
		{"4: without a deadline it never lets the pod go", spec{Action: v1alpha1.ActionHold}, policy.Pod{}, 1e6, policy.State{}, held(policy.Held, 0, "")},
		{"4: it holds unready pods", spec{Action: v1alpha1.ActionHold}, unready, 0, policy.State{}, held(policy.Held, 0, "")},
		{"4: it does not look at budgets", spec{Action: v1alpha1.ActionHold}, blocked, 0, policy.State{}, held(policy.Held, 0, "")},
		{"4: Evict holds while the budget allows nothing, and names it", spec{Action: v1alpha1.ActionEvict, Deadline: seconds(60)}, blocked, 59.999, policy.State{}, held(policy.Budget, 60, "web")},
		{"4: without a deadline it never stops holding", spec{Action: v1alpha1.ActionEvict}, blocked, 1e6, policy.State{}, held(policy.Budget, 0, "web")},
		{"4: at the deadline the pod leaves", spec{Action: v1alpha1.ActionEvict, Deadline: seconds(60)}, blocked, 60, policy.State{}, free},
		{"4: several budgets hold", spec{Action: v1alpha1.ActionEvict}, blockedBy(policy.SeveralBudgets), 0, policy.State{}, held(policy.SeveralBudgets, 0, "web, db")},
		{"4: so does a right that is missing", spec{Action: v1alpha1.ActionEvict}, blockedBy(policy.NotPermitted), 0, policy.State{}, held(policy.NotPermitted, 0, "web, db")},
		{"4: a budget holds before the pace has room", spec{Action: v1alpha1.ActionEvict}, blocked, 0, room(30), held(policy.Budget, 0, "web")},
		{"4: a pod that must be read first waits, which is milder than what other policies hold", spec{Action: v1alpha1.ActionEvict, Deadline: seconds(60)}, blockedBy(policy.PodUnread), 59.999, policy.State{}, waits(policy.PodUnread, 60)},
		{"4: until the deadline", spec{Action: v1alpha1.ActionEvict, Deadline: seconds(60)}, blockedBy(policy.PodUnread), 60, policy.State{}, free},
		{"4: no budget holds an unready pod", spec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyDelete}, blockedUnready, 0, policy.State{}, free},
		{"4: nor by default", spec{Action: v1alpha1.ActionEvict}, blockedUnready, 0, policy.State{}, free},
		{"4: unless unready is Ask", spec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyAsk}, blockedUnready, 0, policy.State{}, held(policy.Budget, 0, "web")},
		{"4: no budget holds for the action Delete", everything(unpaused, deletes), blocked, 60, policy.State{}, free},

		{"5: a pod waits until the pace has room", everything(unpaused, deletes), policy.Pod{}, 10, room(30), waits(policy.Paced, 30)},
		{"5: and not longer", everything(unpaused, deletes), policy.Pod{}, 30, room(30), free},
		{"5: an unready pod waits too", everything(unpaused, evicts), unready, 10, room(30), waits(policy.Paced, 30)},
		{"5: a pod that the Eviction API would be asked about waits first", everything(unpaused, evicts), allowed, 10, room(30), waits(policy.Paced, 30)},
		{"5: the pace outranks the deadline", everything(unpaused), policy.Pod{}, 600, room(900), waits(policy.Paced, 900)},

		{"6: Evict asks about a pod without a budget", spec{Action: v1alpha1.ActionEvict}, policy.Pod{}, 1e6, policy.State{}, asked(0, "")},
		{"6: and about one with a budget, until due + deadline", everything(unpaused, evicts), allowed, 599.999, room(30), asked(600, "web")},
		{"6: at the deadline the pod leaves", everything(unpaused, evicts), allowed, 600, room(30), free},
		{"6: an unready pod leaves", spec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyDelete}, unready, 0, policy.State{}, free},
		{"6: by default, too", spec{Action: v1alpha1.ActionEvict}, unready, 0, policy.State{}, free},
		{"6: unless unready is Ask", spec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyAsk}, unready, 0, policy.State{}, asked(0, "")},

		{"7: Delete deletes", spec{Action: v1alpha1.ActionDelete}, policy.Pod{}, 0, policy.State{}, free},
		{"7: also finished pods by default", spec{Action: v1alpha1.ActionDelete}, finished, 0, policy.State{}, free},
		{"7: finished: Keep keeps no other pod", spec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep}, unready, 0, policy.State{}, free},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := named(t, "p", tt.spec).Says(&tt.pod, policy.Cause{Due: due}, at(tt.now), tt.state)
			if got != tt.want {
				t.Errorf("%v s after due it says %+v, want %+v", tt.now, got, tt.want)
			}
			if got.Stays() != (tt.want.Step == policy.Hold || tt.want.Step == policy.Wait) {
				t.Errorf("the pod stays: %t", got.Stays())
			}
		})
	}
}

// resumed has a breaker that was resumed that many seconds after due.
func resumed(n float64) spec {
	b := atMost("3")
	b.Settle = seconds(10)
	resumedAt(n)(b)
	return spec{Action: v1alpha1.ActionDelete, Breaker: b}
}

// because is a taint that makes the pod due n seconds after due.
func because(key string, n float64) policy.Cause {
	return policy.Cause{Taint: &corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}, Due: at(n)}
}

func taints(key string) []v1alpha1.EvictionPolicyTaint {
	return []v1alpha1.EvictionPolicyTaint{{Key: key}}
}

func TestAPodNeedsThePlacesOfTheTaintsThatLetItGoMostMildly(t *testing.T) {
	paced := func(of string) spec {
		return spec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}, Taints: taints(of)}
	}
	evicts := spec{Action: v1alpha1.ActionEvict, Taints: taints("x")}
	x, y := because("x", 2), because("y", 1)
	for _, tt := range []struct {
		name     string
		policies []spec
		pod      policy.Pod
		causes   []policy.Cause
		paces    string
		budget   bool
		due      float64
	}{
		{"a pace", []spec{paced("x")}, policy.Pod{}, []policy.Cause{x}, "a", false, 2},
		{"the pace counts once", []spec{paced("x")}, policy.Pod{}, []policy.Cause{x, x}, "a", false, 2},
		{"the paces of all taints, since the first of them", []spec{paced("x"), paced("y")}, policy.Pod{}, []policy.Cause{x, y}, "a b", false, 1},
		{"a budget", []spec{evicts}, allowed, []policy.Cause{x}, "", true, 2},
		{"a budget and a pace", []spec{evicts, paced("x")}, allowed, []policy.Cause{x}, "b", true, 2},
		{"no budget of a taint that asks if another does not", []spec{evicts, paced("y")}, allowed, []policy.Cause{x, y}, "b", false, 1},
		{"nor its pace", []spec{evicts, paced("x"), paced("y")}, allowed, []policy.Cause{y, x}, "c", false, 1},
		{"nothing of a budget that it does not have", []spec{evicts}, policy.Pod{}, []policy.Cause{x}, "", false, 0},
		{"a pace of a taint that deletes it, although another asks without places", []spec{evicts, paced("y")}, policy.Pod{}, []policy.Cause{x, y}, "b", false, 1},
		{"nothing if one taint lets it go without", []spec{paced("x")}, policy.Pod{}, []policy.Cause{x, y}, "", false, 0},
		{"nothing of a taint that is not due", []spec{paced("x"), paced("y")}, policy.Pod{}, []policy.Cause{because("x", 4), y}, "b", false, 1},
		{"nothing of a taint for which it is held", []spec{{Action: v1alpha1.ActionHold, Taints: taints("x")}, paced("y")}, policy.Pod{}, []policy.Cause{x, y}, "b", false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var policies []*policy.Policy
			for i, spec := range tt.policies {
				policies = append(policies, named(t, string(rune('a'+i)), spec))
			}
			got := policy.NeedsOf(policies, &tt.pod, tt.causes, at(3), func(*policy.Policy) policy.State { return policy.State{} })
			var paces []string
			for _, p := range got.Paces {
				paces = append(paces, p.Name)
			}
			due := time.Time{}
			if tt.due > 0 {
				due = at(tt.due)
			}
			if strings.Join(paces, " ") != tt.paces || got.Budget != tt.budget || !got.Due.Equal(due) {
				t.Errorf("it needs the paces %v, a budget: %t, since %v; want %q, %t, %v", paces, got.Budget, got.Due, tt.paces, tt.budget, due)
			}
		})
	}
}

// TestTheRuleOfAllPolicies has the policies a, b and so on, in this order.
func TestTheRuleOfAllPolicies(t *testing.T) {
	var (
		deletes = spec{Action: v1alpha1.ActionDelete}
		evicts  = spec{Action: v1alpha1.ActionEvict}
		settles = spec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{Settle: seconds(20)}}
		holds   = spec{Action: v1alpha1.ActionHold}
	)
	until := func(n float64, s spec) spec { s.Deadline = seconds(n); return s }
	only := func(key string, s spec) spec { s.Taints = taints(key); return s }
	paused := func(s spec) spec { s.Paused = &maintenance; return s }
	for _, tt := range []struct {
		name     string
		policies []spec
		causes   []policy.Cause
		now      float64
		want     string  // the step, and which policy objects for which reason
		until    float64 // 0: never
		again    float64 // 0: never
	}{
		{"without a policy a pod leaves", nil, []policy.Cause{because("x", 0)}, 0, "Free", 0, 0},
		{"without a policy the next taint tells nothing, but is looked at", nil, []policy.Cause{because("x", 0), because("y", 60)}, 0, "Free", 0, 60},

		{"one that asks is stricter than one that does not", []spec{deletes, evicts}, []policy.Cause{because("x", 0)}, 0, "Ask b", 0, 0},
		{"one that waits is stricter than one that asks", []spec{evicts, settles}, []policy.Cause{because("x", 0)}, 0, "Wait b Settling", 20, 20},
		{"one that holds is stricter than one that waits", []spec{until(5, holds), settles}, []policy.Cause{because("x", 0)}, 0, "Hold a Held", 5, 5},
		{"then the one that waits is left, which counts the pod only now", []spec{until(5, holds), settles}, []policy.Cause{because("x", 0)}, 5, "Wait b Settling", 25, 25},
		{"of two that hold the later one is stricter", []spec{until(60, holds), until(90, holds)}, []policy.Cause{because("x", 0)}, 0, "Hold b Held", 90, 60},
		{"and one that does not end is later than any", []spec{until(60, holds), holds, until(90, holds)}, []policy.Cause{because("x", 0)}, 0, "Hold b Held", 0, 60},
		{"of two that are alike the first by name is named", []spec{holds, holds}, []policy.Cause{because("x", 0)}, 0, "Hold a Held", 0, 0},
		{"an emergency works whatever else there is", []spec{until(60, holds), evicts, paused(deletes)}, []policy.Cause{because("x", 0)}, 1000, "Hold c Paused", 0, 0},
		{"a policy about another taint says nothing", []spec{only("y", holds), evicts}, []policy.Cause{because("x", 0)}, 0, "Ask b", 0, 0},

		{"the taint that no policy holds decides", []spec{only("x", holds)}, []policy.Cause{because("x", 0), because("y", 60)}, 60, "Free", 0, 0},
		{"in either order", []spec{only("x", holds)}, []policy.Cause{because("y", 60), because("x", 0)}, 60, "Free", 0, 0},
		{"but not before the pod is due because of it", []spec{only("x", holds)}, []policy.Cause{because("x", 0), because("y", 60)}, 59, "Hold a Held", 0, 60},
		{"in the other order, too", []spec{only("x", holds)}, []policy.Cause{because("y", 60), because("x", 0)}, 59, "Hold a Held", 0, 60},
		{"the milder of two taints decides", []spec{only("x", holds), only("y", evicts)}, []policy.Cause{because("x", 0), because("y", 0)}, 0, "Ask b", 0, 0},
		{"of two that are held the one that ends first", []spec{only("x", until(90, holds)), only("y", until(60, holds))}, []policy.Cause{because("x", 0), because("y", 0)}, 0, "Hold b Held", 60, 60},
		{"which counts from each taint's own due", []spec{until(60, holds)}, []policy.Cause{because("x", 0), because("y", -30)}, 0, "Hold a Held", 30, 30},
		{"the strictest of a taint counts before the mildest of all", []spec{only("x", evicts), only("x", holds), only("y", settles)}, []policy.Cause{because("x", 0), because("y", 0)}, 0, "Wait c Settling", 20, 20},
		{"out-of-service lets a pod leave that is held for unreachable", []spec{holds}, []policy.Cause{because(corev1.TaintNodeUnreachable, 0), because(corev1.TaintNodeOutOfService, 1)}, 1, "Free", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var policies []*policy.Policy
			for i, spec := range tt.policies {
				policies = append(policies, named(t, string(rune('a'+i)), spec))
			}
			got := policy.Decide(policies, &policy.Pod{}, tt.causes, at(tt.now), func(*policy.Policy) policy.State { return policy.State{} })
			if said := say(got.Answer); said != tt.want || !got.Until.Equal(end(tt.until)) {
				t.Errorf("it is %s until %v, want %s until %v", said, got.Until, tt.want, end(tt.until))
			}
			if !got.Again.Equal(end(tt.again)) {
				t.Errorf("the answer can change at %v, want %v", got.Again, end(tt.again))
			}
		})
	}
}

// say is an answer in the words of the table.
func say(a policy.Answer) string {
	said := [...]string{"Free", "Ask", "Wait", "Hold"}[a.Step]
	for _, word := range []string{a.Policy, string(a.Why)} {
		if word != "" {
			said += " " + word
		}
	}
	return said
}

// TestOfEqualAnswersTheFirstTaintIsReported has a pod that a policy holds for two reasons, neither of which ends.
func TestOfEqualAnswersTheFirstTaintIsReported(t *testing.T) {
	s := resumed(30)
	s.Action = v1alpha1.ActionHold
	policies := []*policy.Policy{named(t, "p", s)}
	before, after := because("x", 0), because("y", 30)
	for _, tt := range []struct {
		causes []policy.Cause
		want   policy.Answer
	}{
		{[]policy.Cause{before, after}, held(policy.Held, 0, "")},
		{[]policy.Cause{after, before}, held(policy.BreakerOpen, 0, tripped.Open)},
	} {
		got := policy.Decide(policies, &policy.Pod{}, tt.causes, at(60), func(*policy.Policy) policy.State { return tripped })
		if got.Answer != tt.want {
			t.Errorf("answer %+v, want %+v", got.Answer, tt.want)
		}
	}
}

func TestEachPolicyIsAskedForItsOwnState(t *testing.T) {
	policies := []*policy.Policy{named(t, "a", everything(unpaused, deletes)), named(t, "b", everything(unpaused, deletes))}
	got := policy.Decide(policies, &policy.Pod{}, []policy.Cause{because("x", -60)}, at(0), func(p *policy.Policy) policy.State {
		return map[string]policy.State{"a": room(30), "b": room(20)}[p.Name]
	})
	if want := (policy.Answer{Step: policy.Wait, Policy: "a", Why: policy.Paced, Until: at(30)}); got.Answer != want || !got.Again.Equal(at(20)) {
		t.Errorf("answer %+v, again at %v; want %+v, again when b has room", got.Answer, got.Again, want)
	}
}

func TestOnlyPoliciesWithAPaceWaitWhileNoPaceHasRoom(t *testing.T) {
	paced := named(t, "paced", spec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{
		Pods: 1, Per: *seconds(60), Scope: v1alpha1.ScopeZone,
	}})
	full := policy.Full(func(*policy.Policy) policy.State { return tripped })
	for _, p := range []*policy.Policy{paced, named(t, "plain", spec{Action: v1alpha1.ActionDelete})} {
		if is := full(p); is.Open != tripped.Open || (is.Room != nil) != (p == paced) {
			t.Errorf("about policy %s, %+v is remembered", p.Name, is)
		}
	}
	if room := full(paced).Room(); !room.Equal(policy.Later) {
		t.Errorf("there is room at %s, want later", room)
	}
}

func TestPoliciesCountPodsThatLeaveNodesWithTheirTaints(t *testing.T) {
	all, power := named(t, "all", spec{Action: v1alpha1.ActionHold}), named(t, "power", spec{Action: v1alpha1.ActionHold, Taints: []v1alpha1.EvictionPolicyTaint{{Key: "power"}}})
	tainted := func(key string) []verdict.Taint {
		return []verdict.Taint{{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}}}
	}
	selecting := []*policy.Policy{power, all}
	for key, want := range map[string]int{"power": 2, "maintenance": 1} {
		if got := policy.Counting(selecting, tainted(key)); len(got) != want || got[want-1] != all {
			t.Errorf("with %s %v count it, want %d", key, got, want)
		}
	}
	if got := policy.Counting(selecting, nil); len(got) != 0 || selecting[0] != power {
		t.Errorf("without a taint %v count it, want none", got)
	}
}

func TestAPaceCountsInItsScope(t *testing.T) {
	for scope, want := range map[v1alpha1.PaceScope]string{
		v1alpha1.ScopeNode: "n", v1alpha1.ScopeZone: "z", v1alpha1.ScopeCluster: "",
	} {
		if got := (&policy.Pace{Scope: scope}).In("n", "z"); got != want {
			t.Errorf("scope %s is %q, want %q", scope, got, want)
		}
	}
}
