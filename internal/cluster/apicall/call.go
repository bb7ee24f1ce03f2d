// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apicall defines how Taintkeeper calls the API server. A caller waits for a token before it decides, a call
// that has begun is finished, and only the caller repeats a call. Errors are reduced to a few reasons.
package apicall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Timeout bounds one call. It is longer than a webhook may take (30 s), so that a call that can still succeed is not
// abandoned.
const Timeout = 35 * time.Second

// Token waits for a token of a limiter; a nil limiter never waits. Call it before a decision and not within the call,
// because a decision must not grow old in a queue; see [Decide]. It fails when the context ends or is aborted.
func Token(ctx context.Context, limiter *rate.Limiter) error {
	if limiter == nil {
		return cmp.Or(ctx.Err(), AbortCause(ctx))
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		defer context.AfterFunc(aborted, cancel)() //nolint:contextcheck // it is the given context's own
	}
	return cmp.Or(limiter.Wait(waiting), AbortCause(ctx))
}

// Decide decides what to write. If there is anything, it waits for a token and decides again, because everything may
// have changed meanwhile. It returns whether there is still something to write.
func Decide[T any](
	ctx context.Context, limiter *rate.Limiter, decide func() (T, bool),
) (what T, writes bool, err error) {
	if what, writes = decide(); !writes {
		return what, false, nil
	}
	if err := Token(ctx, limiter); err != nil {
		return what, false, err
	}
	what, writes = decide()
	return what, writes, nil
}

