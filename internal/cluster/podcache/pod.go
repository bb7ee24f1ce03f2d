// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Flags are the yes-or-no facts of a pod.
type Flags uint16

const (
	// Mirror marks the mirror pod of a static pod, which only its kubelet can stop.
	Mirror Flags = 1 << iota
	// Terminating marks a pod that has a deletionTimestamp, or whose delete the API server has accepted. A list that is
	// older than the answer to the delete can reset it, as can a restore of etcd.
	Terminating
	// Finished marks a pod in phase Succeeded or Failed.
	Finished
	// DisruptionTarget marks a pod whose condition of that type is True, no matter who set it.
	DisruptionTarget
	// MarkedByUs marks a pod whose condition DisruptionTarget is True with [EvictionReason] and a message that begins
	// with [MarkPrefix].
	MarkedByUs
	// MarkedByBuiltIn marks a pod with the same condition and any other message, which is kube-controller-manager's.
	MarkedByBuiltIn
	// Ready marks a pod that has a condition Ready that is not False.
	Ready
	// Pending marks a pod in phase Pending.
	Pending
	// deleted marks a terminating pod that only the answer to a delete has shown as terminating so far.
	deleted
)

// Has reports whether all of the given flags are set.
func (f Flags) Has(flags Flags) bool { return f&flags == flags }

// Pod is the record of a bound pod. Records are shared and never modified: a change makes a new one.
type Pod struct {
	Namespace  string
	Name       string
	UID        types.UID
	Node       string
	Generation int64
	Version    uint64 // its resourceVersion, or 0 if that is not a number
	Priority   int32
	Flags      Flags

	common      *common
	bound, seen int64 // on the timeline, nanoseconds since 1970
}

// Bound is the instant of the timeline at which the pod was bound to its node, dated when it was first seen there.
func (p *Pod) Bound() time.Time { return time.Unix(0, p.bound) }

// Seen is the instant of the timeline at which this process first saw the pod on its node.
func (p *Pod) Seen() time.Time { return time.Unix(0, p.seen) }

// Key is the namespaced name, for messages and API calls. Records are identified by UID.
func (p *Pod) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// Rule is what the rule needs to know about the pod.
func (p *Pod) Rule() verdict.Pod {
	return verdict.Pod{Tolerations: p.Tolerations(), Bound: p.Bound()}
}

// Verdict returns the verdict on the pod on a node with the given taints, whether it is terminating or not. Only its
// kubelet can end a mirror pod (kubernetes/kubernetes#96363).
func (p *Pod) Verdict(rule verdict.Rule, tainted []verdict.Taint) verdict.Verdict {
	if p.Flags.Has(Mirror) {
		return verdict.Verdict{}
	}
	return rule.Decide(p.Rule(), tainted)
}

// AsOf returns the record of the same pod as the API server has just returned it, which can be newer than what the
// watch has brought. The cache keeps its own.
func (p *Pod) AsOf(live *corev1.Pod) *Pod {
	newer := record(live, verdict.Sight{}, new(slices.Collect(maps.Keys(live.Labels))))
	newer.seen, newer.bound = p.seen, p.bound
	inherit(newer, p)
	return newer
}

// record makes the record of a pod that is first seen now, with its labels of some keys. Nothing in it is shared yet.
func record(pod *corev1.Pod, seen verdict.Sight, keys *[]string) *Pod {
	p := &Pod{
		Namespace:  pod.Namespace,
		Name:       pod.Name,
		UID:        pod.UID,
		Node:       pod.Spec.NodeName,
		Generation: pod.Generation,
		Version:    version(pod.ResourceVersion),
		Flags:      flagsOf(pod),
		common:     commonOf(pod, keys),
	}
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	p.bound, p.seen = seen.Start(verdict.Bound(pod)).UnixNano(), seen.At.UnixNano()
	return p
}

// version turns a resourceVersion into a number, so that versions of one pod can be compared. Kubernetes guarantees the
// order of decimal numbers, which all of the API server's own versions are.
func version(resourceVersion string) uint64 {
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func flagsOf(pod *corev1.Pod) Flags {
	var flags Flags
	if _, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		flags |= Mirror
	}
	if pod.DeletionTimestamp != nil {
		flags |= Terminating
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		flags |= Finished
	case corev1.PodPending:
		flags |= Pending
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionFalse {
			flags |= Ready
		}
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			flags |= DisruptionTarget | marks[v1alpha1.MarkerOf(condition)]
		}
	}
	return flags
}

// marks are the flags of pods that somebody has marked.
var marks = map[v1alpha1.Marker]Flags{
	v1alpha1.MarkedByTaintkeeper: MarkedByUs, v1alpha1.MarkedByBuiltIn: MarkedByBuiltIn,
}

