// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/instant"
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

// writeStatuses writes statuses until the context ends, when a condition may have changed and every reportNumbers. It
// does not count before all nodes and pods are known, because breakers use the number of selected pods for a minute.
func (r *reporter) writeStatuses(ctx context.Context) error {
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
	same := func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	}
	return !later && (is.Halted > 0) == (was.Halted > 0) && is.ObservedGeneration == was.ObservedGeneration &&
		slices.EqualFunc(is.Conditions, was.Conditions, same)
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
	if p.Breaker() == nil {
		meta.RemoveStatusCondition(&is.Conditions, v1alpha1.ConditionTripped)
	}
	said := ""
	for _, c := range append(t.cases(p), r.down.cases(p)...) {
		if !c.when || c.kind == said {
			continue
		}
		said = c.kind
		status := metav1.ConditionFalse
		if c.holds {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&is.Conditions, metav1.Condition{
			Type: c.kind, Status: status, Reason: c.reason, Message: c.message, ObservedGeneration: object.Generation,
		})
	}
	return is
}

// conditionCase is what a condition says in a case, unless an earlier case of the same condition applies.
type conditionCase struct {
	kind            string
	when            bool // the case applies
	holds           bool
	reason, message string
}

// cases returns what the conditions say about the policy itself and about the pods that are due now.
func (t *tally) cases(p followed) []conditionCase {
	const accepted, holding, tripped = v1alpha1.ConditionAccepted, v1alpha1.ConditionHolding, v1alpha1.ConditionTripped
	holds := "holds "
	if p.DryRun {
		holds = "would hold "
	}
	return []conditionCase{
		{accepted, p.flaw != nil, false, "Invalid",
			fmt.Sprint("Part of the policy cannot be read, so it ", holds, "too many pods: ", p.flaw)},
		{accepted, p.DryRun, true, "Accepted", "The policy only reports: dryRun is true."},
		{accepted, true, true, "Accepted", "The policy is in force."},
		{holding, t.held > 0 && p.DryRun, false, "DryRun", "It " + holds + t.String() + "."},
		{holding, t.held > 0, true, string(t.reason()), "It " + holds + t.String() + "."},
		{holding, t.settling > 0, false, string(policy.Settling), "No due pod is held. To see how many others are due, " +
			sentence.Do(t.settling, "due pod", "waits", "wait") + "."},
		{holding, true, false, "NothingHeld", "No due pod is held."},
		{tripped, t.open != "", true, "TooManyDue", t.open + "."},
		{tripped, p.Breaker() != nil, false, "FewDue", "The breaker allows the number of pods that would leave."},
	}
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

// tally is what a policy does to the pods that are due now.
type tally struct {
	selected          int    // pods, on all nodes
	open              string // why its breaker is open; empty if it is not
	due, held, asking int
	settling          int // wait only to see how many other pods are due

	since    time.Time // when the first held pod was due
	why      map[policy.Why]int
	examples []string // names of held pods, sorted

	halted int       // pods that a halt keeps
	until  time.Time // when the last halt ended after which a deadline counts; zero if none does
}

// tallies counts for each policy what it does now.
func (f *Follower) tallies() map[string]*tally {
	all, tallies := f.all(), map[string]*tally{}
	f.with(func(e *policy.Engine, now time.Time) {
		for _, p := range all {
			tallies[p.Name] = &tally{
				why: map[policy.Why]int{}, selected: f.countSelected(p.Policy, now), open: e.Open(p.Policy, now),
			}
		}
	})
	if len(all) == 0 {
		return tallies
	}
	for _, name := range (cluster{f}).Tainted() {
		f.with(func(e *policy.Engine, now time.Time) {
			for _, is := range (cluster{f}).Leaving(name, now) {
				decision := e.Decide(is, now)
				for _, p := range is.By {
					if t := tallies[p.Name]; t != nil {
						t.add(is, p, &decision, now)
					}
				}
			}
		})
	}
	return tallies
}

// add counts a pod that the policy selects.
func (t *tally) add(is *policy.Leaver, p *policy.Policy, together *policy.Decision, now time.Time) {
	due, applies := p.Due(is.Causes)
	if !applies || due.After(now) {
		return
	}
	t.due++
	t.halts(p, is.Causes, now)
	alone := together.Alone(p, is.Causes, now)
	switch {
	case needless(alone, together.Said, now.Sub(due)):
	case alone.Why == policy.Settling:
		t.settling++
	case alone.Stays() && (together.Stays() || p.DryRun):
		t.held++
		t.why[alone.Why]++
		t.since = instant.Next(t.since, due)
		t.exemplify(is.Memo.(leaving).pod)
	case alone.Step == policy.Ask && together.Step == policy.Ask:
		t.asking++
	}
}

// needless reports whether a status need not say that a pod is unread, because something else holds it, or because it
// has been due only for a moment.
func needless(alone, together policy.Said, due time.Duration) bool {
	return alone.Why == policy.PodUnread && (together.Why != policy.PodUnread || due < reportAtMost)
}

// halts notes which halts a deadline waits for, or counts from.
func (t *tally) halts(p *policy.Policy, causes []policy.Cause, now time.Time) {
	on := false
	for _, cause := range causes {
		if !p.HasDeadline() || !p.Applies(cause.Taint) || cause.Due.After(now) {
			continue
		}
		on = on || !cause.Halt.Since.IsZero()
		if from := p.DeadlineFrom(cause); from.After(cause.Due) {
			t.until = instant.Later(t.until, from)
		}
	}
	if on {
		t.halted++
	}
}

// exemplify keeps the first three pods in alphabetical order, so that the status does not change by itself.
func (t *tally) exemplify(pod *podcache.Pod) {
	const most = 3
	name := pod.Namespace + "/" + pod.Name
	i, _ := slices.BinarySearch(t.examples, name)
	if t.examples = slices.Insert(t.examples, i, name); len(t.examples) > most {
		t.examples = t.examples[:most]
	}
}

// reason is why most of the held pods are held.
func (t *tally) reason() (most policy.Why) {
	for _, why := range slices.Sorted(maps.Keys(t.why)) {
		if t.why[why] > t.why[most] {
			most = why
		}
	}
	return most
}

// String says which pods are held, and why.
func (t *tally) String() string {
	var reasons []string
	for _, why := range slices.Sorted(maps.Keys(t.why)) {
		reasons = append(reasons, fmt.Sprintf("%s %d", why, t.why[why]))
	}
	examples := ": "
	if t.held > len(t.examples) {
		examples = ", such as "
	}
	return fmt.Sprintf("%d of %s (%s)", t.held, sentence.Counted(t.due, "due pod"), strings.Join(reasons, ", ")) +
		examples + strings.Join(t.examples, ", ")
}

// down tells what happens to held pods while Taintkeeper is not running. It is not safe for concurrent use.
type down struct {
	client  kubernetes.Interface
	binding string    // for ifDown: Hold; empty where the built-in does not run
	looked  time.Time // when the API server last said whether the binding exists
	exists  bool
}

// lookDownEvery is how often the binding is looked up, at most.
const lookDownEvery = time.Minute

// look finds out whether the binding exists. If the API server does not say, the last answer remains valid.
func (d *down) look(ctx context.Context, now time.Time) {
	if d.binding == "" || now.Sub(d.looked) < lookDownEvery {
		return
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	bindings := d.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := bindings.Get(ctx, d.binding, metav1.GetOptions{})
	if err == nil || apicall.IsNotFound(err) {
		d.exists, d.looked = err == nil, now
	}
}

// cases returns what a condition says about the pods that a policy holds if Taintkeeper dies.
func (d *down) cases(p followed) []conditionCase {
	const kind, evicts = v1alpha1.ConditionHeldWhenDown,
		"While Taintkeeper is not running, the built-in controller evicts the selected pods when they are due"
	return []conditionCase{
		{kind, d.binding == "", true, "BuiltInOff", "Nothing else evicts while Taintkeeper is not running."},
		{kind, p.DryRun, false, "DryRun", evicts + ", because dryRun is true."},
		{kind, p.IfDown != v1alpha1.IfDownHold, false, "BuiltInWouldEvict", evicts + ". To keep them, set ifDown to Hold."},
		{kind, !d.exists, false, "NoAdmissionPolicy", evicts + ", because ValidatingAdmissionPolicyBinding " + d.binding +
			" does not exist. Apply config/coexistence.yaml, or the chart of this version."},
		{kind, true, true, "AdmissionPolicy", "ValidatingAdmissionPolicy " + d.binding +
			" keeps the built-in controller from evicting the selected pods."},
	}
}
