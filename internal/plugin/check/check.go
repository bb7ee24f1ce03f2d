// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// Rule is a kind of problem.
type Rule struct {
	// ID names the rule. It never changes.
	ID string
	// Severity is the severity of its worst findings.
	Severity cliv1alpha1.Severity
	// Title says in a few words what it finds.
	Title string
	// Advice says in one sentence what to do. A finding may have its own advice.
	Advice string
	// Find returns the findings.
	Find func(*Facts) []Finding
}

// Object is an object that a rule found.
type Object struct {
	cliv1alpha1.CheckedObject

	source string // the file that contains it; empty if that is not known, or if other objects have its name
}

func objectOf(kind, namespace, name string) Object {
	owner := cliv1alpha1.Owner{Kind: kind, Name: name}
	return Object{CheckedObject: cliv1alpha1.CheckedObject{Owner: owner, Namespace: namespace}}
}

// Finding is what a rule found wrong with one object. Empty Severity and Advice default to those of the rule.
type Finding struct {
	Object   Object
	Severity cliv1alpha1.Severity
	Message  string
	Advice   string
	// Names are the names of the pods or nodes that it is about.
	Names []string
}

// Rules returns all rules, in the order of the report.
func Rules() []Rule {
	return []Rule{
		evictionControllers, nodeHealthControllers, shortGrace, noTimeAdded,
		startupTaint, staleTaint, flappingTaint, namesNode, evictedAgain, toleratesCordon,
		unreadableTemplate, unknownField, malformedToleration, comparisonOperator, noSeconds,
		shadowedToleration, duplicateToleration, unknownKey,
		daemonSetLeaves, daemonSetKeptOff, controlPlaneLeaves, unreachableIndefinitely, singleReplica,
		falseComfort, severalBudgets,
		policySelectsNothing, policyHoldsWithoutEnd, policyUnknownKey, policyBlockedBudget, policySeveralBudgets, policyDown,
	}
}

// Make applies rules to a cluster at an instant. If a namespace is given, it ignores objects in others.
func Make(cluster *state.Cluster, rules []Rule, namespace string, now time.Time) *cliv1alpha1.CheckReport {
	facts := newFacts(cluster)
	report := &cliv1alpha1.CheckReport{
		TypeMeta:    cliv1alpha1.Type("CheckReport"),
		At:          metav1.NewMicroTime(now),
		Notes:       cluster.Notes(),
		Controllers: []cliv1alpha1.CheckedTask{facts.eviction.CheckedTask, facts.nodeHealth.CheckedTask},
		Rules:       []cliv1alpha1.CheckRule{},
		Findings:    []cliv1alpha1.CheckFinding{},
		Summary: cliv1alpha1.CheckSummary{
			Nodes: len(cluster.Nodes), Pods: len(cluster.Pods), Workloads: len(facts.Workloads), Budgets: len(cluster.Budgets),
		},
	}
	report.Notes = append(report.Notes, facts.backlogs()...)
	if namespace != "" && !slices.ContainsFunc(facts.Workloads, func(workload *Workload) bool { return workload.Namespace == namespace }) {
		report.Notes = append(report.Notes, fmt.Sprintf("Namespace %s has no workloads to check.", namespace))
	}
	for _, rule := range rules {
		found := slices.DeleteFunc(rule.Find(facts), func(finding Finding) bool {
			return namespace != "" && finding.Object.Namespace != "" && finding.Object.Namespace != namespace
		})
		report.Rules = append(report.Rules, cliv1alpha1.CheckRule{
			ID: rule.ID, Severity: rule.Severity, Title: rule.Title, Advice: rule.Advice, Findings: len(found),
		})
		for _, finding := range found {
			told := rule.tell(finding)
			told.Source = facts.source(finding.Object, finding.Names)
			report.Findings = append(report.Findings, told)
		}
	}
	slices.SortStableFunc(report.Findings, func(a, b cliv1alpha1.CheckFinding) int {
		return cmp.Compare(Rank(b.Severity), Rank(a.Severity))
	})
	for i := range report.Findings {
		switch report.Findings[i].Severity {
		case cliv1alpha1.SeverityError:
			report.Summary.Errors++
		case cliv1alpha1.SeverityWarning:
			report.Summary.Warnings++
		case cliv1alpha1.SeverityInfo:
			report.Summary.Infos++
		}
	}
	return report
}

// tell adds a finding to the report, with at most a few of its names.
func (r *Rule) tell(finding Finding) cliv1alpha1.CheckFinding {
	const examples = 3
	slices.Sort(finding.Names)
	return cliv1alpha1.CheckFinding{
		Rule: r.ID, Severity: cmp.Or(finding.Severity, r.Severity), Object: finding.Object.CheckedObject,
		Message: finding.Message, Advice: cmp.Or(finding.Advice, r.Advice),
		Count: len(finding.Names), Examples: finding.Names[:min(examples, len(finding.Names))],
	}
}

// Rank orders severities: worse ones are higher. It is 0 for an unknown severity.
func Rank(severity cliv1alpha1.Severity) int {
	return 1 + slices.Index([]cliv1alpha1.Severity{
		cliv1alpha1.SeverityInfo, cliv1alpha1.SeverityWarning, cliv1alpha1.SeverityError,
	}, severity)
}
