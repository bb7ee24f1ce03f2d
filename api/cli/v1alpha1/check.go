// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckReport says what is wrong with how a cluster uses taints and tolerations, and which controllers evict and taint
// there.
type CheckReport struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant for which the cluster was checked.
	At metav1.MicroTime `json:"at"`
	// Summary counts the findings.
	Summary CheckSummary `json:"summary"`
	// Notes are sentences about what the check could not find out, and how that limits the report.
	Notes []string `json:"notes,omitempty"`
	// Controllers say which controllers evict and taint.
	Controllers []CheckedTask `json:"controllers"`
	// Rules are the rules that were applied, in the order in which check --help lists them.
	Rules []CheckRule `json:"rules"`
	// Findings are sorted by severity, worst first, then in the order of the rules, then by name.
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
	SeverityError   Severity = "Error"   // pods that should stay leave, or pods that should leave stay
	SeverityWarning Severity = "Warning" // not what people expect, or a problem later
	SeverityInfo    Severity = "Info"    // good to know
)

// Who says which controller does a task.
type Who string

// Values of Who.
const (
	WhoTaintkeeper Who = "Taintkeeper" // Taintkeeper alone
	WhoBuiltIn     Who = "BuiltIn"     // kube-controller-manager
	WhoBoth        Who = "Both"        // both of them
	WhoNobody      Who = "Nobody"      // neither of them
	WhoUnknown     Who = "Unknown"     // the objects that were read do not show it
)

// CheckedTask says which controller does a task, and how we know.
type CheckedTask struct {
	// Task is "eviction" or "node-health", which are names of Taintkeeper's controllers.
	Task string `json:"task"`
	Who  Who    `json:"who"`
	// Message describes the finding in a sentence.
	Message string `json:"message"`
	// Signs are sentences that give the evidence.
	Signs []string `json:"signs,omitempty"`
}

// CheckRule is a rule that was applied.
type CheckRule struct {
	ID string `json:"id"`
	// Severity is the worst severity that its findings can have. Title says briefly what the rule finds.
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Advice is one sentence that says what to do.
	Advice string `json:"advice"`
	// Findings is the number of findings.
	Findings int `json:"findings"`
}

// CheckFinding is what a rule found wrong with one object.
type CheckFinding struct {
	// Rule is the ID of the rule.
	Rule     string        `json:"rule"`
	Severity Severity      `json:"severity"`
	Object   CheckedObject `json:"object"`
	// Message is a sentence about the object, and Advice one that says what to do.
	Message string `json:"message"`
	Advice  string `json:"advice"`
	// Count is the number of pods, or else of nodes, that it is about. Examples names some of them.
	Count    int      `json:"count,omitempty"`
	Examples []string `json:"examples,omitempty"`
	// Source is the file that contains the object, or one of its pods or nodes. It is absent if the objects are from a
	// cluster.
	Source string `json:"source,omitempty"`
}

// CheckedObject is the object of a finding: a workload, a Node, a PodDisruptionBudget, an EvictionPolicy, a Taint (its
// name is the whole taint, key=value:Effect) or a Controller (its name is its task).
type CheckedObject struct {
	Owner     `json:",inline"`
	Namespace string `json:"namespace,omitempty"`
}
