// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// created is when the pods of these tests were created. A bubble's time begins in the year 2000.
var created = metav1.Date(1999, time.December, 31, 23, 0, 0, 0, time.UTC)

type edit func(*corev1.Pod)

// newPod returns a pod on node n1, made different by the edits. Its UID is derived from its name.
func newPod(name string, edits ...edit) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: "n1", Tolerations: []corev1.Toleration{tolerated("disk", 300)}},
	}
	return edited(pod, edits...)
}

func edited(pod *corev1.Pod, edits ...edit) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func tolerated(key string, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
}

func onNode(node string) edit { return func(pod *corev1.Pod) { pod.Spec.NodeName = node } }

func withUID(uid types.UID) edit { return func(pod *corev1.Pod) { pod.UID = uid } }

func withTolerations(tolerations ...corev1.Toleration) edit {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations }
}

func withLabel(key, value string) edit {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

func withGeneration(generation int64) edit {
	return func(pod *corev1.Pod) { pod.Generation = generation }
}

func withVersion(resourceVersion string) edit {
	return func(pod *corev1.Pod) { pod.ResourceVersion = resourceVersion }
}

func inPhase(phase corev1.PodPhase) edit { return func(pod *corev1.Pod) { pod.Status.Phase = phase } }

func terminating(pod *corev1.Pod) {
	pod.DeletionTimestamp = &metav1.Time{Time: created.Add(30 * time.Minute)}
}

func withCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) edit {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason})
	}
}

// markedBy makes a pod one that a taint eviction has marked, with a message.
func markedBy(message string) edit {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason, Message: message,
		})
	}
}

const (
	ourMessage = "Taintkeeper: deleting due to NoExecute taint"
	upstreams  = "Taint manager: deleting due to NoExecute taint"
)

func scheduledAt(instant time.Time) edit {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(instant)},
		}
	}
}

// newCache returns a cache that nothing feeds but the test.
func newCache() *Cache { return New(nil, &timeline.Clock{}) }

// listed feeds a complete list to the cache.
func listed(c *Cache, pods ...*corev1.Pod) error {
	c.Store().BeginList()
	for _, pod := range pods {
		if err := c.Store().Update(pod); err != nil {
			return err
		}
	}
	return c.Store().Replace(nil, "")
}

// get returns the record of a pod that must have one.
func get(t *testing.T, c *Cache, uid types.UID) *Pod {
	t.Helper()
	pod, ok := c.Get(uid)
	if !ok {
		t.Fatalf("there is no record of %s", uid)
	}
	return pod
}

// watching returns notes of the changes from now on.
func watching(c *Cache) *bubble.Notes[Change] {
	n := &bubble.Notes[Change]{}
	c.Subscribe(func(change Change) { n.Write(Change{Before: change.Before, After: change.After}) })
	n.Take() // discards the notes about what is there already
	return n
}

// checkNames checks the names of the pods that have a record, in any order.
func checkNames(t *testing.T, c *Cache, want ...string) {
	t.Helper()
	var got []string
	for _, pod := range c.All() {
		got = append(got, pod.Name)
	}
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("records of %v, want %v", got, want)
	}
	if c.Len() != len(want) {
		t.Errorf("%d records, want %d", c.Len(), len(want))
	}
	checkConsistent(t, c)
}

// checkConsistent: every record is on its node once and nowhere else, and every toleration list, with its labels,
// is the shared one and counted as often as it is used.
func checkConsistent(t *testing.T, c *Cache) {
	t.Helper()
	onNodes := 0
	for node, pods := range c.pods.byNode {
		onNodes += len(pods)
		if len(pods) == 0 {
			t.Errorf("node %s is kept without a pod", node)
		}
		for _, pod := range pods {
			if kept, _ := c.Get(pod.UID); pod.Node != node || kept != pod {
				t.Errorf("node %s has a record of %s that is not the current one", node, pod.Key())
			}
		}
	}
	if onNodes != c.Len() {
		t.Errorf("%d records on nodes, %d in all", onNodes, c.Len())
	}
	checkShared(t, c)
}

func checkShared(t *testing.T, c *Cache) {
	t.Helper()
	commons, names := map[*common]int{}, map[*byte]int{}
	for _, pod := range c.All() {
		if pod.common != nil {
			commons[pod.common]++
		}
		names[unsafe.StringData(pod.Node)]++
		names[unsafe.StringData(pod.Namespace)]++
	}
	if len(commons) != len(c.pods.commons) || len(names) != len(c.pods.names) {
		t.Errorf("%d commons and %d names in use, %d and %d kept", len(commons), len(names), len(c.pods.commons), len(c.pods.names))
	}
	for _, one := range c.pods.commons {
		if got := commons[one.Value]; got != one.Uses {
			t.Errorf("%v is used by %d records and counted %d times", one.Value, got, one.Uses)
		}
	}
	for name, one := range c.pods.names {
		if got := names[unsafe.StringData(one.Value)]; got != one.Uses {
			t.Errorf("%s is used %d times and counted %d times", name, got, one.Uses)
		}
	}
}

// Len returns the number of records.
func (c *Cache) Len() int { return len(c.All()) }
