// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

const (
	// reportNumbers is the shortest time between two writes of a status in which only numbers have changed. A changed
	// condition is written after reportAtMost.
	reportNumbers = 15 * time.Second
	// reportAtMost is the shortest time between two counts for all statuses.
	reportAtMost = time.Second
)

// reporter writes the statuses of the policies, in the leader.
type reporter struct {
	f       *Follower
	down    down
	written map[types.UID]report
}

// report is what was last written about a policy.
type report struct {
	status v1alpha1.EvictionPolicyStatus
	at     time.Time
}

// run writes statuses until the context ends, when a condition may have changed and every reportNumbers. It does not
// count before all nodes and pods are known, because breakers use the number of selected pods for a minute.
func (r *reporter) run(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", r.f.config.Nodes, r.f.config.Pods) {
		return nil
	}
	for {
		r.report(ctx)
		for _, wait := range []time.Duration{reportAtMost, reportNumbers - reportAtMost} {
			due := r.f.statusDue
			if wait == reportAtMost { // later changes signal again
				due = nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-due:
			case <-time.After(wait):
			}
		}
	}
}

// report writes the statuses that have changed.
func (r *reporter) report(ctx context.Context) {
	all := r.f.all()
	if len(all) == 0 {
		r.written = map[types.UID]report{}
		return
	}
	tallies, now := r.f.tallies(), r.f.config.Clock.Now()
	r.down.look(ctx, now)
	for _, p := range all {
		object, ok := r.f.watch.Get(p.Name)
		if !ok || object.UID != p.uid || !p.labeled { // otherwise the numbers would include all pods
			continue
		}
		was, known := r.written[p.uid]
		if !known {
			was.status = object.Status
		}
		is := r.status(object, &was.status, p, tallies[p.Name])
		soon := known && now.Sub(was.at) < reportNumbers
		if equality.Semantic.DeepEqual(is, was.status) || soon && sameButNumbers(is, was.status) {
			continue
		}
		if r.write(ctx, object, is) {
			r.written[p.uid] = report{status: is, at: now}
		}
	}
}

// write writes the status of a policy, and reports whether it did.
func (r *reporter) write(
	ctx context.Context, object *v1alpha1.EvictionPolicy, status v1alpha1.EvictionPolicyStatus,
) bool {
	next := object.DeepCopy()
	next.Status = status
	err := r.f.config.Client.Status().Patch(ctx, next, client.MergeFrom(object))
	if err != nil && !apicall.IsNotFound(err) && !apicall.Stopping(ctx) {
		r.f.config.Logger.Info("Cannot write the status of an EvictionPolicy, will retry", "policy", object.Name, "reason", err.Error())
	}
	return err == nil
}

// sameButNumbers reports whether no condition has changed, nor what the next leader must know about halts.
func sameButNumbers(is, was v1alpha1.EvictionPolicyStatus) bool {
	later := is.HaltedUntil != nil && (was.HaltedUntil == nil || was.HaltedUntil.Before(is.HaltedUntil))
	if later || (is.Halted > 0) != (was.Halted > 0) {
		return false
	}
	if len(is.Conditions) != len(was.Conditions) || is.ObservedGeneration != was.ObservedGeneration {
		return false
	}
	for _, c := range is.Conditions {
		other := meta.FindStatusCondition(was.Conditions, c.Type)
		if other == nil || other.Status != c.Status || other.Reason != c.Reason {
			return false
		}
	}
	return true
}

// status returns the new status of a policy, based on its old one.
func (r *reporter) status(
	object *v1alpha1.EvictionPolicy, was *v1alpha1.EvictionPolicyStatus, p followed, t *tally,
) v1alpha1.EvictionPolicyStatus {
	is := *was.DeepCopy()
	is.ObservedGeneration = object.Generation
	is.Selected = number(max(t.selected, t.due))
	is.Due, is.Held, is.Asking = number(t.due), number(t.held), number(t.asking)
	is.Since = nil
	if t.held > 0 {
		since := metav1.NewTime(r.f.config.Clock.Shown(t.since)).Rfc3339Copy()
		is.Since = &since
	}
	is.Halted, is.HaltedUntil = number(t.halted), r.haltedUntil(p, t, was.HaltedUntil)
	say := func(kind string, holds bool, reason, message string) {
		status := metav1.ConditionFalse
		if holds {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&is.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: object.Generation,
		})
	}
	holds := "holds "
	if p.DryRun {
		holds = "would hold "
	}
	switch {
	case p.flaw != nil:
		say(v1alpha1.ConditionAccepted, false, "Invalid",
			"Part of the policy cannot be read, so it "+holds+"too many pods: "+p.flaw.Error())
	case p.DryRun:
		say(v1alpha1.ConditionAccepted, true, "Accepted", "The policy only reports: dryRun is true.")
	default:
		say(v1alpha1.ConditionAccepted, true, "Accepted", "The policy is in force.")
	}
	switch {
	case t.held == 0 && t.settling > 0:
		say(v1alpha1.ConditionHolding, false, string(policy.Settling),
			"No due pod is held. To see how many others are due, "+sentence.Counted(t.settling, "due pod")+
				sentence.Agree(t.settling, " waits.", " wait."))
	case t.held == 0:
		say(v1alpha1.ConditionHolding, false, "NothingHeld", "No due pod is held.")
	case p.DryRun:
		say(v1alpha1.ConditionHolding, false, "DryRun", "It "+holds+t.String()+".")
	default:
		say(v1alpha1.ConditionHolding, true, string(t.reason()), "It "+holds+t.String()+".")
	}
	switch {
	case p.Breaker() == nil:
		meta.RemoveStatusCondition(&is.Conditions, v1alpha1.ConditionTripped)
	case t.open != "":
		say(v1alpha1.ConditionTripped, true, "TooManyDue", t.open+".")
	default:
		say(v1alpha1.ConditionTripped, false, "FewDue", "The breaker allows the number of pods that would leave.")
	}
	held, reason, message := r.down.says(p)
	say(v1alpha1.ConditionHeldWhenDown, held, reason, message)
	return is
}

// haltedUntil returns when the last halt ended, according to the API server's clock. It is up to two seconds later, so
// that a new leader never takes it for earlier, and stays as it was for as long as that is right.
func (r *reporter) haltedUntil(p followed, t *tally, was *metav1.Time) *metav1.Time {
	switch {
	case t.until.IsZero():
		return nil
	case p.halted != nil && t.until.Equal(p.Halted):
		return p.halted
	}
	_, most := r.f.config.Clock.Ahead()
	at := t.until.Add(most)
	if was != nil && !was.Time.Before(at) && was.Sub(at) < 2*time.Second {
		return was
	}
	return new(metav1.NewTime(at.Add(time.Second - 1).Truncate(time.Second)))
}

func number(of int) int32 { return int32(min(of, math.MaxInt32)) }
