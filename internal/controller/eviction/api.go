// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// api makes the API calls of an eviction.
type api struct {
	client  kubernetes.Interface
	limiter *rate.Limiter // nil for no limit
	clock   *timeline.Clock
}

// token waits for a token of the rate limit.
func (a api) token(ctx context.Context) error { return apicall.Token(ctx, a.limiter) }

// node does a consistent read of a node.
func (a api) node(ctx context.Context, name string) (*corev1.Node, error) {
	return apicall.GetNode(ctx, a.client, a.limiter, name)
}

// patchCondition sets the condition DisruptionTarget on exactly this pod, because the UID in the patch is a
// precondition. It returns the patched pod.
func (a api) patchCondition(ctx context.Context, pod *podcache.Pod,
	status corev1.ConditionStatus, message string,
) (*corev1.Pod, error) {
	return apicall.PatchPodCondition(ctx, a.client, exactly(pod), condition(pod, status, message, a.clock.Latest()))
}

// patchConditionOf is patchCondition with the precondition that the pod has not changed since it was cached.
func (a api) patchConditionOf(ctx context.Context, pod *podcache.Pod,
	status corev1.ConditionStatus, message string,
) error {
	_, err := apicall.PatchPodCondition(ctx, a.client, unchanged(pod), condition(pod, status, message, a.clock.Latest()))
	return err
}

// unchanged identifies the pod at the version that was cached.
func unchanged(pod *podcache.Pod) metav1.ObjectMeta {
	meta := exactly(pod)
	if pod.Version > 0 {
		meta.ResourceVersion = strconv.FormatUint(pod.Version, 10)
	}
	return meta
}

func exactly(pod *podcache.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func condition(pod *podcache.Pod, status corev1.ConditionStatus, message string, at time.Time) map[string]any {
	condition := map[string]any{
		"type":    corev1.DisruptionTarget,
		"status":  status,
		"reason":  v1alpha1.TaintEvictionReason,
		"message": message,
	}
	if pod.Generation > 0 { // servers before 1.33 set none, and warn about the field
		condition["observedGeneration"] = pod.Generation
	}
	if was := pod.Flags.Has(podcache.DisruptionTarget); was != (status == corev1.ConditionTrue) {
		condition["lastTransitionTime"] = metav1.NewTime(at)
	}
	return condition
}

// delete deletes exactly this pod, with its own grace period.
func (a api) delete(ctx context.Context, pod *podcache.Pod) error {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Pods(pod.Namespace).
		Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}

// evict asks the Eviction API to delete exactly this pod, with its own grace period.
func (a api) evict(ctx context.Context, pod *podcache.Pod) error {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// pod does a consistent read of the pod that has the name now.
func (a api) pod(ctx context.Context, pod *podcache.Pod) (*corev1.Pod, error) {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
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
