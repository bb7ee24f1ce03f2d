// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = "default"

// cluster is the state of a cluster, including its kubelets, and how it changes. It knows no clock and no client: the
// world puts an API in front of it, the models compute with it. Objects are never modified, only replaced.
type cluster struct {
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod // by name
	leases   map[string]*coordinationv1.Lease
	kubelets map[string]*kubelet
	removals map[string]time.Duration // when kubelets have ended terminating pods
	// blindUntil is until when pods cannot be seen.
	blindUntil time.Duration

	// write is where changes go, if not straight into the cluster: to an API, which tells the cluster what has changed.
	write func(before, after metav1.Object)
	// These are told of every change; before is nil for what came, after for what went.
	nodeChanged  func(before, after *corev1.Node)
	podChanged   func(before, after *corev1.Pod)
	leaseChanged func(before, after *coordinationv1.Lease)
}

// kubelet is what the kubelet of a node knows.
type kubelet struct {
	silent   bool
	posts    bool // its status; otherwise it only renews its lease
	statuses map[corev1.NodeConditionType]corev1.ConditionStatus
}

// kubeletConditions are the conditions that a kubelet posts.
var kubeletConditions = []corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady,
}

func newCluster() *cluster {
	return &cluster{
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}, leases: map[string]*coordinationv1.Lease{},
		kubelets: map[string]*kubelet{}, removals: map[string]time.Duration{},
		nodeChanged:  func(_, _ *corev1.Node) {},
		podChanged:   func(_, _ *corev1.Pod) {},
		leaseChanged: func(_, _ *coordinationv1.Lease) {},
	}
}

// begin adds what is there from the beginning.
func (c *cluster) begin(h *history) {
	for _, spec := range h.Nodes {
		c.addNode(spec, 0)
	}
	for _, spec := range h.Pods {
		c.create(spec)
		if spec.Terminating && !spec.Held {
			c.removals[spec.Name] = kubeletAfter(spec.Grace)
		}
	}
}

// kubeletAfter is how long a kubelet takes to end a pod. The half second keeps the removal away from every other
// instant of a history.
func kubeletAfter(grace int64) time.Duration { return time.Duration(grace)*sec + sec/2 }

func withTaint(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	taints = slices.Clone(taints)
	if i := slices.IndexFunc(taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }); i >= 0 {
		taints[i] = taint
		return taints
	}
	return append(taints, taint)
}

// withoutTaint leaves out the taints with a key, and with an effect unless that is empty.
func withoutTaint(taints []corev1.Taint, key string, effect corev1.TaintEffect) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool {
		return taint.Key == key && (effect == "" || taint.Effect == effect)
	})
}

func noExecute(key string, added time.Duration) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(instant(added))}
}

func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

// editNoExecute edits the NoExecute taint of a node with a key, if it has one.
func (c *cluster) editNoExecute(node, key string, edit func(*corev1.Taint)) {
	c.editTaints(node, func(taints []corev1.Taint) []corev1.Taint {
		taints = slices.Clone(taints)
		for i := range taints {
			if taints[i].Key == key && taints[i].Effect == corev1.TaintEffectNoExecute {
				edit(&taints[i])
			}
		}
		return taints
	})
}

func (c *cluster) editTaints(name string, edit func([]corev1.Taint) []corev1.Taint) {
	c.editNode(name, func(node *corev1.Node) { node.Spec.Taints = edit(node.Spec.Taints) })
}

// editNode edits a copy of a node, if there is one. Slices must be replaced, not written into.
func (c *cluster) editNode(name string, edit func(*corev1.Node)) {
	if before := c.nodes[name]; before != nil {
		after := *before
		edit(&after)
		c.putNode(name, &after)
	}
}

func (c *cluster) addNode(spec nodeSpec, at time.Duration) {
	if c.nodes[spec.Name] != nil {
		return
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: spec.Name, UID: types.UID(fmt.Sprintf("%s-%d", spec.Name, at/ms)), CreationTimestamp: instant(spec.Created),
			Labels: map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: spec.Zone},
		},
		Spec: corev1.NodeSpec{Taints: slices.Clone(spec.Taints), Unschedulable: spec.Cordoned},
	}
	if spec.Excluded {
		node.Labels["node.kubernetes.io/exclude-disruption"] = ""
	}
	if spec.Phase == 0 {
		c.putNode(spec.Name, node)
		return
	}
	kubelet := &kubelet{
		silent: spec.Absent, posts: !spec.Mute && !spec.Absent,
		statuses: map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionFalse,
			corev1.NodePIDPressure: corev1.ConditionFalse, corev1.NodeReady: corev1.ConditionTrue,
		},
	}
	c.kubelets[spec.Name] = kubelet
	if kubelet.posts { // a kubelet registers its node with its status
		kubelet.write(node, at)
	}
	c.putNode(spec.Name, node)
	if !spec.Absent {
		c.renew(spec.Name, at)
	}
}

