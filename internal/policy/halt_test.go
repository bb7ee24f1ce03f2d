// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

func TestAHaltIsRememberedUntilTheNextOneEnds(t *testing.T) {
	var halt policy.Halt
	for _, tt := range []struct {
		on           bool
		at           float64
		since, ended float64 // 0: none
	}{
		{false, 1, 0, 0}, {true, 2, 2, 0}, {true, 3, 2, 0}, {false, 5, 0, 5}, {false, 6, 0, 5}, {true, 7, 7, 5}, {false, 8, 0, 8},
	} {
		halt.Note(tt.on, at(tt.at))
		if want := (policy.Halt{Since: end(tt.since), Ended: end(tt.ended)}); halt != want {
			t.Errorf("after %v s it is %v, want %v", tt.at, halt, want)
		}
	}
}

func TestAPauseOrAnOpenBreakerOfAnyPolicyHalts(t *testing.T) {
	plain, paused, brake := spec{Action: v1alpha1.ActionEvict, Deadline: seconds(60)}, everything(), resumed(30)
	brake.Breaker.ResumedAt = nil
	for _, tt := range []struct {
		name     string
		policies []spec
		cause    policy.Cause
		open     bool
		want     bool
	}{
		{"a pause", []spec{plain, paused}, because("x", 0), false, true},
		{"not yet", []spec{plain, paused}, because("x", 61), false, false},
		{"not a dry run", []spec{everything(dryRun)}, because("x", 0), true, false},
		{"not because of another taint", []spec{{Action: v1alpha1.ActionHold, Paused: &maintenance, Taints: taints("y")}}, because("x", 0), false, false},
		{"an open breaker", []spec{plain, brake}, because("x", 0), true, true},
		{"not a closed one", []spec{plain, brake}, because("x", 0), false, false},
		{"not one that was resumed since", []spec{plain, resumed(30)}, because("x", 0), true, false},
		{"one that was resumed before", []spec{plain, resumed(30)}, because("x", 30), true, true},
		{"not a Hold", []spec{plain, {Action: v1alpha1.ActionHold}}, because("x", 0), false, false},
		{"not a pace", []spec{everything(unpaused, deletes)}, because("x", 0), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var policies []*policy.Policy
			for i, spec := range tt.policies {
				policies = append(policies, named(t, string(rune('a'+i)), spec))
			}
			if got := policy.Halts(policies, tt.cause, at(60), func(*policy.Policy) bool { return tt.open }); got != tt.want {
				t.Errorf("it halts: %t", got)
			}
		})
	}
}

func TestADeadlineCountsFromTheLatestOfDueAndTheEndsOfHalts(t *testing.T) {
	for _, tt := range []struct {
		name         string
		due, ended   float64
		status       float64 // 0: none
		asksUntil    float64
		action       v1alpha1.EvictionAction
		wantBefore   policy.Answer
		wantAtTheEnd policy.Answer
	}{
		{"due", 5, 0, 0, 65, v1alpha1.ActionEvict, asked(65, ""), free},
		{"the end of a halt", 5, 90, 0, 150, v1alpha1.ActionEvict, asked(150, ""), free},
		{"also for a Hold", 5, 90, 0, 150, v1alpha1.ActionHold, held(policy.Held, 150, ""), free},
		{"what the status knows", 5, 0, 90, 150, v1alpha1.ActionEvict, asked(150, ""), free},
		{"the later of both", 5, 90, 70, 150, v1alpha1.ActionEvict, asked(150, ""), free},
		{"due after the halt", 95, 90, 70, 155, v1alpha1.ActionEvict, asked(155, ""), free},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec{Action: tt.action, Deadline: seconds(60)}}
			if tt.status != 0 {
				object.Status.HaltedUntil = &metav1.Time{Time: at(tt.status)}
			}
			p, err := policy.New(&object)
			if err != nil {
				t.Fatal(err)
			}
			cause := because("x", tt.due)
			cause.Halt.Ended = end(tt.ended)
			for now, want := range map[time.Time]policy.Answer{at(tt.asksUntil).Add(-1): tt.wantBefore, at(tt.asksUntil): tt.wantAtTheEnd} {
				if got := p.Says(&policy.Pod{}, cause, now, policy.State{}); got != want {
					t.Errorf("%v after due it says %+v, want %+v", now.Sub(due), got, want)
				}
			}
		})
	}
}

// A deadline that opens a breaker must not close it again, and one that passes meanwhile must not keep it open.
func TestForABreakerADeadlineStandsStillDuringAHalt(t *testing.T) {
	brake := spec{Action: v1alpha1.ActionDelete, Breaker: atMost("3")}
	policies := []*policy.Policy{named(t, "brake", brake), named(t, "hold", spec{Action: v1alpha1.ActionHold, Deadline: seconds(60)})}
	for since, want := range map[float64]bool{59.999: false, 60: true} {
		cause := because("x", 0)
		cause.Halt.Since = at(since)
		if _, counts := policies[0].Counts(policies, &policy.Pod{}, []policy.Cause{cause}, at(3600)); counts != want {
			t.Errorf("the breaker opened %v s after due, and an hour later it counts the pod: %t", since, counts)
		}
	}
}

func TestWhatMayHaltPods(t *testing.T) {
	for name, tt := range map[string]struct {
		spec spec
		want bool
	}{
		"a pause":                {spec{Action: v1alpha1.ActionDelete, Paused: &maintenance}, true},
		"a breaker":              {spec{Action: v1alpha1.ActionDelete, Breaker: atMost("1")}, true},
		"both":                   {spec{Action: v1alpha1.ActionDelete, Paused: &maintenance, Breaker: atMost("1")}, true},
		"neither":                {spec{Action: v1alpha1.ActionHold}, false},
		"a pause in a dry run":   {spec{Action: v1alpha1.ActionDelete, Paused: &maintenance, DryRun: true}, false},
		"a breaker in a dry run": {spec{Action: v1alpha1.ActionDelete, Breaker: atMost("1"), DryRun: true}, false},
	} {
		if got := named(t, "p", tt.spec).MayHalt(); got != tt.want {
			t.Errorf("%s: it may halt pods: %t", name, got)
		}
	}
}
