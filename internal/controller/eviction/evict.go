// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// stopWithin bounds how long a try may continue when the process ends, because no other replica evicts until then. An
	// API server that is merely slow has answered by that time; the next leader retries what hangs.
	stopWithin = 5 * time.Second
	// learnWithin bounds how long to ask whether a cancelled delete was accepted.
	learnWithin = 5 * time.Second
)

// executor carries out the evictions that the queue returns.
type executor struct {
	writer

	mode    Mode
	queue   *queue
	decide  *decider
	builtIn BuiltIn // nil if it does not run
	rarely  rarely
}

// runTries starts one try after the other until the context ends, and waits for those in flight. It waits for our own
// rate limit before it asks the queue, because a try that waits for a token would count as slow.
func (x *executor) runTries(ctx context.Context) error {
	var tries sync.WaitGroup
	for x.api.token(ctx) == nil {
		t, trying := x.queue.next(ctx)
		if t == nil {
			break
		}
		tries.Go(func() { x.try(trying, t) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tries.Wait()
	}()
	x.queue.drain(ended, stopWithin, func(node string) { x.decide.decideNode(ctx, node) })
	return nil
}

// try is one try to evict a pod. It belongs to one goroutine.
type try struct {
	PodRequest
	memo

	eviction   *backlog.Eviction // the queue's
	node       string
	due        time.Time
	asks       bool  // the Eviction API is asked
	tries      int   // earlier tries that failed or hung
	unmarked   error // why the condition could not be set
	begun      bool  // it has taken places in paces and budgets
	unanswered bool  // the call got no answer, so the pod may be leaving
}

// newTry copies what a try needs to know of an eviction.
func newTry(e *backlog.Eviction) *try {
	t := &try{
		PodRequest: PodRequest{Namespace: e.Namespace, Name: e.Name, UID: e.UID},
		eviction:   e, node: e.Node, due: e.Due, asks: e.Lane == backlog.Ask, tries: e.Tries,
	}
	t.memo, _ = e.Memo.(memo)
	return t
}

// memo is what an eviction remembers between its tries.
type memo struct {
	announced    bool
	marked       bool          // a try has set the condition, whatever the watch shows
	markFailures int           // failed tries since the pod was last known to be marked
	unconfirmed  int           // tries in a row that were not confirmed
	live         *podcache.Pod // as the API server itself showed it last
	refuser      string        // what refuses the delete, as the last event says
}

// blocks reports whether a failed step before the delete still blocks it. A call that did not reach the server does not
// count, because the delete would not reach it either.
func (m *memo) blocks(err error) bool {
	if apicall.Answered(err) || errors.Is(err, context.DeadlineExceeded) {
		m.markFailures++
	}
	return m.markFailures < markTries
}

// shown notes the pod as the API server returned it.
func (m *memo) shown(live *podcache.Pod) *podcache.Pod {
	m.live = live
	if live.Flags.Has(podcache.MarkedByUs) {
		m.marked, m.markFailures = true, 0
	}
	return live
}

// newest returns the pod as the API server last returned it, or nil if the watch has brought a newer one since. It
// compares resourceVersions, because servers before 1.33 set no generation on pods.
func (m *memo) newest(cached *podcache.Pod) *podcache.Pod {
	if m.live == nil || m.live.Version < cached.Version {
		return nil
	}
	return m.live
}

// try makes one try and settles it. A try can be withdrawn until the moment at which it is settled.
func (x *executor) try(ctx context.Context, t *try) {
	result, err := x.evict(ctx, t)
	x.ends(t)
	cancelled := x.queue.cancelled(t)
	if !errors.Is(cancelled, backlog.ErrWithdrawn) {
		outcome := x.outcome(ctx, t, result, cmp.Or(cancelled, err))
		if x.queue.done(t, outcome, false) {
			x.settled(ctx, t, result, outcome)
			return
		}
	}
	ended := x.withdrawn(ctx, t, result, err)
	x.count(t, ended)
	outcome := backlog.Withdrawn
	switch {
	case ended == resultDeleted, ended == resultGone, ended == resultReplaced:
		outcome = backlog.Over
	case err != nil && refused(err):
		outcome, _ = t.next(err)
	}
	x.queue.done(t, outcome, true)
}

// evict makes one try. It decides again before each call that changes something. The caller has waited for the token of
// the first call.
func (x *executor) evict(ctx context.Context, t *try) (result, error) {
	if x.builtIn != nil {
		if err := x.builtIn.Recorded(ctx, t.node, t.due); err != nil {
			return "", notRecordedError{err}
		}
	}
	pod, v, done, err := x.decideAgain(ctx, t, nil)
	if done != "" || err != nil {
		return done, err
	}
	if !x.begins(t, pod) {
		return resultHeld, nil
	}
	if !t.announced {
		t.announced = true
		x.announce(ctx, pod, v)
	}
	if x.mode == DryRun {
		return resultDryRun, nil
	}
	return x.carryOut(ctx, t, pod)
}

// begins reports whether the eviction of a pod may begin. If so, it takes places in paces and budgets until ends is
// called.
func (x *executor) begins(t *try, pod *podcache.Pod) bool {
	if x.policies == nil {
		return true
	}
	node, ok := x.nodes.Tainted(pod.Node)
	t.begun = ok && x.policies.Begin(pod, node, t.asks)
	return t.begun
}

// ends gives back the places of a try if its pod stays. As long as it is not known what happened to a pod, it counts as
// having left.
func (x *executor) ends(t *try) {
	if t.begun {
		_, there := x.pods.There(t.UID)
		x.policies.End(t.node, t.UID, there && !t.unanswered)
	}
}

// cached decides from the caches. It returns a result when there is nothing left to do.
func (x *executor) cached(t *try) (*podcache.Pod, *nodecache.Node, result) {
	pod, ok := x.pods.There(t.UID)
	if !ok {
		return nil, nil, resultGone
	}
	tainted, ok := x.nodes.Tainted(pod.Node)
	if !ok || !x.due(pod, tainted.NoExecute) {
		return nil, nil, resultCancelled
	}
	said := x.says(pod, tainted, tainted.NoExecute)
	if said.Stays() || t.asks != (said.Step == policy.Ask) {
		return nil, nil, resultHeld
	}
	return pod, tainted, ""
}

// decideAgain decides about the pod from the newest knowledge; livePod is the pod as the API server last returned it,
// if it was asked. It returns a result when there is nothing left to do, and an error when the pod must leave according
// to the caches but live reads do not confirm it.
//
// Live reads are needed because the watches are not in step. A pod can appear bound to a node whose taint is already
// gone but still in the cache (kubernetes/kubernetes#119862), and the cached pod can lack a toleration that it has now.
func (x *executor) decideAgain(ctx context.Context, t *try, livePod *podcache.Pod) (
	*podcache.Pod, verdict.Verdict, result, error,
) {
	pod, tainted, done := x.cached(t)
	for done == "" {
		after := instant.Later(pod.Seen(), tainted.Tainted)
		live, err := x.live.node(ctx, pod.Node, after)
		if err != nil {
			return nil, verdict.Verdict{}, "", fmt.Errorf("confirm the taints of node %s: %w", pod.Node, err)
		}
		if err := cmp.Or(ctx.Err(), apicall.AbortCause(ctx)); err != nil {
			return nil, verdict.Verdict{}, "", err
		}
		// The read, and the wait for its token, took time. What the watches brought meanwhile counts, and if the taints
		// changed, the read is too old to confirm them.
		read := tainted.Tainted
		if pod, tainted, done = x.cached(t); done != "" || !tainted.Tainted.Equal(read) {
			continue
		}
		if livePod != nil {
			pod = livePod
		}
		x.warnOfClocks(ctx)
		v, err := x.decideFrom(t, pod, tainted, live, x.live.passed(pod.Node, tainted.ResourceVersion, after))
		return pod, v, "", err
	}
	return nil, verdict.Verdict{}, done, nil
}

// decideFrom decides about a pod from the taints that a live read confirms. A read that the watch has passed tells what
// had to happen when it was made, as long as the newest read still shows the same.
func (x *executor) decideFrom(t *try, pod *podcache.Pod, tainted *nodecache.Node, newest, passed liveRead) (
	verdict.Verdict, error,
) {
	if wentBack(tainted, newest) {
		return verdict.Verdict{}, errUnconfirmed
	}
	at, confirmed := x.clock.Now(), confirmedBy(tainted, newest.node, nil)
	v, leaves := x.over(pod, confirmed)
	if !leaves && passed.node != nil {
		confirmed = confirmedBy(tainted, newest.node, passed.node)
		v, _ = x.over(pod, confirmed)
		at = instant.Earlier(at, passed.started)
	}
	if !v.DueAt(at) {
		return v, errUnconfirmed
	}
	// Policies may let the pod leave because of an unconfirmed taint, but hold it or want to ask because of the others.
	if said := x.says(pod, tainted, confirmed); said.Stays() || said.Step == policy.Ask && !t.asks {
		return v, errUnconfirmed
	}
	return v, nil
}

// decideWithToken waits for the token of the next call and then decides.
func (x *executor) decideWithToken(ctx context.Context, t *try, live *podcache.Pod) (
	*podcache.Pod, verdict.Verdict, result, error,
) {
	if err := x.api.token(ctx); err != nil {
		return nil, verdict.Verdict{}, "", err
	}
	return x.decideAgain(ctx, t, live)
}

// clocksDiffer is the difference between the clocks that is worth a warning. Deadlines are kept to the second.
const clocksDiffer = 5 * time.Second

// warnOfClocks logs periodically that this machine's clock and the API server's differ, because a restart makes
// evictions late by that difference.
func (x *executor) warnOfClocks(ctx context.Context) {
	offset := x.clock.Offset()
	if offset.Abs() >= clocksDiffer && x.rarely.allows("clocks differ", x.clock.Now()) {
		logf.FromContext(ctx).Info("This machine's clock and the API server's differ: evictions can be late after a restart. Synchronize both with NTP", "serverAhead", offset.String())
	}
}

// announce reports, once for each eviction, that it begins. A dry run goes no further, and counts it here.
func (x *executor) announce(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) {
	x.events.marking(pod, v)
	if x.mode == DryRun {
		x.metrics.evictions.WithLabelValues(string(resultDryRun)).Inc()
		logf.FromContext(ctx).Info("Dry run: would evict", "pod", klog.KRef(pod.Namespace, pod.Name),
			"node", pod.Node, "taint", v.Taint.ToString(), "due", x.clock.Shown(v.Due))
	}
}

// carryOut asks the Eviction API about the pod, or marks and deletes it.
func (x *executor) carryOut(ctx context.Context, t *try, pod *podcache.Pod) (result, error) {
	if !x.writers.begin(t.UID) {
		return "", errUnconfirmed
	}
	defer x.writers.end(t.UID)
	if t.asks {
		return x.ask(ctx, t, pod)
	}
	live, done, err := x.mark(ctx, t, pod)
	if done != "" || err != nil {
		return done, err
	}
	pod, v, done, err := x.decideWithToken(ctx, t, live)
	if done != "" || err != nil {
		return done, err
	}
	return x.delete(ctx, t, pod, v)
}

// markTries is how often the patch of the condition, or the read of a pod that has it, may fail before it no longer
// blocks the delete. It is still tried first each time. In upstream, a status patch that could never succeed once
// blocked evictions permanently (kubernetes/kubernetes#112517).
const markTries = 3

// mark sets the condition DisruptionTarget, with which Job pod failure policies recognize an eviction, unless the pod
// has it. It returns the pod as the API server has it now: the answer to the patch costs no further call, and shows
// what a lagging watch has not brought yet. The pod is nil if nothing newer than the cached one is known and the delete
// must not wait any longer.
func (x *executor) mark(ctx context.Context, t *try, pod *podcache.Pod) (*podcache.Pod, result, error) {
	if t.marked || pod.Flags.Has(podcache.MarkedByUs) {
		live, done, err := x.readPod(ctx, pod)
		if err != nil && !t.blocks(err) {
			return t.newest(pod), "", nil // it must not block the delete
		}
		if err != nil || done != "" || t.shown(live).Flags.Has(podcache.MarkedByUs) {
			return live, done, err
		}
		// A client removed it again.
		if pod, _, done, err = x.decideWithToken(ctx, t, live); done != "" || err != nil {
			return nil, done, err
		}
	}
	answer, err := x.api.patchCondition(ctx, pod, corev1.ConditionTrue, v1alpha1.MarkMessage)
	if err == nil {
		live, done := x.asAnswered(pod, answer)
		return t.shown(live), done, nil
	}
	return x.unmarked(ctx, t, pod, err)
}

// unmarked decides what happens to a pod on which the condition could not be set. It returns an error only as long as
// the delete waits for the condition.
func (x *executor) unmarked(
	ctx context.Context, t *try, pod *podcache.Pod, err error,
) (*podcache.Pod, result, error) {
	// A conflict whose cause cannot be read is a refusal like any other, and must not block the delete.
	if done, _ := x.ended(ctx, pod, err); done != "" {
		return nil, done, nil
	}
	if t.blocks(err) {
		return nil, "", fmt.Errorf("set the DisruptionTarget condition of pod %s: %w", pod.Key(), err)
	}
	t.unmarked = err
	if err := x.api.token(ctx); err != nil {
		return nil, "", err
	}
	live, done, lookErr := x.readPod(ctx, pod)
	if lookErr != nil { // nor must this block the delete
		live = t.newest(pod)
	}
	return live, done, nil
}

func (x *executor) delete(ctx context.Context, t *try, pod *podcache.Pod, v verdict.Verdict) (result, error) {
	if err := x.api.delete(ctx, pod); err != nil {
		t.unanswered = !apicall.Answered(err)
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		x.reportRefusal(ctx, t, pod, err)
		return "", fmt.Errorf("delete pod %s: %w", pod.Key(), err)
	}
	if t.unmarked != nil {
		x.events.unmarked(pod, v, t.unmarked)
	}
	return x.left(ctx, pod, v), nil
}

// ask asks the Eviction API to evict a pod. It reads the pod first, because the API server charges the budget before it
// compares the UID, and refunds it only after two minutes
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go). The API server sets the condition DisruptionTarget
// itself.
func (x *executor) ask(ctx context.Context, t *try, pod *podcache.Pod) (result, error) {
	if err := x.api.token(ctx); err != nil {
		return "", err
	}
	live, done, err := x.readPod(ctx, pod)
	if done != "" || err != nil {
		return done, err
	}
	pod, v, done, err := x.decideWithToken(ctx, t, live)
	if done != "" || err != nil {
		return done, err
	}
	if err := x.api.evict(ctx, pod); err != nil {
		t.unanswered = !apicall.Answered(err)
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		if refused(err) && t.tries+1 >= troubleAfter && t.refuser != refuser(err) {
			t.refuser = refuser(err)
			x.events.refused(pod, v, err)
		}
		return "", fmt.Errorf("ask the Eviction API about pod %s: %w", pod.Key(), err)
	}
	return x.left(ctx, pod, v), nil
}

// readPod reads the pod. It returns a result when the eviction of the pod has ended.
func (x *executor) readPod(ctx context.Context, pod *podcache.Pod) (*podcache.Pod, result, error) {
	answer, err := x.api.pod(ctx, pod)
	switch {
	case apicall.IsNotFound(err):
		x.pods.MarkTerminating(pod.UID)
		return nil, resultGone, nil
	case err != nil:
		return nil, "", fmt.Errorf("read pod %s: %w", pod.Key(), err)
	}
	live, done := x.asAnswered(pod, answer)
	return live, done, nil
}

// asAnswered returns our pod as the API server returned it, and whether it has ended, because it is terminating or
// another pod has its name. It tells the cache, which may still have the pod.
func (x *executor) asAnswered(pod *podcache.Pod, answer *corev1.Pod) (*podcache.Pod, result) {
	live := pod.AsOf(answer)
	switch {
	case live.UID != pod.UID:
		x.pods.MarkTerminating(pod.UID)
		return live, resultReplaced
	case live.Flags.Has(podcache.Terminating):
		x.pods.MarkTerminating(pod.UID)
		return live, resultGone
	}
	return live, ""
}

// ended tells from the error of a call whether the pod has ended. After a conflict it reads the pod, because the UID is
// not the only possible cause, and after a 404 too, because that can come from a webhook and be about another object.
func (x *executor) ended(ctx context.Context, pod *podcache.Pod, err error) (result, error) {
	switch {
	case apicall.IsAnotherUID(err):
		x.pods.MarkTerminating(pod.UID)
		return resultReplaced, nil
	case !apierrors.IsConflict(err) && !apicall.IsNotFound(err):
		return "", nil
	}
	_, done, err := x.readPod(ctx, pod)
	if err != nil {
		return "", fmt.Errorf("look into a conflict or a 404: %w", err)
	}
	return done, nil
}

// left notes that the API server has accepted the eviction of a pod.
func (x *executor) left(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) result {
	x.pods.MarkTerminating(pod.UID)
	x.metrics.deleted(x.clock.Since(v.Due))
	logf.FromContext(ctx).Info("Evicted", "pod", klog.KRef(pod.Namespace, pod.Name),
		"node", pod.Node, "taint", v.Taint.ToString(), "due", x.clock.Shown(v.Due))
	return resultDeleted
}

// reportRefusal reports what refuses the delete of a pod, in an event and in the condition, once it is more than a
// passing failure. The condition is False until the next try, because the pod is not about to end, and
// kube-controller-manager would reset the condition after two minutes (kubernetes/kubernetes
// pkg/controller/disruption).
func (x *executor) reportRefusal(ctx context.Context, t *try, pod *podcache.Pod, err error) {
	if !refused(err) || t.tries+1 < troubleAfter {
		return
	}
	_, v, done, decideErr := x.decideWithToken(ctx, t, nil) // the refusal took some time, too
	if done != "" || decideErr != nil {
		return
	}
	if by := refuser(err); t.refuser != by {
		t.refuser = by
		x.events.refused(pod, v, err)
	}
	t.marked = false
	if _, err := x.api.patchCondition(ctx, pod, corev1.ConditionFalse, v1alpha1.RefusedMessage(t.refuser)); err != nil {
		logf.FromContext(ctx).V(1).Info("Cannot record in the pod's condition what refuses its eviction", "pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
	}
}

// withdrawn finds out what happened to an eviction that was cancelled because the pod need not leave now. Its delete
// may have been accepted anyway.
func (x *executor) withdrawn(ctx context.Context, t *try, done result, failure error) result {
	switch done {
	case resultDeleted, resultGone, resultReplaced:
		return done
	}
	pod, ok := x.pods.There(t.UID)
	if !ok {
		return resultGone
	}
	if failure != nil {
		if ended := x.readPodSoon(ctx, pod); ended != "" {
			return ended
		}
	}
	if tainted, ok := x.nodes.Tainted(pod.Node); ok && x.leaves(pod, tainted.NoExecute) {
		return "" // if it must leave later, or again, that is another eviction
	}
	if x.nodes.Exists(pod.Node) {
		x.events.cancelled(pod, t.due)
	}
	return resultCancelled
}

func (x *executor) leaves(pod *podcache.Pod, tainted []verdict.Taint) bool {
	_, leaves := x.over(pod, tainted)
	return leaves
}

// readPodSoon asks what happened to a pod, with a short timeout. It returns a result if the pod has ended.
func (x *executor) readPodSoon(ctx context.Context, pod *podcache.Pod) result {
	soon, abort := apicall.Abortable(ctx)
	defer time.AfterFunc(learnWithin, func() { abort(nil) }).Stop()
	_, done, err := x.readPod(soon, pod)
	if err != nil && x.rarely.allows("learn", x.clock.Now()) {
		logf.FromContext(ctx).Info("Cannot tell whether an eviction was cancelled in time",
			"pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
	}
	return done
}

// outcome says what happens to an eviction after a try that was not withdrawn.
func (x *executor) outcome(ctx context.Context, t *try, result result, err error) backlog.Outcome {
	switch {
	case result == "" && apicall.Stopping(ctx): // the next process continues
		return backlog.Later(0)
	case result == "":
		return x.retry(ctx, t, err)
	case result == resultDryRun: // remembered for as long as the pod must leave, so that there is one event
		return backlog.Later(apicall.LastRefused)
	case result == resultCancelled, result == resultHeld:
		return backlog.Later(apicall.FirstBackoff)
	}
	return backlog.Over
}

// retry notes a try without a result, and returns when the next may begin.
func (x *executor) retry(ctx context.Context, t *try, err error) backlog.Outcome {
	outcome, wait := t.next(err)
	if refused(err) {
		x.decide.refused(t)
	}
	x.metrics.retries.WithLabelValues(reason(err)).Inc()
	log := logf.FromContext(ctx).WithValues("pod", klog.KRef(t.Namespace, t.Name), "tries", t.tries+1,
		"unconfirmed", t.unconfirmed, "after", wait.String(), "reason", err.Error())
	often := max(t.tries+1, t.unconfirmed) >= troubleAfter
	if often && x.rarely.allows(reason(err), x.clock.Now()) {
		log.Info("Eviction failed repeatedly, will retry")
	} else {
		log.V(1).Info("Eviction failed, will retry")
	}
	return outcome
}

// next returns what happens to an eviction whose try failed, and how long it waits. Waiting for a watch is not a
// failure, nor is making room for other evictions.
func (t *try) next(err error) (_ backlog.Outcome, wait time.Duration) {
	switch {
	case errors.Is(err, errUnconfirmed):
		t.unconfirmed++
		wait = apicall.Doubled(firstUnconfirmed, t.unconfirmed, lastUnconfirmed)
		return backlog.Unsure(wait), wait
	case errors.Is(err, backlog.ErrNoRoom), errors.Is(err, context.DeadlineExceeded):
		return backlog.Hung, 0
	}
	t.unconfirmed = 0
	wait = apicall.Backoff(t.tries+1, err)
	if refused(err) {
		return backlog.Failed(wait, refuser(err)), wait
	}
	return backlog.Failed(wait, ""), wait
}

// settled counts a try that has ended its eviction.
func (x *executor) settled(ctx context.Context, t *try, result result, outcome backlog.Outcome) {
	switch {
	case result == resultCancelled, result == resultHeld: // the caches show it, but the decider has not said so yet
		x.decide.decideNode(ctx, t.node)
	case outcome == backlog.Over:
		x.count(t, result)
	}
}

func (x *executor) count(t *try, result result) {
	if result != "" && (result != resultGone || t.announced) {
		x.metrics.evictions.WithLabelValues(string(result)).Inc()
	}
}