func (c *cluster) post(name string, at time.Duration) {
	c.editNode(name, func(node *corev1.Node) { c.kubelets[name].write(node, at) })
}

// write puts the conditions that a kubelet posts into its node.
func (k *kubelet) write(node *corev1.Node, at time.Duration) {
	for _, kind := range kubeletConditions {
		node.Status.Conditions = withCondition(node.Status.Conditions, posted(kind, k.statuses[kind], at))
	}
}

func (c *cluster) renew(name string, at time.Duration) {
	put(c, c.leases, name, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: epoch.Add(at)}},
	}, c.leaseChanged)
}

func posted(kind corev1.NodeConditionType, status corev1.ConditionStatus, at time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: instant(at), LastTransitionTime: instant(at)}
}

// withCondition replaces the condition of a type. The transition time stays if the status does.
func withCondition(current []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	next := slices.Clone(current)
	i := slices.IndexFunc(next, func(other corev1.NodeCondition) bool { return other.Type == c.Type })
	if i < 0 {
		return append(next, c)
	}
	if next[i].Status == c.Status {
		c.LastTransitionTime = next[i].LastTransitionTime
	}
	next[i] = c
	return next
}

// condition returns the condition of a node with a type, nil if there is none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// pod returns the pod with a UID, if it is there.
func (c *cluster) pod(uid string) *corev1.Pod {
	for _, pod := range c.pods {
		if string(pod.UID) == uid {
			return pod
		}
	}
	return nil
}

func (c *cluster) create(spec podSpec) {
	c.vacate(spec.Name)
	c.putPod(spec.Name, spec.object())
}

// vacate removes the pod with the given name by force, if there is one.
func (c *cluster) vacate(name string) {
	delete(c.removals, name)
	c.putPod(name, nil)
}

func (c *cluster) editPod(uid string, edit func(*corev1.Pod)) {
	if before := c.pod(uid); before != nil {
		after := *before
		edit(&after)
		c.putPod(before.Name, &after)
	}
}

// delete is the API server's DELETE of a pod with its own grace period: a pod that has no node, or whose containers
// have ended, is gone at once, and a pod that is already terminating keeps terminating.
func (c *cluster) delete(name string, at time.Duration) {
	pod := c.pods[name]
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		grace = 0
	}
	held := len(pod.Finalizers) > 0
	if grace == 0 && !held {
		c.vacate(name)
		return
	}
	if !held {
		c.removals[name] = at + kubeletAfter(grace)
	}
	c.editPod(string(pod.UID), func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(instant(at+time.Duration(grace)*sec)), &grace
	})
}

// nextRemoval is when the next kubelet has ended a terminating pod, or never.
func (c *cluster) nextRemoval() time.Duration {
	next := never
	for _, at := range c.removals {
		next = min(next, at)
	}
	return next
}

// removeEnded removes the pods that their kubelets have ended by an instant.
func (c *cluster) removeEnded(by time.Duration) {
	for name, at := range c.removals {
		if at <= by {
			c.vacate(name)
		}
	}
}

func (c *cluster) putNode(name string, after *corev1.Node) {
	put(c, c.nodes, name, after, c.nodeChanged)
}
func (c *cluster) putPod(name string, after *corev1.Pod) { put(c, c.pods, name, after, c.podChanged) }

// object is a pointer to an object of the API.
type object[T any] interface {
	*T
	metav1.Object
}

// put replaces the object with a name, or removes it if after is nil.
func put[T any, O object[T]](c *cluster, objects map[string]O, name string, after O, changed func(before, after O)) {
	before := objects[name]
	switch {
	case before == nil && after == nil:
	case c.write == nil:
		set(objects, name, after, changed)
	case before == nil:
		c.write(nil, after)
	case after == nil:
		c.write(before, nil)
	default:
		c.write(before, after)
	}
}

// set stores a change, and tells of it.
func set[T any, O object[T]](objects map[string]O, name string, after O, changed func(before, after O)) {
	before := objects[name]
	if after == nil {
		delete(objects, name)
	} else {
		objects[name] = after
	}
	changed(before, after)
}

// sorted returns the values of a map in the order of its keys.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// nodeNames returns the names of the nodes in alphabetical order.
func (c *cluster) nodeNames() []string { return slices.Sorted(maps.Keys(c.nodes)) }
