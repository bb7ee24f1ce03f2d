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
)

// The names by which the controllers that evict and taint are known: their programs, the Leases by which their replicas
// elect a leader, and the managers of the fields that they write.
const (
	Taintkeeper       = "taintkeeper"
	ControllerManager = "kube-controller-manager"
)

// NodeHealthLease is the Lease in kube-node-lease that Taintkeeper renews while it judges the health of nodes.
const NodeHealthLease = "taintkeeper.dev"

// The eviction clock, as package coexist writes it: an annotation of a ServiceAccount.
const (
	EvictionClock           = "taintkeeper-eviction-clock"
	EvictionClockAnnotation = "taintkeeper.dev/renewed"
	BacklogUntilAnnotation  = "taintkeeper.dev/backlog-until"
	BacklogSparedAnnotation = "taintkeeper.dev/backlog-spared"
)

// EvictionReason is the reason of the events that both controllers write when they evict.
const EvictionReason = "TaintManagerEviction"

// Signs are traces that controllers leave in a cluster. What was not read, or was not in the files, is not known; that
// is something else than none.
type Signs struct {
	// At is the instant for which they count: of reading, or the newest renewal that files hold. Zero if there is none.
	At time.Time

	// Leases are those with which Taintkeeper and ControllerManager elect leaders, and NodeHealthLease; all of them if
	// LeasesKnown.
	Leases      []*coordinationv1.Lease
	LeasesKnown bool
	// EvictionClocks are the eviction clocks; all of them if EvictionClocksKnown.
	EvictionClocks      []*corev1.ServiceAccount
	EvictionClocksKnown bool
	// Holders are the admission policies that keep the built-in from evicting pods of EvictionPolicies with ifDown: Hold;
	// all of them if HoldersKnown.
	Holders      []*admissionv1.ValidatingAdmissionPolicy
	HoldersKnown bool
	// Evictions are the events of evictions, by Taintkeeper or ControllerManager.
	Evictions map[string]Trace
	// Failure is the newest event of Taintkeeper about something that failed; none is there if it is nil and
	// FailuresKnown.
	Failure       *cliv1alpha1.LastError
	FailuresKnown bool
	// Cancelled are the events of evictions that were cancelled, by pod.
	Cancelled map[types.NamespacedName]Trace
}

// Trace is what somebody did: how often, and when last.
type Trace struct {
	Count int
	Last  time.Time
}

// AddLease takes a Lease of a controller.
func (s *Signs) AddLease(lease *coordinationv1.Lease) {
	s.Leases = append(s.Leases, slimLease(lease))
}

// AddEvictionClock takes a ServiceAccount: of an eviction clock its annotations are kept, of others nothing.
func (s *Signs) AddEvictionClock(account *corev1.ServiceAccount) {
	if account.Name != EvictionClock {
		return
	}
	kept := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name, UID: account.UID},
	}
	for _, name := range []string{EvictionClockAnnotation, BacklogUntilAnnotation, BacklogSparedAnnotation} {
		if value, ok := account.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	s.EvictionClocks = append(s.EvictionClocks, kept)
}

// AddHolder takes a ValidatingAdmissionPolicy: one with EvictionPolicies as its parameters is kept.
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

// AddEvent counts the event of an eviction. Both controllers write it with the same source: it is the field manager, or
// the pod's UID, which the built-in leaves out, that says whose it is. A dry run evicts nobody.
func (s *Signs) AddEvent(event *corev1.Event) {
	if event.Reason != EvictionReason || strings.HasSuffix(event.Message, "(dry run)") {
		return
	}
	if strings.HasPrefix(event.Message, "Cancelling deletion ") {
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

// addCancelled counts how often an eviction of a pod was cancelled. The API server keeps equal events as one.
func (s *Signs) addCancelled(event *corev1.Event) {
	if s.Cancelled == nil {
		s.Cancelled = map[types.NamespacedName]Trace{}
	}
	pod := types.NamespacedName{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}
	s.Cancelled[pod] = s.Cancelled[pod].with(event, max(int(event.Count), 1))
}

// with returns the trace with an event more.
func (t Trace) with(event *corev1.Event, count int) Trace {
	t.Count += count
	if at := lastSeen(event); at.After(t.Last) {
		t.Last = at
	}
	return t
}

// Heard notes that the cluster was alive at an instant: files say by it when they were written.
func (s *Signs) Heard(at time.Time) {
	if at.After(s.At) {
		s.At = at
	}
}

// WorkloadTemplate is a workload of which files hold the template, and not the pods.
type WorkloadTemplate struct {
	Owner    cliv1alpha1.Owner
	Replicas int
	// Pod is what the template makes.
	Pod *corev1.Pod
}

// Flags of the two programs that say which Lease their replicas elect a leader with.
const (
	electionName      = "--leader-elect-resource-name"
	electionNamespace = "--leader-elect-resource-namespace"
)

// flagsKept are the flags of the two programs that say which of their controllers run.
var flagsKept = []string{
	"--controllers", "--coexist", "--shadow", "--dry-run", "--leader-elect", electionName, electionNamespace,
}

// Election returns the name of the Lease with which the replicas of a program elect a leader, and its namespace, as the
// flags of the program's pods say. Without pods or flags, the name is the name of the program, and the namespace is
// empty.
func (c *Cluster) Election(program string) (name, namespace string) {
	name = program
	for _, pod := range c.Pods {
		words := WordsOf(pod, program)
		name, namespace = ValueOf(electionName, words, name), ValueOf(electionNamespace, words, namespace)
	}
	return name, namespace
}

// IsOfController reports whether a Lease is one that tells of a controller.
func (c *Cluster) IsOfController(lease *coordinationv1.Lease) bool {
	if lease.Namespace == corev1.NamespaceNodeLease {
		return lease.Name == NodeHealthLease
	}
	return slices.ContainsFunc([]string{Taintkeeper, ControllerManager}, func(program string) bool {
		name, namespace := c.Election(program)
		return lease.Name == name && (namespace == "" || lease.Namespace == namespace)
	})
}

// controllerCommand returns the program and the flags that say what it runs, nil for any program but the two. An
// image's entrypoint is in no pod, so a container without a command goes by its name.
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
	command := []string{program}
	for _, word := range words {
		if name, _, _ := strings.Cut(word, "="); slices.Contains(flagsKept, name) {
			command = append(command, word)
		}
	}
	return command
}

// What is left of the fields that somebody manages on a node.
var (
	fieldsTaints     = metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)
	fieldsConditions = metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)
)

// slimManagers keeps of who writes a node who writes its taints, and the conditions but for its kubelet.
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
