// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckReport says what is wrong with how a cluster uses taints and tolerations, and who evicts and taints there.
//
// +kubebuilder:object:root=true
type CheckReport struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant of the check.
	At metav1.MicroTime `json:"at"`
	// Summary counts.
	Summary CheckSummary `json:"summary"`
	// Notes are sentences about what could not be known, and what follows for the check.
	Notes []string `json:"notes,omitempty"`
	// Controllers say who does what Kubernetes' controllers of taints do.
	Controllers []CheckedTask `json:"controllers"`
	// Rules are those that were applied, in their order.
	Rules []CheckRule `json:"rules"`
	// Findings are the worst first, then in the order of the rules, then by name.
	Findings []CheckFinding `json:"findings"`
}

// CheckSummary counts the findings, and what was checked.
type CheckSummary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`

	Nodes     int `json:"nodes"`
	Pods      int `json:"pods"`
	Workloads int `json:"workloads"`
	Budgets   int `json:"budgets"`
}

// Severity says how bad a finding is.
type Severity string

// Severities.
const (
	SeverityError   Severity = "Error"   // pods leave that should not, or stay that should leave
	SeverityWarning Severity = "Warning" // not what somebody expects, or only a matter of time
	SeverityInfo    Severity = "Info"    // good to know
)

// Who says who does a task.
type Who string

// Values of Who.
const (
	WhoTaintkeeper Who = "Taintkeeper"
	WhoBuiltIn     Who = "BuiltIn" // kube-controller-manager
	WhoBoth        Who = "Both"
	WhoNobody      Who = "Nobody"
	WhoUnknown     Who = "Unknown" // what was read does not tell
)

// CheckedTask says who does a task, and by what that is known.
type CheckedTask struct {
	// Task is "eviction" or "node-health", by the names of Taintkeeper's controllers.
	Task string `json:"task"`
	Who  Who    `json:"who"`
	// Message says it in a sentence.
	Message string `json:"message"`
	// Signs are sentences about what was seen.
	Signs []string `json:"signs,omitempty"`
}

// CheckRule is a rule that was applied.
type CheckRule struct {
	ID string `json:"id"`
	// Severity is the worst of its findings, and Title what they say, in a few words.
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Advice is one sentence that says what to do.
	Advice string `json:"advice"`
	// Findings is how many there are.
	Findings int `json:"findings"`
}

// CheckFinding is what a rule found of one object.
type CheckFinding struct {
	// Rule is the ID of the rule.
	Rule     string        `json:"rule"`
	Severity Severity      `json:"severity"`
	Object   CheckedObject `json:"object"`
	// Message is a sentence about the object, and Advice one that says what to do.
	Message string `json:"message"`
	Advice  string `json:"advice"`
	// Count is the number of pods, or of nodes for a taint, and Examples names some of them.
	Count    int      `json:"count,omitempty"`
	Examples []string `json:"examples,omitempty"`
	// Source is the file that the object is from, or one of its pods or nodes; absent if a cluster was asked.
	Source string `json:"source,omitempty"`
}

// CheckedObject is what a finding is about: a workload, a PodDisruptionBudget, a Taint (named by its specification) or
// a Controller (named by its task).
type CheckedObject struct {
	Owner     `json:",inline"`
	Namespace string `json:"namespace,omitempty"`
}
