// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

const namespace = "default"

// cluster is the state of a cluster and how it changes. It knows no clock and no client: the world
// puts an API in front of it, the model computes with it. Objects are never modified, only replaced.
type cluster struct {
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod // by name
	removals map[string]time.Duration
	version  int

	// These are told of every change; before is nil for what came, after for what went.
	nodeChanged func(before, after *corev1.Node)
	podChanged  func(before, after *corev1.Pod)
}

func newCluster(h *history) *cluster {
	c := &cluster{
		nodes:       map[string]*corev1.Node{},
		pods:        map[string]*corev1.Pod{},
		removals:    map[string]time.Duration{},
		nodeChanged: func(_, _ *corev1.Node) {},
		podChanged:  func(_, _ *corev1.Pod) {},
	}
	for _, spec := range h.Nodes {
		c.addNode(spec)
	}
	for _, spec := range h.Pods {
		c.create(spec)
		if spec.Terminating && !spec.Held {
			c.removals[spec.Name] = kubeletAfter(spec.Grace)
		}
	}
	return c
}

// kubeletAfter is how long a kubelet takes to end a pod. The half second keeps the removal away
// from every other instant of a history.
func kubeletAfter(grace int64) time.Duration { return time.Duration(grace)*sec + sec/2 }

// apply does what a step says. A restart does nothing to the cluster.
func (c *cluster) apply(s step) {
	switch do := s.Do.(type) {
	case setTaint:
		c.editTaints(do.Node, func(taints []corev1.Taint) []corev1.Taint { return withTaint(taints, do.Taint) })
	case changeValue:
		c.editTaint(do.Node, do.Key, func(taint *corev1.Taint) { taint.Value = do.Value })
	case retime:
		c.editTaint(do.Node, do.Key, func(taint *corev1.Taint) {
			taint.TimeAdded = nil
			if do.TimeAdded != nil {
				taint.TimeAdded = instant(*do.TimeAdded)
			}
		})
	case swap:
		c.editTaints(do.Node, func(taints []corev1.Taint) []corev1.Taint {
			return withTaint(withoutTaint(taints, do.From), noExecute(do.To, do.TimeAdded))
		})
	case untaint:
		c.editTaints(do.Node, func(taints []corev1.Taint) []corev1.Taint { return withoutTaint(taints, do.Key) })
	case removeNode:
		c.putNode(do.Node, nil)
	case addNode:
		c.addNode(do.Node)
	case create:
		c.create(do.Pod)
	case createUnseen:
		c.create(do.Pod)
	default:
		c.applyToPod(s)
	}
}

func (c *cluster) applyToPod(s step) {
	switch do := s.Do.(type) {
	case bind:
		c.editPod(do.UID, func(pod *corev1.Pod) {
			if pod.Spec.NodeName != "" {
				return
			}
			pod.Spec.NodeName = do.Node
			if do.Condition {
				pod.Status.Conditions = append(slices.Clone(pod.Status.Conditions), scheduled(s.At))
			}
		})
	case remove:
		if pod := c.pod(do.UID); pod != nil && do.Force {
			c.vacate(pod.Name)
		} else if pod != nil {
			c.delete(pod.Name, s.At)
		}
	case tolerate:
		c.editPod(do.UID, func(pod *corev1.Pod) { pod.Spec.Tolerations = do.Tolerations })
	case finish:
		c.editPod(do.UID, func(pod *corev1.Pod) { pod.Status.Phase = do.Phase })
	}
}

func withTaint(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	if i := slices.IndexFunc(taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }); i >= 0 {
		taints[i] = taint
		return taints
	}
	return append(taints, taint)
}

func withoutTaint(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func noExecute(key string, added time.Duration) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: instant(added)}
}

func (c *cluster) editTaint(node, key string, edit func(*corev1.Taint)) {
	c.editTaints(node, func(taints []corev1.Taint) []corev1.Taint {
		for i := range taints {
			if taints[i].Key == key && taints[i].Effect == corev1.TaintEffectNoExecute {
				edit(&taints[i])
			}
		}
		return taints
	})
}

// editTaints edits a copy of a node's taints, if there is such a node.
func (c *cluster) editTaints(name string, edit func([]corev1.Taint) []corev1.Taint) {
	before, ok := c.nodes[name]
	if !ok {
		return
	}
	after := *before
	after.Spec.Taints = edit(slices.Clone(before.Spec.Taints))
	c.putNode(name, &after)
}

func (c *cluster) addNode(spec nodeSpec) {
	if c.nodes[spec.Name] != nil {
		return
	}
	c.putNode(spec.Name, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, UID: types.UID("node-" + strconv.Itoa(c.version))},
		Spec:       corev1.NodeSpec{Taints: slices.Clone(spec.Taints)},
	})
}

func (c *cluster) putNode(name string, after *corev1.Node) {
	arena.Put(c.nodes, &c.version, name, after, c.nodeChanged)
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
	before := c.pod(uid)
	if before == nil {
		return
	}
	after := *before
	edit(&after)
	c.putPod(before.Name, &after)
}

func (c *cluster) putPod(name string, after *corev1.Pod) {
	arena.Put(c.pods, &c.version, name, after, c.podChanged)
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
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = instant(at+time.Duration(grace)*sec), &grace
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

// never is after the end of every history.
const never = time.Duration(1<<63 - 1)