// GetNode waits for a token of the limiter and does a consistent read of a node.
func GetNode(
	ctx context.Context, client kubernetes.Interface, limiter *rate.Limiter, name string,
) (*corev1.Node, error) {
	if err := Token(ctx, limiter); err != nil {
		return nil, err
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// InFlight returns the context of a call that has begun. It continues when the given context is cancelled: shutting
// down prevents the next call, but does not stop the one in flight. It ends after [Timeout], at the given context's
// deadline, and when the given context is aborted, see [Abortable].
func InFlight(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(Timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	call, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	aborted, ok := ctx.Value(abortKey{}).(context.Context)
	if !ok {
		return call, cancel
	}
	stop := context.AfterFunc(aborted, cancel)
	return call, func() { stop(); cancel() }
}

type abortKey struct{}

// Abortable returns a context whose calls in flight can be aborted, for a reason.
func Abortable(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	aborted, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	return context.WithValue(ctx, abortKey{}, aborted), abort
}

// Aborted returns a channel that is closed when the context is aborted; nil if it cannot be.
func Aborted(ctx context.Context) <-chan struct{} {
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		return aborted.Done()
	}
	return nil
}

// AbortCause returns why the context was aborted; nil if it was not.
func AbortCause(ctx context.Context) error {
	if aborted, ok := ctx.Value(abortKey{}).(context.Context); ok {
		return context.Cause(aborted) //nolint:contextcheck // it is the given context's own
	}
	return nil
}

// Stopping reports whether the process has been told to end, so that no more calls may begin.
func Stopping(ctx context.Context) bool { return ctx.Err() != nil }

// Reason returns the name of an error in metrics: one of ten reasons of the API, "Unreachable" if there was no answer,
// or "Other".
func Reason(err error) string {
	if !Answered(err) {
		return "Unreachable"
	}
	switch known := apierrors.ReasonForError(err); known {
	case metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized, metav1.StatusReasonConflict,
		metav1.StatusReasonInvalid, metav1.StatusReasonInternalError, metav1.StatusReasonTimeout,
		metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonServiceUnavailable, metav1.StatusReasonNotFound:
		return string(known)
	}
	return "Other"
}

// Answered reports whether an error is an answer of the API server, rather than the lack of one.
func Answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// IsNotFound reports whether the API server says that the object does not exist. A 404 without a Status comes from
// something in between that does not know.
func IsNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// IsAnotherUID reports whether a patch was refused because the object's UID differs from the patch's. The API server
// calls that a conflict for a delete, but a change of an immutable field for a patch.
func IsAnotherUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

// Refused reports whether the API server, or a webhook, does not accept a change and would not accept it again, because
// a policy refuses it or a permission is missing. Answers that ask for another try soon are not refusals, nor are a 404
// and the lack of an answer.
func Refused(err error) bool {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return true // with whatever code a webhook gives it
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// NodeEdit is what [PatchTaints] changes on a node.
type NodeEdit struct {
	// Taints are all taints that the node should have, because the API server replaces the whole list.
	Taints []corev1.Taint
	// Labels are set in the same call; a nil value removes a label. Other labels stay.
	Labels map[string]*string
}

// PatchTaints writes the taints of a node and labels that belong to them, with the precondition that the node has not
// changed since it was read. If it has, the list would undo the other change, and the API server answers with a
// conflict. It returns the patched node. The call is bounded and goes on when the process ends; see [InFlight].
func PatchTaints(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node, edit NodeEdit, options metav1.PatchOptions,
) (*corev1.Node, error) {
	return patchNode(ctx, client, read, types.MergePatchType, change{
		Metadata: metadata{UID: read.UID, ResourceVersion: &read.ResourceVersion, Labels: edit.Labels},
		Spec:     map[string]any{"taints": edit.Taints},
	}, options)
}

// PatchNodeConditions sets conditions of a node, with the same precondition as [PatchTaints], and returns the patched
// node.
func PatchNodeConditions(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node, conditions []corev1.NodeCondition,
) (*corev1.Node, error) {
	return patchNode(ctx, client, read, types.StrategicMergePatchType, change{
		Metadata: metadata{UID: read.UID, ResourceVersion: &read.ResourceVersion},
		Status:   map[string]any{"conditions": conditions},
	}, metav1.PatchOptions{}, "status")
}

// PatchPodCondition sets a condition of exactly this pod. It must be given the UID: another pod of the same name is not
// patched, see [IsAnotherUID]. If it is given a resourceVersion, too, the pod must not have changed since. It returns
// the patched pod.
func PatchPodCondition(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta, condition map[string]any,
) (*corev1.Pod, error) {
	return patchPod(ctx, client, pod, types.StrategicMergePatchType, change{
		Status: map[string]any{"conditions": []any{condition}},
	}, "status")
}

// PatchPodTolerations replaces the tolerations of a pod, with the same preconditions as [PatchPodCondition]. The API
// server allows additions. It returns the patched pod.
func PatchPodTolerations(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta, all []corev1.Toleration,
) (*corev1.Pod, error) {
	return patchPod(ctx, client, pod, types.MergePatchType, change{Spec: map[string]any{"tolerations": all}})
}

func patchPod(
	ctx context.Context, client kubernetes.Interface, pod metav1.ObjectMeta,
	kind types.PatchType, change change, subresources ...string,
) (*corev1.Pod, error) {
	change.Metadata.UID = pod.UID
	if pod.ResourceVersion != "" {
		change.Metadata.ResourceVersion = &pod.ResourceVersion
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, patch, metav1.PatchOptions{}, subresources...)
}

// change is the body of a patch.
type change struct {
	Metadata metadata       `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
	Status   map[string]any `json:"status,omitempty"`
}

// metadata identifies the object, and its version, that a patch is for. The API server refuses the patch for any other.
type metadata struct {
	UID             types.UID          `json:"uid"`
	ResourceVersion *string            `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
}

func patchNode(
	ctx context.Context, client kubernetes.Interface, read *corev1.Node,
	kind types.PatchType, change change, options metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a patch of node %s: %w", read.Name, err)
	}
	ctx, cancel := InFlight(ctx)
	defer cancel()
	return client.CoreV1().Nodes().Patch(ctx, read.Name, kind, patch, options, subresources...)
}
