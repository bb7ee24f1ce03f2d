// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// PodRequest asks for the eviction of one pod. The UID says which; the name is for the API calls.
type PodRequest struct {
	Namespace, Name string
	UID             types.UID
}

func (r PodRequest) String() string { return r.Namespace + "/" + r.Name }

// executor is the second stage.
type executor struct {
	judge    judge
	mode     Mode
	nodes    *nodes
	pods     *podcache.Cache
	live     *liveNodes
	api      api
	attempts *attempts
	slots    *slots
	turns    *turns
	events   *events
	metrics  *metrics
	builtIn  BuiltIn
	trouble  trouble
}

// Reconcile evicts one pod: done when the pod is gone, was replaced or has no longer to leave;
// otherwise it comes back, however often it takes.
func (x *executor) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	node := x.nodeOf(req)
	attempt, begins := x.attempts.get(req)
	if begins {
		x.turns.begin(node)
	}
	if wait := time.Until(x.attempts.again(req)); wait > 0 {
		return x.again(req, attempt, wait), nil
	}
	if attempt.hung && x.slots.full(node) {
		return x.again(req, attempt, firstUnconfirmed), nil
	}
	t, trying := x.slots.begin(ctx, req, node, attempt)
	result, err := x.evict(trying, t)
	aborted := x.slots.end(t)
	switch {
	case result == "" && apicall.Stopping(ctx): // shutting down: the next process goes on
		return reconcile.Result{}, nil
	case errors.Is(aborted, errWithdrawn):
		result, err = x.settle(ctx, req, result, err), nil
	case err != nil && aborted != nil:
		err = aborted
	}
	if err != nil {
		return x.retry(ctx, req, attempt, err)
	}
	if result == resultDryRun { // it is remembered for as long as it would leave, so that it is said once
		return x.again(req, attempt, apicall.LastRefused), nil
	}
	return x.over(req, attempt, result), nil
}

// over ends an eviction.
func (x *executor) over(req PodRequest, attempt *attempt, result result) reconcile.Result {
	x.attempts.over(req, attempt)
	if result == resultGone && !attempt.announced { // never begun, or handed over again while it ended
		return reconcile.Result{}
	}
	x.metrics.evictions.WithLabelValues(string(result)).Inc()
	if _, _, done := x.cached(req); result == resultCancelled && done == "" {
		// The pod has to leave again, and was not handed over as long as this eviction was known as begun.
		return x.again(req, attempt, apicall.FirstBackoff)
	}
	return reconcile.Result{}
}

func (x *executor) nodeOf(req PodRequest) string {
	if pod, ok := x.pods.Get(req.UID); ok {
		return pod.Node
	}
	return ""
}

// again comes back after a wait, behind all evictions that were not tried, or less often.
func (x *executor) again(req PodRequest, attempt *attempt, wait time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: wait, Priority: new(turnOfRetry(attempt.tries(), x.attempts.again(req)))}
}

// retry notes a try without a result. The eviction comes back when it may be tried again, whether that is an error or
// not.
func (x *executor) retry(ctx context.Context, req PodRequest, attempt *attempt, err error) (reconcile.Result, error) {
	wait, failed := attempt.fail(err)
	x.attempts.postpone(attempt, time.Now().Add(wait), err)
	x.metrics.retries.WithLabelValues(reason(err)).Inc()
	x.logRetry(ctx, req, attempt, wait, err)
	if !failed {
		return x.again(req, attempt, wait), nil
	}
	return x.again(req, attempt, 0), err // the queue asks attempts for the wait
}

func (x *executor) logRetry(ctx context.Context, req PodRequest, attempt *attempt, wait time.Duration, err error) {
	log := logf.FromContext(ctx).WithValues(
		"pod", klog.KRef(req.Namespace, req.Name), "failures", attempt.failures, "unconfirmed", attempt.unconfirmed,
		"aborted", attempt.aborted, "after", wait.String(), "reason", err.Error())
	if x.worthALine(attempt, err) {
		log.Info("Evictions fail and are tried again; this is one of them")
		return
	}
	log.V(1).Info("Eviction will be tried again")
}

