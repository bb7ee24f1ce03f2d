// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"net/http"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused reports whether a call was refused, and would be again: by a policy, a webhook, or for want of a right.
// Answers that ask for another try soon are none, nor is the lack of an answer.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// The words by which the API server names what refused a call (k8s.io/apiserver/pkg/admission/plugin).
var (
	webhookWords = regexp.MustCompile(`admission webhook "([^"]+)" denied`)
	policyWords  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
)

// refuser names what refused a call in a metric and in an event: a webhook, a policy, or the API's reason.
func refuser(err error) string {
	if found := webhookWords.FindStringSubmatch(err.Error()); found != nil {
		return "webhook " + found[1]
	}
	if found := policyWords.FindStringSubmatch(err.Error()); found != nil {
		return "policy " + found[1]
	}
	return reason(err)
}
