// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	is, wrong, err := apicall.Decide(ctx, r.api.limiter, func() (correction, bool) { return r.correct(req.UID) })
	if !wrong {
		return reconcile.Result{}, err
	}
	if !r.writers.begin(req.UID) {
		return reconcile.Result{RequeueAfter: apicall.FirstBackoff}, nil
	}
	defer r.writers.end(req.UID)
	err = r.api.patchConditionOf(ctx, is.pod, is.status, is.message)
	if apicall.IsNotFound(err) || apicall.IsAnotherUID(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("rewrite the mark of pod %s: %w", is.pod.Key(), err)
	}
	logf.FromContext(ctx).Info("Rewrote the mark of a pod",
		"pod", klog.KRef(is.pod.Namespace, is.pod.Name), "disruptionTarget", is.status, "message", is.message)
	return reconcile.Result{}, nil
}

// correction is the right mark of a pod.
type correction struct {
	pod     *podcache.Pod
	status  corev1.ConditionStatus
	message string
}

// correct returns the right mark of a pod, if it has a wrong one.
func (r *reclaimer) correct(uid types.UID) (correction, bool) {
	pod, ok := r.pods.There(uid)
	if !ok || !r.marked(pod) {
		return correction{}, false
	}
	due, held, why := r.held(pod)
	switch {
	case held:
		return correction{pod, corev1.ConditionFalse, v1alpha1.StaysMessage(why.String())}, true
	case pod.Flags.Has(podcache.MarkedByUs):
		return correction{}, false
	case due:
		return correction{pod, corev1.ConditionTrue, v1alpha1.MarkMessage}, true
	}
	return correction{pod, corev1.ConditionFalse, v1alpha1.UnmarkMessage}, true
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
