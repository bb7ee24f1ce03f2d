// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
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
	rule     verdict.Rule
	mode     Mode
	nodes    *nodes
	pods     *podcache.Cache
	live     *liveNodes
	api      api
	attempts *attempts
	events   *events
	metrics  *metrics
	trouble  trouble
}

// Reconcile evicts one pod: done when the pod is gone, was replaced or has no longer to leave;
// otherwise it comes back, however often it takes.
func (x *executor) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	attempt := x.attempts.get(req)
	if wait := time.Until(attempt.notBefore); wait > 0 {
		return x.again(req, attempt, wait), nil
	}
	result, err := x.evict(ctx, req, attempt)
	if result == "" && apicall.Stopping(ctx) { // shutting down: the next process goes on
		return reconcile.Result{}, nil
	}
	if err != nil {
		return x.again(req, attempt, x.retry(ctx, req, attempt, err)), nil
	}
	x.attempts.forget(req)
	if result == resultGone && !attempt.announced { // never begun, or handed over again while it ended
		return reconcile.Result{}, nil
	}
	x.metrics.evictions.WithLabelValues(string(result)).Inc()
	return reconcile.Result{}, nil
}

// again comes back after a wait, as if the pod were due only then: evictions that keep failing
// must not come before those that have not been tried.
func (x *executor) again(req PodRequest, attempt *attempt, wait time.Duration) reconcile.Result {
	var podPriority int32
	if pod, ok := x.pods.Get(req.UID); ok {
		podPriority = pod.Priority
	}
	return reconcile.Result{RequeueAfter: wait, Priority: new(priority(attempt.notBefore, podPriority))}
}

// retry notes a failed attempt and returns how long to wait before the next.
func (x *executor) retry(ctx context.Context, req PodRequest, attempt *attempt, err error) time.Duration {
	wait := attempt.fail(err)
	x.attempts.postpone(attempt, time.Now().Add(wait))
	if errors.Is(err, errDryRun) {
		return wait
	}
	x.metrics.retries.WithLabelValues(reason(err)).Inc()
	log := logf.FromContext(ctx).WithValues("pod", klog.KRef(req.Namespace, req.Name), "failures", attempt.failures, "unconfirmed", attempt.unconfirmed, "after", wait.String(), "reason", err.Error())
	if max(attempt.failures, attempt.unconfirmed) >= troubleAfter && x.trouble.worthALine(reason(err), time.Now()) {
		log.Info("Evictions fail and are tried again; this is one of them")
		return wait
	}
	log.V(1).Info("Eviction will be tried again")
	return wait
}

// evict makes one attempt. Before each call that changes something it decides anew.
func (x *executor) evict(ctx context.Context, req PodRequest, attempt *attempt) (result, error) {
	pod, v, done, err := x.decideAgain(ctx, req, nil)
	if done != "" || err != nil {
		return done, err
	}
	if !attempt.announced {
		attempt.announced = true
		x.announce(ctx, pod, v)
	}
	if x.mode == DryRun {
		return "", errDryRun
	}
	live, done, err := x.mark(ctx, req, pod, attempt)
	if done != "" || err != nil {
		return done, err
	}
	if pod, v, done, err = x.decideAgain(ctx, req, live); done != "" || err != nil {
		return done, err
	}
	return x.delete(ctx, pod, v, attempt)
}

// decideAgain waits for the turn of the next call and then decides about the pod from the newest
// knowledge; livePod is what the API server itself has said of it, if it was asked already. It
// returns a result when there is nothing left to do, and an error when the pod must leave by what
// is cached, but what is live does not confirm it.
//
// Live reads are needed because informers are not in step: a pod can be seen bound to a node
// whose taint is already gone, while the cached node still shows it (kubernetes/kubernetes#119862),
// and the cached pod can lack a toleration that it has by now.
func (x *executor) decideAgain(ctx context.Context, req PodRequest, livePod *podcache.Pod) (*podcache.Pod, verdict.Verdict, result, error) {
	if err := x.api.turn(ctx); err != nil {
		return nil, verdict.Verdict{}, "", err
	}
	pod, tainted, done := x.cached(req)
	for done == "" {
		live, err := x.live.node(ctx, pod.Node, later(pod.Seen(), tainted.changed))
		if err != nil {
			return nil, verdict.Verdict{}, "", fmt.Errorf("confirm the taints of node %s: %w", pod.Node, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, verdict.Verdict{}, "", err
		}
		// The read, and the wait for its turn, took time: what the watches brought meanwhile counts,
		// and if the taints changed the read is too old to confirm them.
		read := tainted.changed
		if pod, tainted, done = x.cached(req); done != "" || !tainted.changed.Equal(read) {
			continue
		}
		if livePod != nil {
			pod = livePod
		}
		v, leaves := judge(x.rule, pod, tainted.confirmedBy(live))
		if !leaves || !v.DueAt(now()) {
			return nil, verdict.Verdict{}, "", errUnconfirmed
		}
		return pod, v, "", nil
	}
	return nil, verdict.Verdict{}, done, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cached decides from the caches alone. It returns a result when there is nothing left to do.
func (x *executor) cached(req PodRequest) (*podcache.Pod, *node, result) {
	pod, ok := x.pods.Get(req.UID)
	if !ok || pod.Flags.Has(podcache.Terminating) {
		return nil, nil, resultGone
	}
	tainted, ok := x.nodes.get(pod.Node)
	if !ok {
		return nil, nil, resultCancelled
	}
	if v, leaves := judge(x.rule, pod, tainted); !leaves || !v.DueAt(now()) {
		return nil, nil, resultCancelled
	}
	return pod, tainted, ""
}

// announce says, once for each eviction, that it begins. A dry run counts it here: it goes no
// further, and only looks again from time to time whether the pod still would have to leave.
func (x *executor) announce(ctx context.Context, pod *podcache.Pod, v verdict.Verdict) {
	x.events.marking(pod)
	if x.mode == DryRun {
		x.metrics.evictions.WithLabelValues(string(resultDryRun)).Inc()
		logf.FromContext(ctx).Info("Dry run: would evict", "pod", klog.KRef(pod.Namespace, pod.Name), "node", pod.Node, "taint", v.Taint.ToString(), "due", v.Due)
	}
}

func (x *executor) delete(ctx context.Context, pod *podcache.Pod, v verdict.Verdict, attempt *attempt) (result, error) {
	if err := x.api.delete(ctx, pod); err != nil {
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		return "", fmt.Errorf("delete pod %s: %w", pod.Key(), err)
	}
	if attempt.unmarked != nil {
		x.events.unmarked(pod, attempt.unmarked)
	}
	x.pods.MarkTerminating(pod.UID)
	x.metrics.deleted(now().Sub(v.Due))
	logf.FromContext(ctx).V(1).Info("Evicted", "pod", klog.KRef(pod.Namespace, pod.Name), "node", pod.Node, "taint", v.Taint.ToString(), "due", v.Due)
	return resultDeleted, nil
}