func (x *executor) worthALine(attempt *attempt, err error) bool {
	var early tooEarlyError
	often := max(attempt.failures, attempt.unconfirmed, attempt.aborted) >= troubleAfter || errors.As(err, &early)
	return often && x.trouble.worthALine(reason(err), time.Now())
}

// settle finds out what became of an eviction that was aborted because the pod has not to leave now: its delete may
// have been carried out all the same.
func (x *executor) settle(ctx context.Context, req PodRequest, done result, failure error) result {
	if failure == nil && done != resultCancelled {
		return done
	}
	pod, ok := x.pods.Get(req.UID)
	if !ok || pod.Flags.Has(podcache.Terminating) {
		return resultGone
	}
	if failure != nil {
		_, done, err := x.look(ctx, pod)
		if done != "" {
			return done
		}
		if err != nil {
			logf.FromContext(ctx).Info("Cannot tell whether an eviction was cancelled in time", "pod", klog.KRef(req.Namespace, req.Name), "reason", err.Error())
			return resultCancelled
		}
	}
	if tainted, ok := x.nodes.get(pod.Node); !ok || !x.leaves(pod, tainted) {
		x.events.cancelled(pod)
	}
	return resultCancelled
}

func (x *executor) leaves(pod *podcache.Pod, tainted *node) bool {
	_, leaves := x.judge.over(pod, tainted)
	return leaves
}

// evict makes one attempt. Before each call that changes something it decides anew.
func (x *executor) evict(ctx context.Context, t *try) (result, error) {
	if err := x.builtIn.Recorded(ctx); err != nil {
		return "", notRecordedError{err}
	}
	pod, v, done, err := x.decideAgain(ctx, t, nil)
	if done != "" || err != nil {
		return done, err
	}
	if !t.attempt.announced {
		t.attempt.announced = true
		x.announce(ctx, pod, v)
	}
	if x.mode == DryRun {
		return resultDryRun, nil
	}
	live, done, err := x.mark(ctx, t, pod)
	if done != "" || err != nil {
		return done, err
	}
	if pod, v, done, err = x.decideAgain(ctx, t, live); done != "" || err != nil {
		return done, err
	}
	return x.delete(ctx, t, pod, v)
}

// decideAgain waits for the turn of the next call and then decides about the pod from the newest
// knowledge; livePod is what the API server itself has said of it, if it was asked already. It
// returns a result when there is nothing left to do, and an error when the pod must leave by what
// is cached, but what is live does not confirm it.
//
// Live reads are needed because the watches are not in step: a pod can be seen bound to a node
// whose taint is already gone, while the cached node still shows it (kubernetes/kubernetes#119862),
// and the cached pod can lack a toleration that it has by now.
func (x *executor) decideAgain(ctx context.Context, t *try, livePod *podcache.Pod) (
	*podcache.Pod, verdict.Verdict, result, error,
) {
	if err := x.api.turn(ctx); err != nil {
		return nil, verdict.Verdict{}, "", err
	}
	x.slots.step(t)
	pod, tainted, done := x.cached(t.req)
	for done == "" {
		after := later(pod.Seen(), tainted.changed)
		live, err := x.live.node(ctx, pod.Node, after)
		if err != nil {
			return nil, verdict.Verdict{}, "", fmt.Errorf("confirm the taints of node %s: %w", pod.Node, err)
		}
		if err := cmp.Or(ctx.Err(), apicall.AbortCause(ctx)); err != nil {
			return nil, verdict.Verdict{}, "", err
		}
		// The read, and the wait for its turn, took time: what the watches brought meanwhile counts,
		// and if the taints changed the read is too old to confirm them.
		read := tainted.changed
		if pod, tainted, done = x.cached(t.req); done != "" || !tainted.changed.Equal(read) {
			continue
		}
		if livePod != nil {
			pod = livePod
		}
		x.warnOfClocks(ctx)
		x.slots.step(t)
		v, err := x.confirm(pod, tainted, live, x.live.passed(pod.Node, tainted.version, after))
		return pod, v, "", err
	}
	return nil, verdict.Verdict{}, done, nil
}

