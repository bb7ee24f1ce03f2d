// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARefusalIsAnAnswerThatWouldBeTheSameAgain(t *testing.T) {
	nodes := corev1.Resource("nodes")
	answers := func(code int, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: reason}}
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a right is missing":        {apierrors.NewForbidden(nodes, "n", errors.New("no right")), true},
		"by validation":             {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "n", nil), true},
		"by a webhook":              {answers(http.StatusBadRequest, metav1.StatusReasonBadRequest), true},
		"by one with its own code":  {answers(http.StatusTeapot, ""), true},
		"by one that says 500":      {answers(http.StatusInternalServerError, metav1.StatusReasonForbidden), true},
		"wrapped":                   {fmt.Errorf("write: %w", apierrors.NewForbidden(nodes, "n", nil)), true},
		"a conflict is none":        {apierrors.NewConflict(nodes, "n", nil), false},
		"nor is a 404":              {apierrors.NewNotFound(nodes, "n"), false},
		"nor what asks for a pause": {apierrors.NewTooManyRequests("later", 1), false},
		"nor a token that expired":  {apierrors.NewUnauthorized("expired"), false},
		"nor a failure":             {apierrors.NewInternalError(errors.New("etcd")), false},
		"nor the lack of an answer": {context.DeadlineExceeded, false},
		"nor success":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Refused(test.err); got != test.want {
				t.Errorf("%v is refused: %t, want %t", test.err, got, test.want)
			}
		})
	}
}
