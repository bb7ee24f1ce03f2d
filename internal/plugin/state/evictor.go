// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Evictor is who evicts the pods of a cluster. Commands decide by its rule: kube-controller-manager's if nobody else
// evicts, and otherwise Taintkeeper's, which is also the rule if it is not known who evicts. The zero value means that
// nobody asked.
type Evictor struct {
	Who cliv1alpha1.Who
	// Began is when the leader of kube-controller-manager began to lead. All its countdowns count from then or later.
	// It is zero if that is not known.
	Began time.Time
	// Idle says that Taintkeeper does not evict, and what that means. It is empty if Taintkeeper evicts, or if it is
	// not known and means nothing.
	Idle string
}

// timers is kube-controller-manager's rule.
var timers = builtin.Timers{Rule: Rule}

// IsBuiltIn reports whether kube-controller-manager evicts, and Taintkeeper does not.
func (e Evictor) IsBuiltIn() bool { return e.Who == cliv1alpha1.WhoBuiltIn }

// By returns who evicts, for a report; empty if it is not known.
func (e Evictor) By() cliv1alpha1.Who {
	if e.Who == cliv1alpha1.WhoUnknown {
		return ""
	}
	return e.Who
}

// Decide returns when a pod must leave a node that has had these taints, and no others, since they count.
func (e Evictor) Decide(pod verdict.Pod, taints []verdict.Taint) verdict.Verdict {
	if e.IsBuiltIn() {
		return timers.Replay(pod, taints, e.Began)
	}
	return Rule.Decide(pod, taints)
}

// Change returns when a pod must leave after its tolerations or the taints of its node have changed at an instant, to
// those given. Before is the verdict until then.
func (e Evictor) Change(
	before verdict.Verdict, pod verdict.Pod, taints []verdict.Taint, now time.Time,
) verdict.Verdict {
	if e.IsBuiltIn() {
		return timers.Look(before, pod, taints, now)
	}
	return Rule.Decide(pod, taints)
}

// Forgot reports whether kube-controller-manager has tried without success to evict a pod that is still there, and
// tries again only after the next change.
func (e Evictor) Forgot(is verdict.Verdict, now time.Time) bool {
	return e.IsBuiltIn() && timers.Forgot(is, now)
}

// SameNoExecute reports whether two versions of a node have the same NoExecute taints, so that kube-controller-manager
// does not look at its pods.
func SameNoExecute(a, b []corev1.Taint) bool {
	return equality.Semantic.DeepEqual(taints.NoExecute(a), taints.NoExecute(b))
}

// Comparison counts the pods with which Taintkeeper would do something else than kube-controller-manager does.
type Comparison struct{ stay, leave, earlier, later int }

// Add adds what kube-controller-manager does with a pod, and what Taintkeeper would do. Times that the API records to
// the second may differ by one.
func (c *Comparison) Add(is, ours verdict.Verdict) {
	switch {
	case is.Leaves && !ours.Leaves:
		c.stay++
	case ours.Leaves && !is.Leaves:
		c.leave++
	case is.Due.Sub(ours.Due) > time.Second:
		c.earlier++
	case ours.Due.Sub(is.Due) > time.Second:
		c.later++
	}
}

