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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
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
	judge   judge
	mode    Mode
	nodes   nodes
	pods    *podcache.Cache
	live    *liveNodes
	api     api
	queue   *queue
	asks    bool // the queue is for pods about which the Eviction API is asked
	decide  *decider
	events  *events
	metrics *metrics
	builtIn BuiltIn
	witness *witness
	rarely  rarely
}

// run starts one try after the other until the context ends, and waits for those in flight. It waits for our own rate
// limit before it asks the queue, because a try that waits for a token would count as slow.
func (x *executor) run(ctx context.Context) error {
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
	x.queue.drain(ended, stopWithin, func(node string) { x.decide.look(ctx, node) })
	return nil
}

func (x *executor) try(ctx context.Context, t *try) {
	result, err := x.evict(ctx, t)
	x.ends(t)
	outcome := backlog.Over
	if cancelled := x.queue.cancelled(t); !errors.Is(cancelled, backlog.ErrWithdrawn) {
		outcome = x.outcome(ctx, t, result, cmp.Or(cancelled, err))
	}
	switch {
	case !x.queue.done(t, outcome):
		x.count(t, x.learn(ctx, t, result, err))
		t.learned = true
		x.queue.done(t, backlog.Over)
		x.decide.look(ctx, t.node) // the pod may have been withdrawn because the other queue has it now
	case result == resultCancelled, result == resultHeld: // the caches show it, but the decider has not said so yet
		x.decide.look(ctx, t.node)
	case outcome == backlog.Over:
		x.count(t, result)
	}
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

func (x *executor) count(t *try, result result) {
	if result != "" && (result != resultGone || t.announced) {
		x.metrics.evictions.WithLabelValues(string(result)).Inc()
	}
}

// learn finds out what happened to an eviction that was cancelled because the pod need not leave now. Its delete may
// have been accepted anyway.
func (x *executor) learn(ctx context.Context, t *try, done result, failure error) result {
	switch done {
	case resultDeleted, resultGone, resultReplaced:
		return done
	}
	pod, ok := x.pods.There(t.UID)
	if !ok {
		return resultGone
	}
	if failure != nil {
		if ended := x.lookSoon(ctx, pod); ended != "" {
			return ended
		}
	}
	if tainted, ok := x.nodes.get(pod.Node); ok && x.leaves(pod, tainted.NoExecute) {
		return "" // if it must leave later, or again, that is another eviction
	}
	if x.nodes.exists(pod.Node) {
		x.events.cancelled(pod, t.due)
	}
	return resultCancelled
}

func (x *executor) leaves(pod *podcache.Pod, tainted []verdict.Taint) bool {
	_, leaves := x.judge.over(pod, tainted)
	return leaves
}

// lookSoon asks what happened to a pod, with a short timeout. It returns a result if the pod has ended.
func (x *executor) lookSoon(ctx context.Context, pod *podcache.Pod) result {
	soon, abort := apicall.Abortable(ctx)
	defer time.AfterFunc(learnWithin, func() { abort(nil) }).Stop()
	_, done, err := x.look(soon, pod)
	if err != nil && x.rarely.allows("learn", x.judge.clock.Now()) {
		logf.FromContext(ctx).Info("Cannot tell whether an eviction was cancelled in time",
			"pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
	}
	return done
}

// evict makes one try. It decides again before each call that changes something. The caller has waited for the token of
// the first call.
func (x *executor) evict(ctx context.Context, t *try) (result, error) {
	x.witness.lookSince(t.node, t.due)
	if err := x.builtIn.Recorded(ctx); err != nil {
		return "", notRecordedError{err}
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

// carryOut asks the Eviction API about the pod, or marks and deletes it.
func (x *executor) carryOut(ctx context.Context, t *try, pod *podcache.Pod) (result, error) {
	if !x.api.writers.begin(t.UID) {
		return "", errUnconfirmed
	}
	defer x.api.writers.end(t.UID)
	if x.asks {
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

// decideWithToken waits for the token of the next call and then decides.
func (x *executor) decideWithToken(ctx context.Context, t *try, live *podcache.Pod) (
	*podcache.Pod, verdict.Verdict, result, error,
) {
	if err := x.api.token(ctx); err != nil {
		return nil, verdict.Verdict{}, "", err
	}
	return x.decideAgain(ctx, t, live)
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
	pod, tainted, done := x.cached(t.UID)
	for done == "" {
		after := timeline.Later(pod.Seen(), tainted.Tainted)
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
		if pod, tainted, done = x.cached(t.UID); done != "" || !tainted.Tainted.Equal(read) {
			continue
		}
		if livePod != nil {
			pod = livePod
		}
		x.warnOfClocks(ctx)
		v, err := x.confirm(pod, tainted, live, x.live.passed(pod.Node, tainted.ResourceVersion, after))
		return pod, v, "", err
	}
	return nil, verdict.Verdict{}, done, nil
}

// confirm decides about a pod from the taints that a live read confirms. A read that the watch has passed tells what
// had to happen when it was made, as long as the newest read still shows the same.
func (x *executor) confirm(pod *podcache.Pod, tainted *nodecache.Node, newest, passed liveRead) (
	verdict.Verdict, error,
) {
	if wentBack(tainted, newest) {
		return verdict.Verdict{}, errUnconfirmed
	}
	at, confirmed := x.judge.clock.Now(), confirmedBy(tainted, newest.node, nil)
	v, leaves := x.judge.over(pod, confirmed)
	if !leaves && passed.node != nil {
		confirmed = confirmedBy(tainted, newest.node, passed.node)
		v, _ = x.judge.over(pod, confirmed)
		at = timeline.Earlier(at, passed.started)
	}
	if !v.DueAt(at) {
		return v, errUnconfirmed
	}
	// Policies may let the pod leave because of an unconfirmed taint, but hold it or want to ask because of the others.
	if said := x.judge.says(pod, tainted, confirmed); said.Stays() || said.Step == policy.Ask && !x.asks {
		return v, errUnconfirmed
	}
	return v, nil
}

// clocksDiffer is the difference between the clocks that is worth a warning. Deadlines are kept to the second.
const clocksDiffer = 5 * time.Second

// warnOfClocks logs periodically that this machine's clock and the API server's differ, because a restart makes
// evictions late by that difference.
func (x *executor) warnOfClocks(ctx context.Context) {
	offset := x.judge.clock.Offset()
	if offset.Abs() >= clocksDiffer && x.rarely.allows("clocks differ", x.judge.clock.Now()) {
		logf.FromContext(ctx).Info("This machine's clock and the API server's differ: evictions can be late after a restart. Synchronize both with NTP", "serverAhead", offset.String())
	}
}

// cached decides from the caches. It returns a result when there is nothing left to do.
func (x *executor) cached(uid types.UID) (*podcache.Pod, *nodecache.Node, result) {
	pod, ok := x.pods.There(uid)
	if !ok {
		return nil, nil, resultGone
	}
	tainted, ok := x.nodes.get(pod.Node)
	if !ok || !x.judge.due(pod, tainted.NoExecute) {
		return nil, nil, resultCancelled
	}
	said := x.judge.says(pod, tainted, tainted.NoExecute)
	if said.Stays() || x.asks != (said.Step == policy.Ask) {
		return nil, nil, resultHeld
	}
	return pod, tainted, ""
}

// announce reports, once for each eviction, that it begins. A dry run goes no further, and counts it here.
func (x *executor) announce(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) {
	x.events.marking(pod, v)
	if x.mode == DryRun {
		x.metrics.evictions.WithLabelValues(string(resultDryRun)).Inc()
		logf.FromContext(ctx).Info("Dry run: would evict", "pod", klog.KRef(pod.Namespace, pod.Name),
			"node", pod.Node, "taint", v.Taint.ToString(), "due", x.judge.clock.Shown(v.Due))
	}
}

func (x *executor) delete(ctx context.Context, t *try, pod *podcache.Pod, v verdict.Verdict) (result, error) {
	if err := x.api.delete(ctx, pod); err != nil {
		t.unanswered = !apicall.Answered(err)
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		x.tellRefusal(ctx, t, pod, err)
		return "", fmt.Errorf("delete pod %s: %w", pod.Key(), err)
	}
	if t.unmarked != nil {
		x.events.unmarked(pod, v, t.unmarked)
	}
	return x.left(ctx, pod, v), nil
}

// left notes that the API server has accepted the eviction of a pod.
func (x *executor) left(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) result {
	x.pods.MarkTerminating(pod.UID)
	x.metrics.deleted(x.judge.clock.Since(v.Due))
	logf.FromContext(ctx).Info("Evicted", "pod", klog.KRef(pod.Namespace, pod.Name),
		"node", pod.Node, "taint", v.Taint.ToString(), "due", x.judge.clock.Shown(v.Due))
	return resultDeleted
}

// tellRefusal reports what refuses the delete of a pod, in an event and in the condition, once it is more than a
// passing failure. The condition is False until the next try, because the pod is not about to end, and
// kube-controller-manager would reset the condition after two minutes (kubernetes/kubernetes
// pkg/controller/disruption).
func (x *executor) tellRefusal(ctx context.Context, t *try, pod *podcache.Pod, err error) {
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
