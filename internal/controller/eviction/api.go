// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// PodRequest names one pod. The UID says which; the name is for the API calls.
type PodRequest struct {
	Namespace, Name string
	UID             types.UID
}

func (r PodRequest) String() string { return r.Namespace + "/" + r.Name }

func requestFor(pod *podcache.Pod) PodRequest {
	return PodRequest{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

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

// api makes the API calls of an eviction.
type api struct {
	client  kubernetes.Interface
	limiter *rate.Limiter // nil for no limit
	clock   *timeline.Clock
}

// token waits for a token of the rate limit.
func (a api) token(ctx context.Context) error { return apicall.Token(ctx, a.limiter) }

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