// Notes says how many pods there are, and what Taintkeeper would do.
func (c *Comparison) Notes() []string {
	var parts []string
	for _, part := range []struct {
		pods int
		does string
	}{{c.stay, "stay"}, {c.leave, "leave"}, {c.earlier, "leave earlier"}, {c.later, "leave later"}} {
		if part.pods > 0 {
			parts = append(parts, fmt.Sprintf("%d would %s", part.pods, part.does))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	pods := c.stay + c.leave + c.earlier + c.later
	return []string{"With Taintkeeper it would be different for " + sentence.Counted(pods, "pod") + ": " +
		strings.Join(parts, ", ") + "."}
}

// Taintkeeper is the name of our program, and of the manager of the fields that it writes.
const Taintkeeper = "taintkeeper"

// Signs are traces that controllers leave in a cluster. If something was not read, or was not in the files, it is
// unknown, which is different from none.
type Signs struct {
	// At is the instant that they describe: when they were read, or the newest renewal in the files. It is zero if there
	// is none.
	At time.Time

	// Leases are the Leases with which Taintkeeper and kube-controller-manager elect leaders, and the Lease of node
	// health. The list is complete if LeasesKnown.
	Leases      []*coordinationv1.Lease
	LeasesKnown bool
	// EvictionClocks are the eviction clocks. The list is complete if EvictionClocksKnown.
	EvictionClocks      []*corev1.ServiceAccount
	EvictionClocksKnown bool
	// Holders are the admission policies that keep the built-in from evicting pods of EvictionPolicies with ifDown: Hold.
	// The list is complete if HoldersKnown.
	Holders      []*admissionv1.ValidatingAdmissionPolicy
	HoldersKnown bool
	// Failure is Taintkeeper's most recent event about a failure. If it is nil and FailuresKnown is true, there is none.
	Failure       *cliv1alpha1.LastError
	FailuresKnown bool
	// Shadow is the newest report of shadow mode, if there is one.
	Shadow *v1alpha1.ShadowReport
	// Cancelled are the events of cancelled evictions, by pod.
	Cancelled map[types.NamespacedName]Trace
	// Past are the evictions that the events tell of.
	Past []cliv1alpha1.Eviction
}

// Trace says how often something was done, and when last.
type Trace struct {
	Count int
	Last  time.Time
}

// AddLease adds a Lease of a controller, or replaces it. It keeps the holder, since when it holds the Lease, and what
// the leader says about itself.
func (s *Signs) AddLease(lease *coordinationv1.Lease) {
	slim := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       lease.Spec.HolderIdentity,
			LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds,
			AcquireTime:          lease.Spec.AcquireTime, RenewTime: lease.Spec.RenewTime,
		},
	}
	for _, label := range v1alpha1.LabelsOfLeader() {
		if value, ok := lease.Labels[label]; ok {
			metav1.SetMetaDataLabel(&slim.ObjectMeta, label, value)
		}
	}
	s.Leases = slices.DeleteFunc(s.Leases, func(other *coordinationv1.Lease) bool {
		return other.Namespace == lease.Namespace && other.Name == lease.Name
	})
	s.Leases = append(s.Leases, slim)
}

// AddShadow adds the report of shadow mode, if the ConfigMap has one.
func (s *Signs) AddShadow(from *corev1.ConfigMap) error {
	if from.Name != v1alpha1.ShadowConfigMap {
		return nil
	}
	report, err := v1alpha1.ParseShadowReport(from)
	if err == nil && (s.Shadow == nil || s.Shadow.Time.Before(&report.Time)) {
		s.Shadow = report
	}
	return err
}

// NewestLease returns the most recently renewed of some Leases. It is nil if there is none.
func (s *Signs) NewestLease(which func(*coordinationv1.Lease) bool) *coordinationv1.Lease {
	var newest *coordinationv1.Lease
	for _, lease := range s.Leases {
		isOne := lease.Spec.RenewTime != nil && which(lease)
		if isOne && (newest == nil || newest.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
			newest = lease
		}
	}
	return newest
}

// ElectsTaintkeeper reports whether Taintkeeper's replicas elect their leader with a Lease. An older version does not
// label it, and then its name must be the default.
func ElectsTaintkeeper(lease *coordinationv1.Lease) bool {
	return lease.Namespace != corev1.NamespaceNodeLease &&
		(lease.Name == v1alpha1.ElectionLease || lease.Labels[v1alpha1.NameLabel] == v1alpha1.Name)
}

// IsOfNodeHealth reports whether Taintkeeper's node health renews a Lease.
func IsOfNodeHealth(lease *coordinationv1.Lease) bool {
	return lease.Namespace == corev1.NamespaceNodeLease && lease.Name == v1alpha1.NodeHealthLease
}

// IsHeld reports whether a leader holds a Lease and renews it.
func IsHeld(lease *coordinationv1.Lease, at time.Time) bool {
	return lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "" && IsRenewed(lease, at)
}

// IsRenewed reports whether a Lease is being renewed. The clocks of its holder and of this machine may differ a little,
// so it allows twice the duration.
func IsRenewed(lease *coordinationv1.Lease, at time.Time) bool {
	const usual = 15
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, usual)) * time.Second
	return at.Sub(lease.Spec.RenewTime.Time) < 2*lasts
}

