// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// keptPerSecond bounds the PATCHes that keep pods alive. Each costs about as much as marking a pod that leaves.
	keptPerSecond = 50
	// refusedFor is how long a pod whose eviction is refused has been due before it is kept alive. Most refusals pass
	// sooner.
	refusedFor = time.Minute
)

// keepAlive keeps due pods alive that stay because a policy holds them or something refuses their eviction. A kubelet
// that starts ends those of its pods that have no toleration for a NoExecute taint of their node, whatever its
// tolerationSeconds (pkg/kubelet/lifecycle/predicate.go). So such a pod gets one, for 0 seconds, which changes neither
// whether nor when the pod must leave.
type keepAlive struct {
	writer

	limiter *rate.Limiter
	rarely  rarely
}

// errStrippedToleration says that the answer to the PATCH lacks what was added.
var errStrippedToleration = errors.New(
	"the API server accepted a toleration, but its response does not contain it: a webhook removes it")

// Reconcile adds the tolerations that a pod lacks, if it is due and stays.
func (k *keepAlive) Reconcile(ctx context.Context, req PodRequest) (reconcile.Result, error) {
	if _, _, lacks := k.lacks(req); len(lacks) == 0 {
		return reconcile.Result{}, nil
	}
	if k.limiter.Wait(ctx) != nil || k.api.token(ctx) != nil { // the process ends
		return reconcile.Result{}, nil
	}
	if !k.api.writers.begin(req.UID) {
		return reconcile.Result{RequeueAfter: apicall.FirstBackoff}, nil
	}
	defer k.api.writers.end(req.UID)
	pod, v, lacks := k.lacks(req)
	if len(lacks) == 0 {
		return reconcile.Result{}, nil
	}
	err := k.addTolerations(ctx, pod, v, lacks)
	if err == nil || apicall.IsNotFound(err) || apicall.IsAnotherUID(err) || apicall.Stopping(ctx) {
		return reconcile.Result{}, nil
	}
	k.metrics.retries.WithLabelValues(reason(err)).Inc()
	if !apierrors.IsConflict(err) && k.rarely.allows(reason(err), k.clock.Now()) {
		logf.FromContext(ctx).Info("Cannot keep a due pod that stays alive: it ends if its kubelet restarts; still trying",
			"pod", klog.KRef(pod.Namespace, pod.Name), "reason", err.Error())
	}
	return reconcile.Result{}, err
}

// lacks returns a pod, its verdict, and the taints of its node that it must tolerate to stay alive. There are none if
// it is not due, is about to leave, or has finished.
func (k *keepAlive) lacks(req PodRequest) (*podcache.Pod, verdict.Verdict, []corev1.Taint) {
	pod, ok := k.pods.There(req.UID)
	if !ok || pod.Flags.Has(podcache.Finished) {
		return nil, verdict.Verdict{}, nil
	}
	node, ok := k.nodes.Tainted(pod.Node)
	if !ok {
		return nil, verdict.Verdict{}, nil
	}
	v, _ := k.over(pod, node.NoExecute)
	if at := k.clock.Now(); !v.DueAt(at) || !v.DueAt(at.Add(-refusedFor)) && !k.holds(pod, node) {
		return nil, verdict.Verdict{}, nil
	}
	return pod, v, k.untolerated(pod, node.NoExecute)
}

// holds reports whether a policy holds a due pod for more than a moment.
func (k *keepAlive) holds(pod *podcache.Pod, node *nodecache.Node) bool {
	said := k.says(pod, node, node.NoExecute)
	return said.Stays() && said.Why != policy.PodUnread
}

// untolerated returns the NoExecute taints that no toleration of a pod matches.
func (j judge) untolerated(pod *podcache.Pod, tainted []verdict.Taint) []corev1.Taint {
	all := make([]corev1.Taint, len(tainted))
	for i := range tainted {
		all[i] = tainted[i].Taint
	}
	return j.rule.Matcher.Unadmitted(all, pod.Tolerations())
}

// addTolerations adds tolerations of taints to a pod, on the condition that the pod has not changed since it was
// cached.
func (k *keepAlive) addTolerations(
	ctx context.Context, pod *podcache.Pod, v verdict.Verdict, lacks []corev1.Taint,
) error {
	all := slices.Clone(pod.Tolerations())
	for _, taint := range lacks {
		all = append(all, taints.ForNoTime(taint))
	}
	answer, err := apicall.PatchPodTolerations(ctx, k.api.client, unchanged(pod), all)
	if err != nil {
		return fmt.Errorf("add tolerations to pod %s: %w", pod.Key(), err)
	}
	if len(k.rule.Matcher.Unadmitted(lacks, answer.Spec.Tolerations)) > 0 {
		return errStrippedToleration
	}
	k.events.keptAlive(pod, v, lacks)
	return nil
}

// podsToKeepAlive is the source of due pods that stay, of which those that are due first come first.
func (e *Evictor) podsToKeepAlive() stage.Source[PodRequest] {
	begin := func(queue workqueue.TypedRateLimitingInterface[PodRequest]) {
		byDue := queue.(priorityqueue.PriorityQueue[PodRequest]) // controller-runtime's default
		e.decider.onStay(func(pod PodRequest, due time.Time, after time.Duration) {
			byDue.AddWithOpts(priorityqueue.AddOpts{Priority: new(-int(due.Unix())), After: after}, pod)
		})
	}
	return stage.Source[PodRequest]{Of: "due pods that stay", To: begin, Wait: e.waitForKnown}
}

// keepFunc has a pod that is due kept alive after some time, if it still stays then.
type keepFunc func(pod PodRequest, due time.Time, after time.Duration)

// onStay calls a function with each due pod that stays, now and whenever that is decided again.
func (d *decider) onStay(keep keepFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep = keep
	for name, held := range d.held {
		d.keepAlive(name, slices.Collect(maps.Values(held)))
	}
}

// keepAlive has the held pods of a node kept alive that would not survive a restart of their kubelet.
func (d *decider) keepAlive(name string, held []heldPod) {
	node, ok := d.nodes.Tainted(name)
	if d.keep == nil || !ok {
		return
	}
	for _, pod := range held {
		if len(d.untolerated(pod.Pod, node.NoExecute)) > 0 {
			d.keep(requestFor(pod.Pod), pod.due, 0)
		}
	}
}

// refused notes that the eviction of a pod is refused.
func (d *decider) refused(t *try) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keep != nil {
		d.keep(t.PodRequest, t.due, max(0, refusedFor-d.clock.Since(t.due)))
	}
}
