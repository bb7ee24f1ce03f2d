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

// census counts pods by namespace and labels on each node. PodTopologySpread examines all pods of all nodes for each
// pod that it spreads by default, which is almost every pod. With a census it examines only those that it counts.
type census map[string]*residents // by namespace

// residents are the pods of a namespace.
type residents struct {
	byLabels map[string]*alike
	all      []*alike
	with     map[label][]*alike // those that have the label
}

type label struct{ key, value string }

// alike are pods of a namespace that have the same labels.
type alike struct {
	pod   fwk.PodInfo    // one of them
	nodes map[string]int // how many there are on each node
}

// add adds pods, or removes them if the number is negative. Terminating pods do not count.
func (c census) add(pod *corev1.Pod, number int) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	if c[pod.Namespace] == nil {
		c[pod.Namespace] = &residents{byLabels: map[string]*alike{}, with: map[label][]*alike{}}
	}
	pods, err := c[pod.Namespace].like(pod)
	if err != nil {
		return fmt.Errorf("count pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if pods.nodes[pod.Spec.NodeName] += number; pods.nodes[pod.Spec.NodeName] == 0 {
		delete(pods.nodes, pod.Spec.NodeName)
	}
	return nil
}

// like returns the pods that have the same labels as the given pod.
func (r *residents) like(pod *corev1.Pod) (*alike, error) {
	key := labels.Set(pod.Labels).String()
	if pods := r.byLabels[key]; pods != nil {
		return pods, nil
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	pods := &alike{pod: info, nodes: map[string]int{}}
	r.byLabels[key] = pods
	r.all = append(r.all, pods)
	for key, value := range pod.Labels {
		one := label{key, value}
		r.with[one] = append(r.with[one], pods)
	}
	return pods, nil
}

// find returns the pods that a selector matches, by node. An empty selector matches none, because the plugin then
// counts nothing.
func (c census) find(namespace string, selector labels.Selector) map[string][]fwk.PodInfo {
	found := map[string][]fwk.PodInfo{}
	if selector.Empty() || c[namespace] == nil {
		return found
	}
	for _, pods := range c[namespace].candidates(selector) {
		if !selector.Matches(labels.Set(pods.pod.GetPod().Labels)) {
			continue
		}
		for node, number := range pods.nodes {
			found[node] = append(found[node], slices.Repeat([]fwk.PodInfo{pods.pod}, number)...)
		}
	}
	return found
}

// candidates returns the pods with the rarest label that a selector requires, or all pods if it requires none.
func (r *residents) candidates(selector labels.Selector) []*alike {
	rarest := r.all
	requirements, _ := selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		value, exact := selector.RequiresExactMatch(key)
		if !exact {
			continue
		}
		if with := r.with[label{key, value}]; len(with) < len(rarest) {
			rarest = with
		}
	}
	return rarest
}

// occupied is a node with those of its pods that count.
type occupied struct {
	fwk.NodeInfo

	pods []fwk.PodInfo
}

// GetPods implements fwk.NodeInfo.
func (o *occupied) GetPods() []fwk.PodInfo { return o.pods }

// defaults say which pods the scheduler counts to spread a pod without constraints.
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

// counted is the snapshot for PodTopologySpread, which lists nodes only to count their pods.
type counted struct {
	fwk.SharedLister

	nodes []fwk.NodeInfo // nil means all
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

// spreadHandle gives PodTopologySpread its own snapshot.
type spreadHandle struct {
	fwk.Handle

	snapshot fwk.SharedLister
}

// SnapshotSharedLister implements fwk.Handle.
func (h spreadHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }
