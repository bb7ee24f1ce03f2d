// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
