// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds what is wrong with how a cluster uses taints and tolerations: two controllers that evict, or none
// that does, tolerations that do not mean what they seem to, and workloads that a taint evicts unexpectedly, or never
// evicts.
//
// It is pure. Each rule is a row of a table, and reports findings by owner, not by pod.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Rule is a kind of problem.
type Rule struct {
	// ID names the rule. It never changes.
	ID string
	// Severity is the severity of its worst findings.
	Severity cliv1alpha1.Severity
	// Title says in a few words what it finds.
	Title string
	find  search
	// Advice says in one sentence what to do. A finding may have its own advice.
	Advice string
}

// search finds problems, and passes each to found. It may find a problem once for each pod or node: findings with the
// same object and message become one.
type search func(f *facts, found func(finding))

// finding is what a rule found wrong with one object. Empty severity and advice default to those of the rule.
type finding struct {
	object   object
	severity cliv1alpha1.Severity
	// message may contain {pods} and {nodes} for how many there are, and {some nodes} and {budgets} for their names.
	message, advice      string
	pods, nodes, budgets []string
}

// object is an object that a rule found.
type object struct {
	cliv1alpha1.CheckedObject

	source string // the file that contains it; empty if that is not known, or if other objects have its name
}

func objectOf(kind, namespace, name string) object {
	owner := cliv1alpha1.Owner{Kind: kind, Name: name}
	return object{CheckedObject: cliv1alpha1.CheckedObject{Owner: owner, Namespace: namespace}}
}

func byName(a, b object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.source, b.source))
}

const (
	failure = cliv1alpha1.SeverityError
	warning = cliv1alpha1.SeverityWarning
	info    = cliv1alpha1.SeverityInfo
)

// severities are worst first.
var severities = []cliv1alpha1.Severity{failure, warning, info}

