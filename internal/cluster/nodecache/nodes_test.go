// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }

// created is when the nodes of these tests were created. A bubble's time begins in the year 2000.
var created = metav1.Date(1999, time.December, 31, 23, 0, 0, 0, time.UTC)

type edit func(*corev1.Node)

// newNode returns a node that is ready, made different by the edits. Its UID is derived from its name.
func newNode(name string, edits ...edit) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: created,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-a"},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: created, LastTransitionTime: created,
		}}},
	}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func withUID(uid types.UID) edit { return func(node *corev1.Node) { node.UID = uid } }

func withVersion(resourceVersion string) edit {
	return func(node *corev1.Node) { node.ResourceVersion = resourceVersion }
}

func withLabels(labels map[string]string) edit {
	return func(node *corev1.Node) { node.Labels = labels }
}

func withTaints(taints ...corev1.Taint) edit {
	return func(node *corev1.Node) { node.Spec.Taints = taints }
}

func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func heartbeat(at time.Time) edit {
	return func(node *corev1.Node) { node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at) }
}

// newCache returns a cache that nothing feeds but the test.
func newCache() *Cache { return New(Config{Clock: &timeline.Clock{}}) }

// listed feeds a complete list to the cache.
func listed(c *Cache, nodes ...*corev1.Node) error {
	c.Store().BeginList()
	for _, node := range nodes {
		if err := c.Store().Update(node); err != nil {
			return err
		}
	}
	return c.Store().Replace(nil, "")
}

// get returns the record of a node that must have one.
func get(t *testing.T, c *Cache, name string) *Node {
	t.Helper()
	node, ok := c.Get(name)
	if !ok {
		t.Fatalf("there is no record of %s", name)
	}
	return node
}

// since returns when a NoExecute taint, which the node must have, began to count.
func since(t *testing.T, c *Cache, name, key string) time.Time {
	t.Helper()
	for _, taint := range get(t, c, name).NoExecute {
		if taint.Key == key {
			return taint.Since
		}
	}
	t.Fatalf("node %s has no NoExecute taint %s", name, key)
	return time.Time{}
}

// watching returns notes of the changes from now on.
func watching(c *Cache) *bubble.Notes[Change] {
	n := &bubble.Notes[Change]{}
	c.Subscribe(func(change Change) {
		change.Object = nil
		n.Write(change)
	})
	n.Take() // discards the notes about what is there already
	return n
}

// checkNames checks the names of the nodes that have a record, in any order.
func checkNames(t *testing.T, c *Cache, want ...string) {
	t.Helper()
	var got []string
	for _, node := range c.All() {
		got = append(got, node.Name)
	}
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("records of %v, want %v", got, want)
	}
	checkShared(t, c)
}

// checkShared: every string of the labels is the shared one and counted as often as it is used, except the hostname.
func checkShared(t *testing.T, c *Cache) {
	t.Helper()
	uses := map[*byte]int{}
	for _, node := range c.All() {
		for i := range node.Status.Conditions {
			if reason := node.Status.Conditions[i].Reason; reason != "" {
				uses[unsafe.StringData(reason)]++
			}
		}
		for key, value := range node.Labels {
			uses[unsafe.StringData(key)]++
			if value != node.Name {
				uses[unsafe.StringData(value)]++
			}
		}
	}
	if len(uses) != len(c.nodes.strings) {
		t.Errorf("%d strings in use, %d kept", len(uses), len(c.nodes.strings))
	}
	for text, one := range c.nodes.strings {
		if got := uses[unsafe.StringData(one.Value)]; got != one.Uses {
			t.Errorf("%s is used %d times and counted %d times", text, got, one.Uses)
		}
	}
}