// confirm decides about a pod from the taints that a live read confirms, by one clock and then by the other. A read
// that the watch has passed since says what had to happen when it was made, as long as the newest still shows the same.
func (x *executor) confirm(pod *podcache.Pod, tainted *node, newest, passed liveRead) (verdict.Verdict, error) {
	confirmed := tainted.confirmedBy(newest.node, nil)
	v, at := x.judge.byOurs(confirmed, pod), now()
	if !v.Leaves && passed.node != nil {
		confirmed = tainted.confirmedBy(newest.node, passed.node)
		v, at = x.judge.byOurs(confirmed, pod), earlier(at, passed.started)
	}
	if !v.DueAt(at) {
		return v, errUnconfirmed
	}
	if wait := x.judge.clock.Until(x.judge.dueByServers(confirmed, pod, v)); wait > 0 {
		return v, tooEarlyError{wait}
	}
	return v, nil
}

// clocksDiffer is from when on a difference of the clocks is worth a warning: deadlines are kept to the second.
const clocksDiffer = 5 * time.Second

// warnOfClocks says now and then that this machine's clock and the API server's differ: evictions come late by that.
func (x *executor) warnOfClocks(ctx context.Context) {
	offset := x.judge.clock.Offset()
	if offset.Abs() >= clocksDiffer && x.trouble.worthALine("clocks differ", time.Now()) {
		logf.FromContext(ctx).Info("This machine's clock and the API server's differ, so evictions can come late; set them right, with NTP for example", "serverAhead", offset.String())
	}
}

// cached decides from the caches and by this machine's clock alone. It returns a result when there is nothing left to
// do. Whether a pod is due by the API server's clock, too, is told by the answer to a live read: until then it is
// early, and not cancelled.
func (x *executor) cached(req PodRequest) (*podcache.Pod, *node, result) {
	pod, ok := x.pods.Get(req.UID)
	if !ok || pod.Flags.Has(podcache.Terminating) {
		return nil, nil, resultGone
	}
	tainted, ok := x.nodes.get(pod.Node)
	if !ok {
		return nil, nil, resultCancelled
	}
	if !x.judge.byOurs(tainted.facts, pod).DueAt(now()) {
		return nil, nil, resultCancelled
	}
	return pod, tainted, ""
}

// announce says, once for each eviction, that it begins. A dry run counts it here: it goes no further.
func (x *executor) announce(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) {
	x.events.marking(pod)
	if x.mode == DryRun {
		x.metrics.evictions.WithLabelValues(string(resultDryRun)).Inc()
		logf.FromContext(ctx).Info("Dry run: would evict", "pod", klog.KRef(pod.Namespace, pod.Name),
			"node", pod.Node, "taint", v.Taint.ToString(), "due", v.Due)
	}
}

func (x *executor) delete(ctx context.Context, t *try, pod *podcache.Pod, v verdict.Verdict) (result, error) {
	if err := x.api.delete(ctx, pod); err != nil {
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		x.tellRefusal(ctx, t, pod, err)
		return "", fmt.Errorf("delete pod %s: %w", pod.Key(), err)
	}
	if t.attempt.unmarked != nil {
		x.events.unmarked(pod, t.attempt.unmarked)
	}
	x.pods.MarkTerminating(pod.UID)
	x.metrics.deleted(now().Sub(v.Due))
	logf.FromContext(ctx).Info("Evicted", "pod", klog.KRef(pod.Namespace, pod.Name),
		"node", pod.Node, "taint", v.Taint.ToString(), "due", v.Due)
	return resultDeleted, nil
}

// tellRefusal says who refuses the delete of a pod, in an event and in the condition, once it is more than a passing
// trouble.
func (x *executor) tellRefusal(ctx context.Context, t *try, pod *podcache.Pod, err error) {
	if !refused(err) || t.attempt.failures+1 < troubleAfter || t.attempt.refuser == refuser(err) {
		return
	}
	if _, _, done, err := x.decideAgain(ctx, t, nil); done != "" || err != nil { // the refusal took its time, too
		return
	}
	t.attempt.refuser = refuser(err)
	x.events.refused(pod, err)
	if _, err := x.api.patchCondition(ctx, pod, refusedMessage(t.attempt.refuser)); err != nil {
		logf.FromContext(ctx).V(1).Info("Cannot say in the condition who refuses an eviction", "pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
	}
}
