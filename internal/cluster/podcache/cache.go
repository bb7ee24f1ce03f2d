// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcache keeps a small record of every pod that is bound to a node.
//
// Package eviction needs all pods of a tainted node at once, but only what the rule and the delete call need of each
// pod. A Pod object decoded from the API takes about ten kilobytes; its record takes a few hundred bytes, whatever the
// number of containers. Pods become records one by one, as they arrive. That holds for lists, too, streamed or in
// pages: at most a page of pods is in memory in addition to the records.
package podcache

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
	"github.com/taintkeeper/taintkeeper/internal/cluster/records"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Change is one change of a record. A new version of a pod without any other change is not reported.
type Change = records.Change[corev1.Pod, Pod]

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache struct {
	*records.Cache[types.UID, corev1.Pod, Pod]

	pods *pods
}

// pods decides what is kept of pods, and indexes them by node.
type pods struct {
	clock   *timeline.Clock
	byNode  map[string][]*Pod
	names   intern.Pool[string, string] // of namespaces and nodes
	commons intern.Pool[common, *common]
	// tolerations are the lists of all commons, by their identity.
	tolerations intern.Pool[string, *[]corev1.Toleration]
	keys        *[]string // of the labels that are kept
}

// New returns a cache of the pods that the client can see and that are bound to a node. The clock is the timeline of
// the process.
func New(client kubernetes.Interface, clock *timeline.Clock) *Cache {
	k := &pods{
		clock:   clock,
		byNode:  map[string][]*Pod{},
		names:   intern.Pool[string, string]{},
		commons: intern.Pool[common, *common]{},

		tolerations: intern.Pool[string, *[]corev1.Toleration]{},
		keys:        &[]string{},
	}
	return &Cache{records.New("bound pods", boundPods(client), client, clock, k), k}
}

// There returns the record of a pod, if there is one and the pod is not terminating.
func (c *Cache) There(uid types.UID) (*Pod, bool) {
	pod, ok := c.Get(uid)
	return pod, ok && !pod.Flags.Has(Terminating)
}

// OnNode returns the records of the pods bound to a node, in no particular order.
func (c *Cache) OnNode(node string) (on []*Pod) {
	c.Read(func() { on = slices.Clone(c.pods.byNode[node]) })
	return on
}

// KeepLabels sets the keys of the labels that are kept from now on, and reports whether all of them were already kept.
// If not, the records have them after the next list.
func (c *Cache) KeepLabels(keys []string) (known bool) {
	c.Write(func() {
		kept := c.pods.keys
		known = !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(*kept, key) })
		if !slices.Equal(keys, *kept) {
			c.pods.keys = new(slices.Clone(keys))
		}
	})
	return known
}

// MarkTerminating notes that the API server has accepted the delete of a pod. Its answer is newer than what the watch
// has brought so far, so the mark stays until the watch shows the pod terminating, or a new list does not.
func (c *Cache) MarkTerminating(uid types.UID) {
	c.Change(uid, func(change *Change) bool {
		if change.Before == nil || change.Before.Flags.Has(Terminating) {
			return false
		}
		terminating := *change.Before
		terminating.Flags |= Terminating | deleted
		return c.pods.put(change, &terminating)
	})
}

// Key implements records.Kind.
func (k *pods) Key(pod *corev1.Pod) (types.UID, bool) { return pod.UID, pod.Spec.NodeName != "" }

// Keep implements records.Kind.
func (k *pods) Keep(change *Change) bool {
	after := record(change.Object, k.clock.See(), k.keys)
	if before := change.Before; before != nil && !change.Gap { // etcd may have been restored before a list
		after.staysDeleted(before)
	}
	return k.put(change, after)
}

// Drop implements records.Kind.
func (k *pods) Drop(_ types.UID, pod *Pod) {
	k.dropFromNode(pod)
	k.names.Release(pod.Namespace)
	k.names.Release(pod.Node)
	k.release(pod.common)
}

// put keeps a record, unless nothing in it is new, and reports whether more than the version has changed.
func (k *pods) put(change *Change, after *Pod) (told bool) {
	before := change.Before
	if before == nil {
		k.add(after)
		change.After = after
		return true
	}
	told = inherit(after, before)
	if told || after.Version != before.Version {
		k.replace(before, after)
		change.After = after
	}
	return told
}

func (k *pods) add(pod *Pod) {
	pod.Namespace = k.names.Share(pod.Namespace, pod.Namespace)
	pod.Node = k.names.Share(pod.Node, pod.Node)
	pod.common = k.share(pod.common)
	k.byNode[pod.Node] = append(k.byNode[pod.Node], pod)
}

// replace replaces a record of the same pod, which is what nearly every change in a cluster amounts to.
func (k *pods) replace(before, after *Pod) {
	if after.Node != before.Node || after.Namespace != before.Namespace || !sameCommon(after, before) {
		k.Drop(before.UID, before)
		k.add(after)
		return
	}
	after.Namespace, after.Node, after.common = before.Namespace, before.Node, before.common
	onNode := k.byNode[after.Node]
	onNode[slices.Index(onNode, before)] = after
}

func (k *pods) dropFromNode(pod *Pod) {
	onNode := k.byNode[pod.Node]
	last := len(onNode) - 1
	if last == 0 {
		delete(k.byNode, pod.Node)
		return
	}
	onNode[slices.Index(onNode, pod)] = onNode[last]
	onNode[last] = nil
	k.byNode[pod.Node] = onNode[:last]
}

// inherit carries over what an older record of the same pod knows and a newer object does not say, and reports whether
// the newer record differs from the older one in more than its version.
func inherit(after, before *Pod) bool {
	if after.Node == before.Node {
		after.seen, after.bound = before.seen, before.bound
	}
	return after.Node != before.Node ||
		(after.Flags^before.Flags)&^deleted != 0 ||
		after.Generation != before.Generation ||
		after.Priority != before.Priority ||
		!sameCommon(after, before)
}

// staysDeleted carries over that the API server has accepted the delete of a pod, which the watch may not show yet. If
// a list is older than that answer, the next eviction finds the pod terminating.
func (p *Pod) staysDeleted(before *Pod) {
	if before.Flags.Has(deleted) && !p.Flags.Has(Terminating) {
		p.Flags |= Terminating | deleted
	}
}

// Gather is how long changes of pods may wait before they are read, for a client that reads them together; see
// apicall.Gathered. It is short compared with the time that a change takes through the API server, and much longer than
// the time between two changes in a cluster large enough for it to matter.
const Gather = 10 * time.Millisecond

var bound = fields.OneTermNotEqualSelector("spec.nodeName", "").String()

// boundPods lists and watches the pods that have a node.
func boundPods(client kubernetes.Interface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		},
	}
}