// Rules returns all rules, in the order of the report.
func Rules() []Rule {
	return []Rule{
		{"eviction-controllers", failure, "No controller evicts, or more than one does", controllers(0),
			"Run Taintkeeper with --coexist, or switch the built-in controller off with --controllers=*,-taint-eviction-controller."},
		{"node-health-controllers", failure, "No controller taints unhealthy nodes, or more than one does", controllers(1),
			"Remove node-health from Taintkeeper's --controllers, or switch the built-in node-lifecycle-controller off."},
		{"failed-nodes", warning, "Nodes are not ready or unreachable", failedNodes,
			"Bring the nodes back, or pause evictions with kubectl taintkeeper pause: if you remove the taint, node health sets it again within seconds."},
		{"short-grace-period", warning, "One late renewal makes a live node NotReady", shortGrace,
			fmt.Sprintf("Raise %s to at least %s, or let kubelets renew their Leases more often.", readiness.MonitorGraceFlag, readiness.LeastGrace)},
		{"no-time-added", warning, "A NoExecute taint has no timeAdded", noTimeAdded,
			"Write timeAdded with the taint, or let Taintkeeper evict: it adds timeAdded if it is allowed to."},
		{"startup-taint", warning, "A ready node still has a startup taint", startupTaint,
			"Find out why the component does not remove its taint, or remove it with kubectl taint if the component is gone."},
		{"stale-taint", info, "A temporary taint has been on a node for a long time", staleTaint,
			"Once the work on the node is done, remove it (kubectl uncordon for a cordon), or delete the node."},
		{"flapping-taint", warning, "A NoExecute taint of a node comes and goes", flappingTaint,
			"Find out why its writer keeps setting and removing the taint, before pods are evicted because of it."},
		{"names-node", failure, "Pods that name their node are created on a node whose taints evict them", namesNode,
			"Replace spec.nodeName in the template with a nodeSelector for kubernetes.io/hostname, so that pods wait until the taint is gone, or let the pods tolerate the taint."},
		{"evicted-again", warning, "Pods are scheduled to a node that evicts them after a while, again and again", evictedAgain,
			"Add the same taint with the effect NoSchedule to the nodes, so that the scheduler keeps the pods off."},
		{"tolerates-cordon", warning, "A workload tolerates a cordon, so its pods come back to a node that is being drained", toleratesCordon,
			"Tolerate only the taints that the pods need, and not node.kubernetes.io/unschedulable."},
		{"unreadable-template", failure, "A workload's pod template cannot be read", flaws(false, "It cannot be checked:"),
			"Correct the field."},
		{"unknown-field", failure, "A manifest has a field that does not exist, or has one twice", flaws(true, "It has"),
			"Correct the field: the API server refuses the manifest, or ignores the field."},
		{"malformed-toleration", failure, "A toleration is malformed", eachToleration(malformed),
			"Rewrite the toleration: the API server refuses it."},
		{"comparison-operator", warning, "A toleration compares with Gt or Lt", eachToleration(comparing),
			"Use Equal or Exists, unless the feature gate TaintTolerationComparisonOperators is on in every component."},
		{"no-seconds", warning, "A toleration expires immediately", eachToleration(noSeconds),
			"Remove the toleration, or set tolerationSeconds to the time that the pod needs."},
		{"shadowed-toleration", warning, "A toleration never counts, because an earlier one matches", eachToleration(shadowed),
			"Put the narrower toleration first, or remove it."},
		{"duplicate-toleration", info, "A pod has the same toleration twice", eachToleration(duplicate),
			"Remove one of them, so that nobody edits the one that never counts."},
		{"unknown-key", warning, "A toleration has an unknown key", eachToleration(unknownKey),
			"Remove the toleration, unless you plan a taint with this key."},
		{"daemonset-leaves", warning, "A DaemonSet's pods leave a node that gets a common taint", leaving((*workload).isDaemonSet, notReady, unreachable, outOfService, unforeseen),
			"If other pods on the node need it (network, volumes, logs), let it tolerate everything: operator Exists without a key."},
		{"daemonset-kept-off", info, "A taint keeps a DaemonSet off nodes that it selects", daemonSetKeptOff,
			"If the nodes need its pods, let it tolerate the taint."},
		{"control-plane-leaves", warning, "A control-plane component leaves a node that gets a common taint", leaving((*workload).isControlPlane, outOfService, unforeseen),
			"Add one toleration that matches every NoExecute taint, after those for not-ready and unreachable with tolerationSeconds."},
		{"unreachable-indefinitely", warning, "A workload tolerates an unreachable or not-ready node indefinitely", unreachableIndefinitely,
			"Tolerate node.kubernetes.io/unreachable and not-ready with tolerationSeconds, before any toleration that matches everything."},
		{"single-replica", info, "A single replica waits for the default time on a failed node", singleReplica,
			"Run a second replica, or tolerate not-ready and unreachable for as long as the workload may be unavailable."},
		{"budget-false-comfort", warning, "A PodDisruptionBudget protects less than it seems to", falseComfort,
			"Spread the pods over more nodes (topologySpreadConstraints), and run kubectl drain before you taint a node."},
		{"several-budgets", warning, "Several PodDisruptionBudgets select one pod, so the Eviction API always refuses to evict it", severalBudgets,
			oneBudget},
		{"policy-selects-nothing", warning, "An EvictionPolicy selects no pods", policySelectsNothing,
			"Correct the selectors, or delete the policy."},
		{"policy-holds-without-end", warning, "An EvictionPolicy holds pods and never lets them go", policyHoldsWithoutEnd,
			"Give the policy a deadline, or give a reason in paused."},
		{"policy-unknown-key", warning, "An EvictionPolicy names an unknown taint key", policyUnknownKey,
			"Correct the key, unless you plan a taint with this key."},
		{"policy-blocked-budget", warning, "An EvictionPolicy waits for a PodDisruptionBudget that can never allow an eviction", policyBlockedBudget,
			"Give the policy a deadline, or let the PodDisruptionBudget allow a disruption."},
		{"policy-several-budgets", warning, "An EvictionPolicy uses the Eviction API for pods with several PodDisruptionBudgets, which the API refuses", policySeveralBudgets,
			oneBudget},
		{"policy-if-down", warning, "An EvictionPolicy's ifDown: Hold has no effect", policyDown,
			"Install ValidatingAdmissionPolicy taintkeeper-held with the chart (mode=enforce, coexist.enabled=true), or set ifDown to Evict."},
	}
}

const oneBudget = "Change the selectors of the PodDisruptionBudgets so that each pod has one."

