// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// These names identify the controllers that evict and taint: their programs, the Leases that their replicas use to
// elect a leader, and the managers of the fields that they write.
const (
	Taintkeeper       = "taintkeeper"
	ControllerManager = "kube-controller-manager"
)

// Signs are traces that controllers leave in a cluster. If something was not read, or was not in the files, it is
// unknown, which is different from none.
type Signs struct {
	// At is the instant that they describe: when they were read, or the newest renewal in the files. It is zero if there
	// is none.
	At time.Time

	// Leases are the Leases that Taintkeeper and ControllerManager use to elect leaders, and the Lease of node
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
	// Evictions are the events of evictions by Taintkeeper or ControllerManager.
	Evictions map[string]Trace
	// Failure is Taintkeeper's most recent event about a failure. If it is nil and FailuresKnown is true, there is none.
	Failure       *cliv1alpha1.LastError
	FailuresKnown bool
	// Cancelled are the events of cancelled evictions, by pod.
	Cancelled map[types.NamespacedName]Trace
}

// Trace says how often something was done, and when last.
type Trace struct {
	Count int
	Last  time.Time
}

// AddLease adds a Lease of a controller.
func (s *Signs) AddLease(lease *coordinationv1.Lease) {
	s.Leases = append(s.Leases, slimLease(lease))
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

// AddEvent counts the event of an eviction. Both controllers write it with the same source. The field manager, or the
// pod's UID, which the built-in leaves out, shows which controller wrote it. A dry run evicts nothing.
func (s *Signs) AddEvent(event *corev1.Event) {
	if event.Reason != v1alpha1.EventEviction || v1alpha1.IsDryRunText(event.Message) {
		return
	}
	if v1alpha1.IsCancellingText(event.Message) {
		s.addCancelled(event)
	}
	who := ControllerManager
	isOurs := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == Taintkeeper }
	if event.InvolvedObject.UID != "" || slices.ContainsFunc(event.ManagedFields, isOurs) {
		who = Taintkeeper
	}
	if s.Evictions == nil {
		s.Evictions = map[string]Trace{}
	}
	s.Evictions[who] = s.Evictions[who].with(event, 1)
}

// addCancelled counts how often evictions of a pod were cancelled. The API server merges equal events.
func (s *Signs) addCancelled(event *corev1.Event) {
	if s.Cancelled == nil {
		s.Cancelled = map[types.NamespacedName]Trace{}
	}
	pod := types.NamespacedName{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}
	s.Cancelled[pod] = s.Cancelled[pod].with(event, max(int(event.Count), 1))
}

// with returns the trace with one more event.
func (t Trace) with(event *corev1.Event, count int) Trace {
	t.Count += count
	if at := lastSeen(event); at.After(t.Last) {
		t.Last = at
	}
	return t
}

// Heard records that the cluster was alive at an instant, which shows when files were written.
func (s *Signs) Heard(at time.Time) {
	if at.After(s.At) {
		s.At = at
	}
}

// WorkloadTemplate is a workload of which files contain the template, but no pods.
type WorkloadTemplate struct {
	Owner    cliv1alpha1.Owner
	Replicas int
	// Pod is a pod as the template creates it.
	Pod *corev1.Pod
}

// Flags of the two programs that say which Lease their replicas use to elect a leader.
const (
	electionName      = "--leader-elect-resource-name"
	electionNamespace = "--leader-elect-resource-namespace"
)

// The flags of the two programs that are kept: those that say which of their controllers run, and how long nodes may be
// silent.
var (
	switchesKept = []string{"--coexist", "--shadow", "--dry-run", "--leader-elect"}
	valuesKept   = []string{"--controllers", electionName, electionNamespace, readiness.MonitorGraceFlag}
)

// Election returns the name and the namespace of the Lease that the replicas of a program use to elect a leader,
// according to the flags of its pods. Without pods or flags, the name is the name of the program, and the namespace is
// empty.
func (c *Cluster) Election(program string) (name, namespace string) {
	name = program
	for _, pod := range c.Pods {
		words := WordsOf(pod, program)
		name, namespace = ValueOf(electionName, words, name), ValueOf(electionNamespace, words, namespace)
	}
	return name, namespace
}

// IsOfController reports whether a Lease shows something about a controller.
func (c *Cluster) IsOfController(lease *coordinationv1.Lease) bool {
	if lease.Namespace == corev1.NamespaceNodeLease {
		return lease.Name == v1alpha1.NodeHealthLease
	}
	return slices.ContainsFunc([]string{Taintkeeper, ControllerManager}, func(program string) bool {
		name, namespace := c.Election(program)
		return lease.Name == name && (namespace == "" || lease.Namespace == namespace)
	})
}

// controllerCommand returns the program and the flags that say what it runs. It is nil for any other program. Since a
// pod does not show the entrypoint of its image, a container without a command is identified by its name.
func controllerCommand(container *corev1.Container) []string {
	words := slices.Concat(container.Command, container.Args)
	program := ""
	for _, word := range words {
		if base := path.Base(word); !strings.HasPrefix(word, "-") && (base == Taintkeeper || base == ControllerManager) {
			program = base
			break
		}
	}
	if program == "" && len(container.Command) == 0 &&
		(container.Name == Taintkeeper || container.Name == ControllerManager) {
		program = container.Name
	}
	if program == "" {
		return nil
	}
	return append([]string{program}, keptOf(words)...)
}

// keptOf returns the flags that are kept, with their values.
func keptOf(words []string) (kept []string) {
	valueFollows := false
	for _, word := range words {
		name, _, inOne := strings.Cut(word, "=")
		hasValue := slices.Contains(valuesKept, name)
		if hasValue || valueFollows || slices.Contains(switchesKept, name) {
			kept = append(kept, word)
		}
		valueFollows = hasValue && !inOne
	}
	return kept
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
		if entry.FieldsV1 == nil {
			continue
		}
		raw := entry.FieldsV1.GetRawBytes()
		if bytes.Contains(raw, []byte(`"f:taints"`)) {
			kept = append(kept, managed(entry, fieldsTaints))
		}
		if entry.Manager != "kubelet" && bytes.Contains(raw, []byte(`"f:conditions"`)) {
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

// WritesTaints reports whether an entry of a slim node is about its taints.
func WritesTaints(entry *metav1.ManagedFieldsEntry) bool { return writes(entry, `"f:taints"`) }

// WritesConditions reports whether an entry of a slim node is about its conditions.
func WritesConditions(entry *metav1.ManagedFieldsEntry) bool { return writes(entry, `"f:conditions"`) }

func writes(entry *metav1.ManagedFieldsEntry, field string) bool {
	return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(field))
}