// common is what many pods have in common. Records share it and never modify it. nil has no tolerations and no labels.
type common struct {
	tolerations *[]corev1.Toleration // nil if there are none; many commons share one
	labels      keptLabels
}

// commonOf returns what a pod has in common with others. Only its labels with some keys are kept.
func commonOf(pod *corev1.Pod, keys *[]string) *common {
	c := common{labels: labelsOf(pod, keys)}
	if len(pod.Spec.Tolerations) > 0 {
		c.tolerations = new(slices.Clip(pod.Spec.Tolerations))
	}
	if c == (common{}) {
		return nil
	}
	return &c
}

// Tolerations returns the pod's toleration list, which is shared by all pods with an equal one.
func (p *Pod) Tolerations() []corev1.Toleration {
	if p.common == nil || p.common.tolerations == nil {
		return nil
	}
	return *p.common.tolerations
}

// Labels returns the labels of the pod that are kept; see [Cache.KeepLabels].
func (p *Pod) Labels() labels.Labels {
	if p.common == nil {
		return labels.Set(nil)
	}
	return &p.common.labels
}

// SameTolerations reports whether two records have equal toleration lists.
func SameTolerations(a, b *Pod) bool {
	return a.common == b.common || equalTolerations(a.Tolerations(), b.Tolerations())
}

// SameLabels reports whether the kept labels of two records are equal.
func SameLabels(a, b *Pod) bool {
	return a.common == b.common || a.kept().equal(b.kept())
}

func (p *Pod) kept() keptLabels {
	if p.common == nil {
		return keptLabels{}
	}
	return p.common.labels
}

func sameCommon(a, b *Pod) bool { return SameTolerations(a, b) && SameLabels(a, b) }

func equalTolerations(a, b []corev1.Toleration) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Toleration) bool {
		return x.MatchToleration(&y) && ptr.Equal(x.TolerationSeconds, y.TolerationSeconds)
	})
}

// identity encodes a toleration list so that only equal lists have the same identity: no field of a valid toleration
// holds a NUL.
func identity(tolerations []corev1.Toleration) string {
	key := make([]byte, 0, 256)
	for i := range tolerations {
		t := &tolerations[i]
		for _, field := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			key = append(append(key, field...), 0)
		}
		if t.TolerationSeconds != nil {
			key = strconv.AppendInt(key, *t.TolerationSeconds, 10)
		}
		key = append(key, 0)
	}
	return string(key)
}

func (k *pods) share(c *common) *common {
	if c == nil {
		return nil
	}
	if c.tolerations != nil {
		c.tolerations = k.tolerations.Share(identity(*c.tolerations), c.tolerations)
	}
	return k.commons.Share(*c, c)
}

func (k *pods) release(c *common) {
	if c == nil {
		return
	}
	k.commons.Release(*c)
	if c.tolerations != nil {
		k.tolerations.Release(identity(*c.tolerations))
	}
}

// keptLabels are the kept labels of a pod, in a form that is small and comparable. The zero value has none. No label
// contains a comma or an equals sign.
type keptLabels struct {
	keys   *[]string // shared by all pods that were recorded with these keys
	values string    // in the order of the keys, "=value" or nothing for each, with commas between them
}

var _ labels.Labels = &keptLabels{}

// labelsOf returns the labels of a pod with some keys.
func labelsOf(pod *corev1.Pod, keys *[]string) keptLabels {
	var values strings.Builder
	found := false
	for i, key := range *keys {
		if i > 0 {
			values.WriteByte(',')
		}
		if value, ok := pod.Labels[key]; ok {
			values.WriteString("=" + value)
			found = true
		}
	}
	if !found {
		return keptLabels{}
	}
	return keptLabels{keys: keys, values: strings.Clone(values.String())}
}

// all yields the labels by key.
func (l *keptLabels) all() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		if l.keys == nil {
			return
		}
		rest := l.values
		for _, key := range *l.keys {
			var value string
			value, rest, _ = strings.Cut(rest, ",")
			if value, ok := strings.CutPrefix(value, "="); ok && !yield(key, value) {
				return
			}
		}
	}
}

// Lookup implements [labels.Labels].
func (l *keptLabels) Lookup(label string) (value string, exists bool) {
	for key, value := range l.all() {
		if key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements [labels.Labels].
func (l *keptLabels) Has(label string) bool {
	_, exists := l.Lookup(label)
	return exists
}

// Get implements [labels.Labels].
func (l *keptLabels) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}

// equal compares the kept labels of two pods. It is expensive only for pods that were recorded with different keys.
func (l keptLabels) equal(other keptLabels) bool {
	return l == other || maps.Equal(l.set(), other.set())
}

func (l keptLabels) set() labels.Set { return maps.Collect(l.all()) }
