// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status says how Taintkeeper is doing in a cluster, from what the API server stores: whether it runs, which
// pods it must evict or holds, and what the built-in does meanwhile. It is pure.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Make returns how Taintkeeper is doing at an instant.
func Make(cluster *state.Cluster, at time.Time) *cliv1alpha1.StatusReport {
	known := who.Ask(cluster, at)
	process := &known.Process
	report := &cliv1alpha1.StatusReport{
		TypeMeta: cliv1alpha1.Type("StatusReport"),
		At:       metav1.NewMicroTime(at), Notes: cluster.Notes(), Mode: process.Mode,
		Controllers: process.Controllers, Version: process.Version,
		Leader: leaderOf(process), Replicas: replicasOf(process.Replicas), Zones: state.ZonesOf(cluster.Nodes),
		LastError: cluster.Signs.Failure, Shadow: cluster.Signs.Shadow, Unknown: unknown(cluster, process),
	}
	if report.Shadow != nil && report.Shadow.IsOld(at) {
		report.Notes = append(report.Notes, fmt.Sprintf("The report of shadow mode is from %s ago, and nothing has written it since. Print it with --report, or delete ConfigMap %s.",
			sentence.Between(report.Shadow.Time.Time, at), v1alpha1.ShadowConfigMap))
	}
	for i, account := range cluster.Signs.EvictionClocks { // the one in the namespace of the Lease, or else any
		if i == 0 || process.Lease != nil && account.Namespace == process.Lease.Namespace {
			report.EvictionClock, report.BuiltInBacklog = who.ClockOf(account, at), who.BacklogOf(account, at)
		}
	}
	held := map[cliv1alpha1.Objector]int{}
	pending := plan.Pending{}
	if mayEvict(known) { // otherwise policies hold nothing
		pending.Policies = cluster.PoliciesOf()
		for _, object := range cluster.Policies { // a pause is named even if it holds no pod yet
			if object.Spec.Paused != nil && !object.Spec.DryRun {
				held[cliv1alpha1.Objector{Policy: object.Name, Reason: string(policy.Paused)}] = 0
			}
		}
	}
	by := known.Evictor(len(cluster.Policies))
	report.Pods = plan.CountPending(pending.In(state.LiveOf(by, cluster.Nodes, cluster.Pods, at), at), held)
	for objector, pods := range held {
		objector.Pods = pods
		report.HeldBy = append(report.HeldBy, objector)
	}
	slices.SortFunc(report.HeldBy, func(a, b cliv1alpha1.Objector) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Reason, b.Reason))
	})
	report.Health, report.Problems = judge(report, cluster, known)
	return report
}

// mayEvict reports whether Taintkeeper runs, and evicts as far as is known.
func mayEvict(known *who.Answer) bool {
	return known.Process.State == who.Running && known.Eviction.Taintkeeper.State != who.NotRunning
}

func leaderOf(process *who.Process) *cliv1alpha1.Leader {
	if !process.Held {
		return nil
	}
	lease := process.Lease
	return &cliv1alpha1.Leader{
		Identity: ptr.Deref(lease.Spec.HolderIdentity, ""), Lease: lease.Namespace + "/" + lease.Name,
		Since: ptr.Deref(lease.Spec.AcquireTime, metav1.MicroTime{}), Renewed: *lease.Spec.RenewTime,
	}
}

