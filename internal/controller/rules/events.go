// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// events writes events on rules, in the background.
type events struct{ *apicall.Recorder }

func newEvents(client kubernetes.Interface) *events {
	return &events{apicall.NewRecorder("taintkeeper", client)}
}

// refused records that a rule is not accepted.
func (e *events) refused(rule *v1alpha1.NodeTaintRule, why ruling) {
	e.Eventf(reference(rule), corev1.EventTypeWarning, why.reason, "%s", why.message)
}

// accepted records that a rule that was not accepted is accepted now.
func (e *events) accepted(rule *v1alpha1.NodeTaintRule, why ruling) {
	e.Eventf(reference(rule), corev1.EventTypeNormal, why.reason, "%s", why.message)
}

// holding records that a rule has begun or ceased to hold nodes back.
func (e *events) holding(p planned) {
	suffix := ""
	if p.rule.onlyReports {
		suffix = v1alpha1.DryRunSuffix
	}
	rule := reference(p.object)
	if p.outcome.held == 0 {
		e.Eventf(rule, corev1.EventTypeNormal, "TaintNoLongerHeld",
			"No node waits for taint %s any longer.%s", p.rule.text, suffix)
		return
	}
	e.Eventf(rule, corev1.EventTypeWarning, "TaintHeld", "%s%s", heldMessage(p), suffix)
}

func reference(rule *v1alpha1.NodeTaintRule) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeTaintRule", Name: rule.Name, UID: rule.UID,
	}
}
