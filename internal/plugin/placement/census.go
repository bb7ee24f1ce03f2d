// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// census counts pods by namespace and labels on each node. PodTopologySpread looks at all pods of all nodes for each
// pod that it spreads by default, which is nearly every one; with a census it looks at those that it counts.
type census struct {
	pods map[string]map[string]*alike // by namespace and labels
	// found are the pods that selectors match, by namespace and selector. They are forgotten when pods with other labels
	// come.
	found map[string]map[string][]*alike
}

func newCensus() *census {
	return &census{pods: map[string]map[string]*alike{}, found: map[string]map[string][]*alike{}}
}

// alike are the pods of a namespace that have the same labels.
type alike struct {
	pod   fwk.PodInfo    // one of them
	nodes map[string]int // how many there are on each node
}

// add adds pods, or takes them away. Those that are terminating do not count.
func (c *census) add(pod *corev1.Pod, number int) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	key := labels.Set(pod.Labels).String()
	if c.pods[pod.Namespace] == nil {
		c.pods[pod.Namespace] = map[string]*alike{}
	}
	pods := c.pods[pod.Namespace][key]
	if pods == nil {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return fmt.Errorf("count pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		pods = &alike{pod: info, nodes: map[string]int{}}
		c.pods[pod.Namespace][key] = pods
		delete(c.found, pod.Namespace)
	}
	if pods.nodes[pod.Spec.NodeName] += number; pods.nodes[pod.Spec.NodeName] == 0 {
		delete(pods.nodes, pod.Spec.NodeName)
	}
	return nil
}

// find returns the pods that a selector matches, by node. An empty selector matches none: the plugin does not count
// then.
func (c *census) find(namespace string, selector labels.Selector) map[string][]fwk.PodInfo {
	all := map[string][]fwk.PodInfo{}
	if selector.Empty() {
		return all
	}
	for _, pods := range c.matching(namespace, selector) {
		for node, number := range pods.nodes {
			all[node] = append(all[node], slices.Repeat([]fwk.PodInfo{pods.pod}, number)...)
		}
	}
	return all
}

func (c *census) matching(namespace string, selector labels.Selector) []*alike {
	key := selector.String()
	if found, known := c.found[namespace][key]; known {
		return found
	}
	var found []*alike
	for _, pods := range c.pods[namespace] {
		if selector.Matches(labels.Set(pods.pod.GetPod().Labels)) {
			found = append(found, pods)
		}
	}
	if c.found[namespace] == nil {
		c.found[namespace] = map[string][]*alike{}
	}
	c.found[namespace][key] = found
	return found
}

// occupied is a node with those of its pods that count.
type occupied struct {
	fwk.NodeInfo

	pods []fwk.PodInfo
}

// GetPods implements fwk.NodeInfo.
func (o occupied) GetPods() []fwk.PodInfo { return o.pods }

// defaults say which pods the scheduler counts to spread a pod that has no constraints.
type defaults struct {
	services               corelisters.ServiceLister
	replicationControllers corelisters.ReplicationControllerLister
	replicaSets            appslisters.ReplicaSetLister
	statefulSets           appslisters.StatefulSetLister
}

func defaultsOf(factory informers.SharedInformerFactory) defaults {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	return defaults{
		services: core.Services().Lister(), replicationControllers: core.ReplicationControllers().Lister(),
		replicaSets: apps.ReplicaSets().Lister(), statefulSets: apps.StatefulSets().Lister(),
	}
}

func (d defaults) selector(pod *corev1.Pod) labels.Selector {
	return helper.DefaultSelector(pod, d.services, d.replicationControllers, d.replicaSets, d.statefulSets)
}

// counted is the snapshot for PodTopologySpread, which lists nodes only to count the pods on them.
type counted struct {
	fwk.SharedLister

	nodes []fwk.NodeInfo // nil: all
}

// NodeInfos implements fwk.SharedLister.
func (c *counted) NodeInfos() fwk.NodeInfoLister {
	return countedNodes{c.SharedLister.NodeInfos(), c.nodes}
}

type countedNodes struct {
	fwk.NodeInfoLister

	nodes []fwk.NodeInfo
}

// List implements fwk.NodeInfoLister.
func (c countedNodes) List() ([]fwk.NodeInfo, error) {
	if c.nodes == nil {
		return c.NodeInfoLister.List()
	}
	return c.nodes, nil
}

// spreadHandle is a handle with which PodTopologySpread is given its own snapshot.
type spreadHandle struct {
	fwk.Handle

	snapshot fwk.SharedLister
}

// SnapshotSharedLister implements fwk.Handle.
func (h spreadHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }
