// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
)

// markTries is how often the patch of the condition, or the read of a pod that has it, may fail before it no longer
// blocks the delete. It is still tried first each time. In upstream, a status patch that could never succeed once
// blocked evictions permanently (kubernetes/kubernetes#112517).
const markTries = 3

// writers lets one goroutine at a time mark, unmark or evict a pod. Otherwise, a PATCH that takes the mark away could
// be carried out after the eviction has read the mark and before it deletes the pod. It is safe for concurrent use.
type writers struct {
	mu sync.Mutex
	of map[types.UID]struct{}
}

// begin reports whether the caller is the pod's writer now, until it calls end.
func (w *writers) begin(pod types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, busy := w.of[pod]; busy {
		return false
	}
	if w.of == nil {
		w.of = map[types.UID]struct{}{}
	}
	w.of[pod] = struct{}{}
	return true
}

func (w *writers) end(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, pod)
}

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
		return nil, "", fmt.Errorf("set the condition DisruptionTarget of pod %s: %w", pod.Key(), err)
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

// reclaimer corrects marks.
//
// Where the built-in controller runs, it replaces the built-in's marks with ours. If a pod has its exact mark, the
// built-in deletes the pod without setting the mark again (pkg/controller/tainteviction/taint_eviction.go), which
// bypasses the admission policy that keeps it from evicting.
//
// It also resets our mark on a pod that a policy holds now. Such a pod is not about to end, and kube-controller-manager
// would reset the mark after two minutes (pkg/controller/disruption).
type reclaimer struct {
	writer

	builtIn bool // the built-in controller runs
}

// Reconcile rewrites the mark of one pod, if it is wrong.
func (r *reclaimer) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	pod, ok := r.pods.There(req.UID)
	if !ok || !r.marked(pod) {
		return reconcile.Result{}, nil
	}
	if !r.api.writers.begin(req.UID) {
		return reconcile.Result{RequeueAfter: apicall.FirstBackoff}, nil
	}
	defer r.api.writers.end(req.UID)
	due, held, why := r.held(pod)
	status, message := corev1.ConditionFalse, v1alpha1.UnmarkMessage
	switch {
	case held:
		message = v1alpha1.StaysMessage(why.String())
	case pod.Flags.Has(podcache.MarkedByUs):
		return reconcile.Result{}, nil
	case due:
		status, message = corev1.ConditionTrue, v1alpha1.MarkMessage
	}
	if err := r.api.token(ctx); err != nil {
		return reconcile.Result{}, err
	}
	err := r.api.patchConditionOf(ctx, pod, status, message)
	if apicall.IsNotFound(err) || apicall.IsAnotherUID(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rewrite the mark of pod %s: %w", pod.Key(), err)
	}
	logf.FromContext(ctx).Info("Rewrote the mark of a pod",
		"pod", klog.KRef(pod.Namespace, pod.Name), "disruptionTarget", status, "message", message)
	return reconcile.Result{}, nil
}

// marked reports whether a pod has a mark that can be wrong.
func (r *reclaimer) marked(pod *podcache.Pod) bool {
	return r.builtIn && pod.Flags.Has(podcache.MarkedByBuiltIn) ||
		r.policies != nil && pod.Flags.Has(podcache.MarkedByUs)
}

// podsToReclaim is the source of marked pods. It returns them again when the answers of policies may have changed.
func (e *Evictor) podsToReclaim(r *reclaimer) stage.Source[PodRequest] {
	begin := func(queue workqueue.TypedRateLimitingInterface[PodRequest]) {
		add := func(pod *podcache.Pod) {
			if r.marked(pod) && !pod.Flags.Has(podcache.Terminating) {
				queue.Add(requestFor(pod))
			}
		}
		e.pods.Subscribe(func(change podcache.Change) {
			if change.After != nil {
				add(change.After)
			}
		})
		if e.policies == nil {
			return
		}
		on := func(node string) {
			for _, pod := range e.pods.OnNode(node) {
				add(pod)
			}
		}
		e.policies.Subscribe(on)
		e.nodes.SubscribeTaints(on)
	}
	return stage.Source[PodRequest]{Of: "marked pods", To: begin, Wait: e.waitForKnown}
}