// AddEvictionClock adds a ServiceAccount if it is an eviction clock, and keeps its annotations. It ignores others.
func (s *Signs) AddEvictionClock(account *corev1.ServiceAccount) {
	if account.Name != v1alpha1.EvictionClock {
		return
	}
	kept := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name, UID: account.UID},
	}
	for _, name := range []string{
		v1alpha1.EvictionClockAnnotation, v1alpha1.BacklogUntilAnnotation, v1alpha1.BacklogSparedAnnotation,
	} {
		if value, ok := account.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	s.EvictionClocks = append(s.EvictionClocks, kept)
}

// AddHolder adds a ValidatingAdmissionPolicy if its parameters are EvictionPolicies.
func (s *Signs) AddHolder(policy *admissionv1.ValidatingAdmissionPolicy) {
	kind := policy.Spec.ParamKind
	if kind == nil || kind.Kind != "EvictionPolicy" ||
		!strings.HasPrefix(kind.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return
	}
	s.Holders = append(s.Holders, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name, UID: policy.UID},
		Spec:       admissionv1.ValidatingAdmissionPolicySpec{ParamKind: kind},
	})
}

// AddEvent adds the event of an eviction, and ignores other events.
func (s *Signs) AddEvent(event *corev1.Event) {
	e, ok := EvictionOf(event)
	if !ok {
		return
	}
	s.Past = append(s.Past, e)
	if !e.Cancelled || e.Name == "" {
		return
	}
	if s.Cancelled == nil {
		s.Cancelled = map[types.NamespacedName]Trace{}
	}
	pod := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	s.Cancelled[pod] = s.Cancelled[pod].with(e.At.Time, max(int(event.Count), 1)) // the API server merges equal events
}

// EvictionsBy returns how many events of evictions a program wrote, Taintkeeper or [builtin.Program], and when last.
func (s *Signs) EvictionsBy(program string) (t Trace) {
	for i := range s.Past {
		if (s.Past[i].By == cliv1alpha1.WhoTaintkeeper) == (program == Taintkeeper) {
			t = t.with(s.Past[i].At.Time, 1)
		}
	}
	return t
}

// with returns the trace with one more event, which may stand for several equal ones.
func (t Trace) with(at time.Time, count int) Trace {
	t.Count += count
	if at.After(t.Last) {
		t.Last = at
	}
	return t
}

// AddFailure adds an event. Only the most recent failure is kept.
func (s *Signs) AddFailure(event *corev1.Event) {
	if !slices.Contains(v1alpha1.FailureEvents(), event.Reason) {
		return
	}
	at := lastSeen(event)
	if s.Failure != nil && !at.After(s.Failure.At.Time) {
		return
	}
	about := event.InvolvedObject
	object := about.Kind + " " + about.Name
	if about.Namespace != "" {
		object = fmt.Sprintf("%s %s/%s", about.Kind, about.Namespace, about.Name)
	}
	s.Failure = &cliv1alpha1.LastError{
		At: metav1.NewMicroTime(at), Object: object, Reason: event.Reason, Message: event.Message,
	}
}

// lastSeen returns when an event was last written.
func lastSeen(event *corev1.Event) time.Time {
	at := event.LastTimestamp.Time
	if event.EventTime.After(at) {
		at = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}

// Heard records that the cluster was alive at an instant, which shows when files were written.
func (s *Signs) Heard(at time.Time) {
	if at.After(s.At) {
		s.At = at
	}
}

// WorkloadTemplate is a workload of which files contain the template, but no pods.
type WorkloadTemplate struct {
	cliv1alpha1.CheckedObject

	Source   string // the file; empty if it is stdin
	Replicas int
	// Pod is a pod as the template creates it.
	Pod *corev1.Pod
}

// The parts of managed fields that are kept for a node.
var (
	fieldsTaints     = metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)
	fieldsConditions = metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)
)

// slimManagers keeps who writes the taints of a node, and who writes its conditions, except for its kubelet.
func slimManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if builtin.Writes(&entry, builtin.Taints) {
			kept = append(kept, managed(entry, fieldsTaints))
		}
		if entry.Manager != "kubelet" && builtin.Writes(&entry, builtin.Conditions) {
			kept = append(kept, managed(entry, fieldsConditions))
		}
	}
	return kept
}

func managed(entry metav1.ManagedFieldsEntry, fields *metav1.FieldsV1) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: entry.Manager, Operation: entry.Operation, APIVersion: entry.APIVersion, Time: entry.Time,
		FieldsType: entry.FieldsType, FieldsV1: fields, Subresource: entry.Subresource,
	}
}
