// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// action is what a step does to a cluster, when it happens.
type action interface {
	do(c *cluster, at time.Duration)
}

// setTaint adds a taint to a node, or changes the one with its key and effect. Without a timeAdded it drops the one
// there was, as kubectl does.
type setTaint struct {
	Node  string
	Taint corev1.Taint
}

func (a setTaint) do(c *cluster, _ time.Duration) {
	c.editTaints(a.Node, func(taints []corev1.Taint) []corev1.Taint { return withTaint(taints, a.Taint) })
}

// changeValue changes the value of a NoExecute taint and leaves its timeAdded.
type changeValue struct{ Node, Key, Value string }

func (a changeValue) do(c *cluster, _ time.Duration) {
	c.editNoExecute(a.Node, a.Key, func(taint *corev1.Taint) { taint.Value = a.Value })
}

// retime changes the timeAdded of a NoExecute taint, if the node has it.
type retime struct {
	Node, Key string
	TimeAdded *time.Duration // nil: it is dropped
}

func (a retime) do(c *cluster, _ time.Duration) {
	c.editNoExecute(a.Node, a.Key, func(taint *corev1.Taint) {
		taint.TimeAdded = nil
		if a.TimeAdded != nil {
			taint.TimeAdded = new(instant(*a.TimeAdded))
		}
	})
}

// swap replaces a NoExecute taint with another that has a timeAdded, in one write.
type swap struct {
	Node, From, To string
	TimeAdded      time.Duration
}

func (a swap) do(c *cluster, _ time.Duration) {
	c.editTaints(a.Node, func(taints []corev1.Taint) []corev1.Taint {
		return withTaint(withoutTaint(taints, a.From, ""), noExecute(a.To, a.TimeAdded))
	})
}

// untaint removes the taints with a key, and with an effect if it names one.
type untaint struct {
	Node, Key string
	Effect    corev1.TaintEffect
}

func (a untaint) do(c *cluster, _ time.Duration) {
	c.editTaints(a.Node, func(taints []corev1.Taint) []corev1.Taint { return withoutTaint(taints, a.Key, a.Effect) })
}

type cordon struct {
	Node     string
	Cordoned bool
}

func (a cordon) do(c *cluster, _ time.Duration) {
	c.editNode(a.Node, func(node *corev1.Node) { node.Spec.Unschedulable = a.Cordoned })
}

// addNode adds a node, which may have the name of one that was removed.
type addNode struct{ Node nodeSpec }

func (a addNode) do(c *cluster, at time.Duration) { c.addNode(a.Node, at) }

// removeNode removes a node and its lease. Its pods stay, as if the pod garbage collection had not come yet.
type removeNode struct{ Node string }

func (a removeNode) do(c *cluster, _ time.Duration) {
	delete(c.kubelets, a.Node)
	put(c, c.leases, a.Node, nil, c.leaseChanged)
	c.putNode(a.Node, nil)
}

// fall makes kubelets silent from now on.
type fall struct{ Nodes []string }

func (a fall) do(c *cluster, _ time.Duration) {
	for _, name := range a.Nodes {
		if kubelet := c.kubelets[name]; kubelet != nil {
			kubelet.silent = true
		}
	}
}

// resume makes a kubelet renew its lease and post its status, now and from now on.
type resume struct{ Node string }

func (a resume) do(c *cluster, at time.Duration) {
	if kubelet := c.kubelets[a.Node]; kubelet != nil {
		kubelet.silent, kubelet.posts = false, true
		c.renew(a.Node, at)
		c.post(a.Node, at)
	}
}

// renew is what a kubelet that is not silent does by itself: it renews its lease.
type renew struct{ Node string }

func (a renew) do(c *cluster, at time.Duration) {
	if kubelet := c.kubelets[a.Node]; kubelet != nil && !kubelet.silent {
		c.renew(a.Node, at)
	}
}

// post is what it does more rarely: it posts its status, though nothing has changed.
type post struct{ Node string }

func (a post) do(c *cluster, at time.Duration) {
	if kubelet := c.kubelets[a.Node]; kubelet != nil && !kubelet.silent && kubelet.posts {
		c.post(a.Node, at)
	}
}

// report makes a kubelet that is not silent post another status of a condition. NetworkUnavailable is posted by the
// network's controller, whatever the kubelet does.
type report struct {
	Node   string
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
}

func (a report) do(c *cluster, at time.Duration) {
	kubelet := c.kubelets[a.Node]
	switch {
	case a.Type == corev1.NodeNetworkUnavailable:
		c.editNode(a.Node, func(node *corev1.Node) {
			node.Status.Conditions = withCondition(node.Status.Conditions, posted(a.Type, a.Status, at))
		})
	case kubelet != nil && !kubelet.silent:
		kubelet.posts, kubelet.statuses[a.Type] = true, a.Status
		c.post(a.Node, at)
	}
}

// touch is another client's write to a node's Lease, which does not renew it.
type touch struct{ Node string }

func (a touch) do(c *cluster, at time.Duration) {
	if lease := c.leases[a.Node]; lease != nil {
		touched := *lease
		touched.Annotations = map[string]string{"example.com/touched": at.String()}
		put[coordinationv1.Lease](c, c.leases, a.Node, &touched, c.leaseChanged)
	}
}

// create creates a pod. A pod with the same name is removed first, by force. If it is unseen, the watch of pods is
// interrupted, so that the contestant finds the new pod instead of the old one when it lists again, after blindFor.
type create struct {
	Pod    podSpec
	Unseen bool
}

// blindFor is longer than client-go's first backoff.
const blindFor = 2 * sec

func (a create) do(c *cluster, at time.Duration) {
	if a.Unseen {
		c.blindUntil = at + blindFor
	}
	c.create(a.Pod)
}

// bind binds a pod to a node.
type bind struct {
	UID, Node string
	Condition bool // PodScheduled is set, as the API server sets it
}

func (a bind) do(c *cluster, at time.Duration) {
	c.editPod(a.UID, func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" {
			return
		}
		pod.Spec.NodeName = a.Node
		if a.Condition {
			pod.Status.Conditions = append(slices.Clone(pod.Status.Conditions), scheduled(at))
		}
	})
}

// remove deletes a pod.
type remove struct {
	UID   string
	Force bool // at once, finalizer or not
}

func (a remove) do(c *cluster, at time.Duration) {
	if pod := c.pod(a.UID); pod != nil && a.Force {
		c.vacate(pod.Name)
	} else if pod != nil {
		c.delete(pod.Name, at)
	}
}

// tolerate replaces the tolerations of a pod.
type tolerate struct {
	UID         string
	Tolerations []corev1.Toleration
}

func (a tolerate) do(c *cluster, _ time.Duration) {
	c.editPod(a.UID, func(pod *corev1.Pod) { pod.Spec.Tolerations = a.Tolerations })
}

// finish ends a pod's containers.
type finish struct {
	UID   string
	Phase corev1.PodPhase
}

func (a finish) do(c *cluster, _ time.Duration) {
	c.editPod(a.UID, func(pod *corev1.Pod) { pod.Status.Phase = a.Phase })
}

// restart kills the contestant, which starts again after a while. Neither does anything to the cluster.
type (
	restart struct{ Down time.Duration }
	start   struct{}
)

func (restart) do(*cluster, time.Duration) {}
func (start) do(*cluster, time.Duration)   {}
