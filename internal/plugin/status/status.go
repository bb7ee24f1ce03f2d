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
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// overdueAfter is how long a pod may be due before it counts as overdue. In a storm, pods wait for a slot.
const overdueAfter = time.Minute

// Make returns how Taintkeeper is doing at an instant.
func Make(cluster *state.Cluster, at time.Time) *cliv1alpha1.StatusReport {
	known := who.Ask(cluster, at)
	process := &known.Process
	report := &cliv1alpha1.StatusReport{
		TypeMeta: cliv1alpha1.Type("StatusReport"),
		At:       metav1.NewMicroTime(at), Notes: cluster.Notes(), Mode: process.Mode,
		Controllers: process.Controllers, Version: process.Version,
		Leader: leaderOf(process), Replicas: replicasOf(process.Replicas), LastError: cluster.Signs.Failure,
	}
	if account := evictionClockFor(&cluster.Signs, process); account != nil {
		report.EvictionClock, report.BuiltInBacklog = who.ClockOf(account, at), who.BacklogOf(account, at)
	}
	pending := plan.Pending{}
	if mayEvict(known) { // otherwise policies hold nothing
		pending.Policies = cluster.PoliciesOf()
	}
	by := known.Evictor(len(cluster.Policies))
	count(report, pending.In(state.LiveOf(by, cluster.Nodes, cluster.Pods, at), at))
	report.Unknown = unknown(cluster, process)
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

// evictionClockFor returns the eviction clock in the namespace of the Lease, or else any.
func evictionClockFor(signs *state.Signs, process *who.Process) *corev1.ServiceAccount {
	if len(signs.EvictionClocks) == 0 {
		return nil
	}
	i := slices.IndexFunc(signs.EvictionClocks, func(account *corev1.ServiceAccount) bool {
		return process.Lease != nil && account.Namespace == process.Lease.Namespace
	})
	return signs.EvictionClocks[max(i, 0)]
}

// count counts the pods that must leave.
func count(report *cliv1alpha1.StatusReport, list *cliv1alpha1.PendingList) {
	at, pods, held := report.At.Time, &report.Pods, map[cliv1alpha1.Objector]int{}
	for i := range list.Pods {
		pod := &list.Pods[i] // soonest first
		switch due := pod.Due.Time; {
		case due.After(at):
			pods.Later++
			if pods.Next == nil {
				pods.Next = &pod.Due
			}
		case pod.Answer.Stays():
			pods.Held++
			held[cliv1alpha1.Objector{Policy: pod.Answer.Policy, Reason: pod.Answer.Reason}]++
		default:
			pods.Due++
			if at.Sub(due) <= overdueAfter {
				continue
			}
			if pods.Overdue++; pods.Oldest == nil {
				pods.Oldest = &pod.Due
			}
		}
	}
	for objector, pods := range held {
		objector.Pods = pods
		report.HeldBy = append(report.HeldBy, objector)
	}
	slices.SortFunc(report.HeldBy, func(a, b cliv1alpha1.Objector) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Reason, b.Reason))
	})
}

// judge says whether Taintkeeper does its job, and what is wrong.
func judge(
	report *cliv1alpha1.StatusReport, cluster *state.Cluster, known *who.Answer,
) (health cliv1alpha1.Health, problems []string) {
	if known.Process.State != who.Running {
		why := known.WhyNot() + "."
		if len(cluster.Policies) > 0 {
			why = known.NoHolds()
		}
		if known.Process.State == who.Unknown {
			return cliv1alpha1.HealthUnknown, []string{why}
		}
		return cliv1alpha1.NotRunning, []string{why}
	}
	if len(report.Replicas) > 0 && !slices.ContainsFunc(report.Replicas, isReady) {
		problems = append(problems, "No replica is ready.")
	}
	if mayEvict(known) {
		problems = append(problems, ofEvictions(report, cluster, known)...)
	}
	if len(problems) > 0 {
		return cliv1alpha1.Degraded, problems
	}
	return cliv1alpha1.Healthy, nil
}

func isReady(replica cliv1alpha1.Replica) bool { return replica.Ready }

// ofEvictions says what is wrong if Taintkeeper evicts.
func ofEvictions(
	report *cliv1alpha1.StatusReport, cluster *state.Cluster, known *who.Answer,
) (problems []string) {
	at := report.At.Time
	if clock := report.EvictionClock; clock != nil && fails(clock, known) {
		problems = append(problems, staleEvictionClock(clock, at))
	}
	if pods := report.Pods; pods.Overdue > 0 {
		problems = append(problems, fmt.Sprintf("%s overdue, %s %s.", sentence.Are(pods.Overdue, "pod"),
			sentence.Agree(pods.Overdue, "for", "the oldest for"), duration.HumanDuration(at.Sub(pods.Oldest.Time))))
	}
	for _, policy := range cluster.Policies {
		accepted := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionAccepted)
		if accepted != nil && accepted.Status == metav1.ConditionFalse {
			problems = append(problems, fmt.Sprintf("EvictionPolicy %s is not accepted: %s", policy.Name, accepted.Message))
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

func staleEvictionClock(clock *cliv1alpha1.EvictionClockStatus, at time.Time) string {
	if clock.Renewed == nil {
		return "The eviction clock is not set, so the built-in controller may evict as well."
	}
	return fmt.Sprintf("The eviction clock was last renewed %s ago, so the built-in controller may evict as well.",
		duration.HumanDuration(at.Sub(clock.Renewed.Time)))
}
