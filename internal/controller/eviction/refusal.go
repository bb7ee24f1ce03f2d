// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// refused reports whether a call about a pod was refused, and would be again. A 404 counts as a refusal: the pod
// exists, so the 404 comes from a webhook.
func refused(err error) bool { return apicall.Refused(err) || apierrors.IsNotFound(err) }

// The words with which the API server names what refused a call (k8s.io/apiserver/pkg/admission/plugin).
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
