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
	"k8s.io/apimachinery/pkg/types"
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
	decide := func() (lacking, bool) { return k.lacks(req.UID) }
	if _, lacks := decide(); !lacks || k.limiter.Wait(ctx) != nil {
		return reconcile.Result{}, nil
	}
	is, lacks, err := apicall.Decide(ctx, k.api.limiter, decide)
	if !lacks || err != nil { // the process ends
		return reconcile.Result{}, nil
	}
	if !k.writers.begin(req.UID) {
		return reconcile.Result{RequeueAfter: apicall.FirstBackoff}, nil
	}
	defer k.writers.end(req.UID)
	err = k.addTolerations(ctx, is)
	if err == nil || apicall.IsNotFound(err) || apicall.IsAnotherUID(err) || apicall.Stopping(ctx) {
		return reconcile.Result{}, nil
	}
	k.metrics.retries.WithLabelValues(reason(err)).Inc()
	if !apierrors.IsConflict(err) && k.rarely.allows(reason(err), k.clock.Now()) {
		logf.FromContext(ctx).Info("Cannot keep a due pod that stays alive: it ends if its kubelet restarts; still trying",
			"pod", klog.KRef(is.pod.Namespace, is.pod.Name), "reason", err.Error())
	}
	return reconcile.Result{}, err
}

// lacking is a due pod that stays, and the taints of its node that it must tolerate to stay alive.
type lacking struct {
	pod     *podcache.Pod
	verdict verdict.Verdict
	taints  []corev1.Taint
}

// lacks returns what a pod must tolerate to stay alive, if it does not. It lacks nothing if it is not due, is about to
// leave, or has finished.
func (k *keepAlive) lacks(uid types.UID) (lacking, bool) {
	pod, ok := k.pods.There(uid)
	if !ok || pod.Flags.Has(podcache.Finished) {
		return lacking{}, false
	}
	node, ok := k.nodes.Tainted(pod.Node)
	if !ok {
		return lacking{}, false
	}
	v, _ := k.over(pod, node.NoExecute)
	if at := k.clock.Now(); !v.DueAt(at) || !v.DueAt(at.Add(-refusedFor)) && !k.holds(pod, node) {
		return lacking{}, false
	}
	untolerated := k.untolerated(pod, node.NoExecute)
	return lacking{pod, v, untolerated}, len(untolerated) > 0
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

// addTolerations adds tolerations of the taints, on the condition that the pod has not changed since it was cached.
func (k *keepAlive) addTolerations(ctx context.Context, is lacking) error {
	all := slices.Clone(is.pod.Tolerations())
	for _, taint := range is.taints {
		all = append(all, taints.ForNoTime(taint))
	}
	answer, err := apicall.PatchPodTolerations(ctx, k.api.client, unchanged(is.pod), all)
	if err != nil {
		return fmt.Errorf("add tolerations to pod %s: %w", is.pod.Key(), err)
	}
	if len(k.rule.Matcher.Unadmitted(is.taints, answer.Spec.Tolerations)) > 0 {
		return errStrippedToleration
	}
	k.events.keptAlive(is.pod, is.verdict, is.taints)
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