// Make applies rules to a cluster at an instant. If a namespace is given, it ignores objects in others.
func Make(cluster *state.Cluster, rules []Rule, namespace string, now time.Time) *cliv1alpha1.CheckReport {
	f := newFacts(cluster)
	report := &cliv1alpha1.CheckReport{
		TypeMeta:    cliv1alpha1.Type("CheckReport"),
		At:          metav1.NewMicroTime(now),
		Notes:       append(cluster.Notes(), f.backlogs()...),
		Controllers: []cliv1alpha1.CheckedTask{f.tasks[0].CheckedTask, f.tasks[1].CheckedTask},
		Rules:       []cliv1alpha1.CheckRule{},
		Findings:    []cliv1alpha1.CheckFinding{},
		Summary: cliv1alpha1.CheckSummary{
			Nodes: len(cluster.Nodes), Pods: len(cluster.Pods), Workloads: len(f.workloads), Budgets: len(cluster.Budgets),
		},
	}
	if namespace != "" && !slices.ContainsFunc(f.workloads, func(w *workload) bool { return w.Namespace == namespace }) {
		report.Notes = append(report.Notes, fmt.Sprintf("Namespace %s has no workloads to check.", namespace))
	}
	for _, rule := range rules {
		found := f.apply(&rule, namespace)
		report.Rules = append(report.Rules, cliv1alpha1.CheckRule{
			ID: rule.ID, Severity: rule.Severity, Title: rule.Title, Advice: rule.Advice, Findings: len(found),
		})
		report.Findings = append(report.Findings, found...)
	}
	slices.SortStableFunc(report.Findings, func(a, b cliv1alpha1.CheckFinding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	counts := map[cliv1alpha1.Severity]*int{
		failure: &report.Summary.Errors, warning: &report.Summary.Warnings, info: &report.Summary.Infos,
	}
	for i := range report.Findings {
		*counts[report.Findings[i].Severity]++
	}
	return report
}

// apply returns what a rule finds, sorted by object.
func (f *facts) apply(rule *Rule, namespace string) (told []cliv1alpha1.CheckFinding) {
	type subject struct {
		object  object
		message string
	}
	var all []*finding
	by := map[subject]*finding{}
	rule.find(f, func(next finding) {
		if namespace != "" && next.object.Namespace != "" && next.object.Namespace != namespace {
			return
		}
		about := subject{next.object, next.message}
		if by[about] == nil {
			by[about] = &finding{object: next.object, severity: next.severity, message: next.message, advice: next.advice}
			all = append(all, by[about])
		}
		is := by[about]
		is.pods, is.nodes = append(is.pods, next.pods...), append(is.nodes, next.nodes...)
		is.budgets = append(is.budgets, next.budgets...)
	})
	slices.SortStableFunc(all, func(a, b *finding) int { return byName(a.object, b.object) })
	for _, is := range all {
		told = append(told, f.tell(rule, is))
	}
	return told
}

// tell returns a finding for the report, with at most a few names.
func (f *facts) tell(rule *Rule, is *finding) cliv1alpha1.CheckFinding {
	const examples = 3
	for _, names := range []*[]string{&is.pods, &is.nodes, &is.budgets} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	part, names := objectOf("Pod", is.object.Namespace, ""), is.pods
	if len(names) == 0 {
		part, names = objectOf("Node", "", ""), is.nodes
	}
	source, known := cmp.Or(is.object.source, f.Sources[is.object.CheckedObject]), len(names) > 0
	if source == "" && known {
		part.Name = names[0]
		source = f.Sources[part.CheckedObject]
	}
	return cliv1alpha1.CheckFinding{
		Rule: rule.ID, Severity: cmp.Or(is.severity, rule.Severity), Object: is.object.CheckedObject,
		Message: strings.NewReplacer(
			"{pods}", sentence.Counted(len(is.pods), "pod"), "{nodes}", sentence.Counted(len(is.nodes), "node"),
			"{some nodes}", sentence.Some(is.nodes), "{budgets}", budgetNames(is.budgets),
		).Replace(is.message),
		Advice: cmp.Or(is.advice, rule.Advice),
		Count:  len(names), Examples: names[:min(examples, len(names))], Source: source,
	}
}