func replicasOf(pods []*corev1.Pod) (replicas []cliv1alpha1.Replica) {
	for _, pod := range pods {
		replicas = append(replicas, cliv1alpha1.Replica{
			Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Ready: state.IsReady(pod),
		})
	}
	slices.SortFunc(replicas, func(a, b cliv1alpha1.Replica) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return replicas
}

// judge says whether Taintkeeper does its job, and what is wrong with it or with the nodes.
func judge(
	report *cliv1alpha1.StatusReport, cluster *state.Cluster, known *who.Answer,
) (health cliv1alpha1.Health, problems []string) {
	switch known.Process.State {
	case who.Running:
		problems = problemsOf(report, cluster, known)
	case who.Unknown:
		health, problems = cliv1alpha1.HealthUnknown, []string{known.NotEvicting(len(cluster.Policies))}
	default:
		health, problems = cliv1alpha1.NotRunning, []string{known.NotEvicting(len(cluster.Policies))}
	}
	if state.IsDisrupted(report.Zones) {
		problems = append(problems, state.FailedNodes(report.Zones)+".")
	}
	if health == "" && len(problems) > 0 {
		health = cliv1alpha1.Degraded
	}
	return cmp.Or(health, cliv1alpha1.Healthy), problems
}

// problemsOf says what is wrong if Taintkeeper runs.
func problemsOf(report *cliv1alpha1.StatusReport, cluster *state.Cluster, known *who.Answer) (problems []string) {
	isReady := func(replica cliv1alpha1.Replica) bool { return replica.Ready }
	if len(report.Replicas) > 0 && !slices.ContainsFunc(report.Replicas, isReady) {
		problems = append(problems, "No replica is ready.")
	}
	if !mayEvict(known) {
		return problems
	}
	if clock := report.EvictionClock; clock != nil && fails(clock, known) {
		since := "is not set"
		if clock.Renewed != nil {
			since = "was last renewed " + sentence.Between(clock.Renewed.Time, known.At) + " ago"
		}
		problems = append(problems, "The eviction clock "+since+", so the built-in controller may evict as well.")
	}
	if pods := report.Pods; pods.Overdue > 0 {
		problems = append(problems, fmt.Sprintf("%s overdue, %s %s.", sentence.Are(pods.Overdue, "pod"),
			sentence.Agree(pods.Overdue, "for", "the oldest for"), sentence.Between(pods.Oldest.Time, known.At)))
	}
	for _, object := range cluster.Policies {
		accepted := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionAccepted)
		if accepted != nil && accepted.Status == metav1.ConditionFalse {
			problems = append(problems, fmt.Sprintf("EvictionPolicy %s is not accepted: %s", object.Name, accepted.Message))
		}
	}
	return problems
}

// fails reports whether the leader should renew the eviction clock but does not. If the leader does not say whether it
// should, a clock that is not set does not count, because an earlier release may have left it. Nor does it while the
// leader begins to lead.
func fails(clock *cliv1alpha1.EvictionClockStatus, known *who.Answer) bool {
	leader := known.Process.Leader
	switch {
	case leader == nil:
		return clock.State == cliv1alpha1.ClockStale
	case clock.State == cliv1alpha1.ClockNotSet:
		since := ptr.Deref(known.Process.Lease.Spec.AcquireTime, metav1.MicroTime{})
		return leader.Coexists && known.At.Sub(since.Time) > v1alpha1.EvictionClockValidFor
	}
	return clock.State == cliv1alpha1.ClockStale && leader.Coexists
}

// unknown returns the fields of a report that are empty because something was not read.
func unknown(cluster *state.Cluster, process *who.Process) (fields []cliv1alpha1.UnknownField) {
	runs, signs := process.State == who.Running, &cluster.Signs
	files := cluster.Location == state.Location{}
	noEvictionClock := len(signs.EvictionClocks) == 0 && !signs.EvictionClocksKnown
	mode := unread(files, "Lease of Taintkeeper", "leases")
	if process.Why != "" {
		mode = "no leader says it on its Lease"
	}
	for _, field := range []struct {
		name    string
		unknown bool
		reason  string
	}{
		{"mode", process.State == who.Unknown, mode},
		{"controllers", runs && process.Controllers == nil, "no leader says on its Lease what it runs"},
		{"version", runs && process.Version == "", "no label " + v1alpha1.VersionLabel},
		{"leader", process.Mode == cliv1alpha1.ModeEnforce && !process.Held && !signs.LeasesKnown, unread(files, "Lease of Taintkeeper", "leases")},
		{"pods", files && len(cluster.Pods) == 0, unread(files, "Pod", "pods")},
		{"pods", !cluster.Knows(state.Nodes.Resource), unread(files, "Node", "nodes")},
		{"heldBy", process.State == who.Unknown && len(cluster.Policies) > 0, "it is not known whether Taintkeeper is running"},
		{"heldBy", policiesUnknown(cluster, files), unread(files, "EvictionPolicy", "evictionpolicies")},
		{"evictionClock", noEvictionClock, unread(files, "ServiceAccount", "serviceaccounts")},
		{"builtInBacklog", noEvictionClock, unread(files, "ServiceAccount", "serviceaccounts")},
		{"lastError", signs.Failure == nil && !signs.FailuresKnown, unread(files, "Event", "events")},
	} {
		if field.unknown {
			fields = append(fields, cliv1alpha1.UnknownField{Field: field.name, Reason: field.reason})
		}
	}
	return fields
}

// policiesUnknown reports whether there may be EvictionPolicies that were not read. A snapshot without them shows that
// the cluster has none, but other files do not.
func policiesUnknown(cluster *state.Cluster, files bool) bool {
	return !cluster.Knows(state.Policies.Resource) || files && cluster.At.IsZero() && len(cluster.Policies) == 0
}

// unread says why a kind is not known.
func unread(files bool, kind, resource string) string {
	if files {
		return "the files contain no " + kind
	}
	return "you may not list " + resource
}
