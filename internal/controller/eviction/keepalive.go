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

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
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
	// refusedFor is how long a pod has been due before it is kept alive, if its eviction is refused or something must be
	// read first. Most of that passes sooner.
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

// holds reports whether a policy holds a due pod.
func (k *keepAlive) holds(pod *podcache.Pod, node *nodecache.Node) bool {
	said := k.says(pod, node, node.NoExecute)
	return said.Stays() && !unread(said.Answer)
}

// unread reports whether a pod stays only until something has been read, which usually takes a moment.
func unread(said policy.Answer) bool {
	return said.Why == policy.PodUnread || said.Why == policy.PoliciesUnread
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
		if len(d.untolerated(pod.Pod, node.NoExecute)) == 0 {
			continue
		}
		after := time.Duration(0)
		if unread(pod.answer) {
			after = d.refusedAfter(pod.due)
		}
		d.keep(requestFor(pod.Pod), pod.due, after)
	}
}

// refusedAfter returns how long from now a pod counts as refused that has been due since an instant.
func (d *decider) refusedAfter(due time.Time) time.Duration {
	return max(0, refusedFor-d.clock.Since(due))
}

// refused notes that the eviction of a pod is refused.
func (d *decider) refused(t *try) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keep != nil {
		d.keep(t.PodRequest, t.due, d.refusedAfter(t.due))
	}
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
