// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// podCounts counts pods by namespace and labels on each node. PodTopologySpread examines all pods of all nodes for each
// pod that it spreads by default, which is almost every pod. With these counts it examines only those that it counts.
type podCounts map[string]*residents // by namespace

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
func (c podCounts) add(pod *corev1.Pod, number int) error {
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
func (c podCounts) find(namespace string, selector labels.Selector) map[string][]fwk.PodInfo {
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

// workload is an owner of pods that leave, with the nodes of its replicas before and after the plan.
type workload struct {
	owner         cliv1alpha1.Owner
	namespace     string
	before, after []string
	leaving       []*cliv1alpha1.PlannedPod
	pod           *corev1.Pod // one of them
	known         bool        // each of its successors has a node or fits none; there is no bound
}

type workloadKey struct {
	namespace string
	owner     cliv1alpha1.Owner
}

// WarnOfSpread warns of workloads that were in several zones and would be in one. It also warns of workloads that would
// be spread less evenly than they request, where the scheduler allows that (ScheduleAnyway).
func WarnOfSpread(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) {
	nodes := map[string]*corev1.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node
	}
	for _, w := range workloadsOf(plan, cluster) {
		if !w.known || w.pod == nil || w.owner.Kind == daemonSet {
			continue
		}
		for _, warning := range w.warnings(nodes) {
			for _, pod := range w.leaving {
				pod.WhereTo.Warnings = append(pod.WhereTo.Warnings, warning)
			}
		}
	}
}

// workloadsOf returns the workloads of the pods that leave and have successors.
func workloadsOf(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster) map[workloadKey]*workload {
	all := map[workloadKey]*workload{}
	leaving := map[types.UID]bool{}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		leaving[pod.UID] = pod.WhereTo != nil
		if pod.WhereTo == nil || pod.WhereTo.NoSuccessor || pod.Owner == nil {
			continue
		}
		key := workloadKey{pod.Namespace, *pod.Owner}
		if all[key] == nil {
			all[key] = &workload{owner: key.owner, namespace: key.namespace, known: true}
		}
		all[key].leave(pod)
	}
	for _, pod := range cluster.Pods {
		if owner := cluster.Owner(pod); owner != nil && holdsNode(pod) {
			if w := all[workloadKey{pod.Namespace, *owner}]; w != nil {
				w.has(pod, leaving[pod.UID])
			}
		}
	}
	return all
}

// has adds a pod of the workload as it is before the plan.
func (w *workload) has(pod *corev1.Pod, leaves bool) {
	w.before = append(w.before, pod.Spec.NodeName)
	switch {
	case !leaves:
		w.after = append(w.after, pod.Spec.NodeName)
	case w.pod == nil || pod.UID == w.leaving[0].UID:
		w.pod = pod
	}
}

func (w *workload) leave(pod *cliv1alpha1.PlannedPod) {
	w.leaving = append(w.leaving, pod)
	w.known = w.known && !pod.WhereTo.Bound && pod.WhereTo.Reason == ""
	if node := pod.WhereTo.Node; node != "" {
		w.after = append(w.after, node)
	}
}

func holdsNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !state.IsOver(pod)
}

func (w *workload) warnings(nodes map[string]*corev1.Node) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	before, after := domains(w.before, nodes, corev1.LabelTopologyZone), domains(w.after, nodes, corev1.LabelTopologyZone)
	if len(before) > 1 && len(after) == 1 && len(w.after) > 1 {
		for zone := range after {
			all = append(all, cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningZoneSpread, Message: fmt.Sprintf(
				"Zone spread broken: the %d replicas of %s %s/%s would all be in zone %s, and are in %d zones now.",
				len(w.after), w.owner.Kind, w.namespace, w.owner.Name, zone, len(before))})
		}
	}
	for _, constraint := range w.pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue // a filter guarantees it
		}
		key := constraint.TopologyKey
		if was, is := w.skew(w.before, nodes, key), w.skew(w.after, nodes, key); is > int(constraint.MaxSkew) && is > was {
			all = append(all, cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningSkew, Message: fmt.Sprintf(
				"The replicas of %s %s/%s would be spread over %s with a skew of %d, more than its maxSkew of %d.",
				w.owner.Kind, w.namespace, w.owner.Name, key, is, constraint.MaxSkew)})
		}
	}
	return all
}

// domains counts nodes by the value of a label. Nodes without the label do not count.
func domains(names []string, nodes map[string]*corev1.Node, key string) map[string]int {
	counts := map[string]int{}
	for _, name := range names {
		if node := nodes[name]; node != nil && node.Labels[key] != "" {
			counts[node.Labels[key]]++
		}
	}
	return counts
}

// skew returns the difference between the replicas of the fullest and the emptiest domain, among the domains with nodes
// that the workload selects.
func (w *workload) skew(names []string, nodes map[string]*corev1.Node, key string) int {
	counts := domains(names, nodes, key)
	required := nodeaffinity.GetRequiredNodeAffinity(w.pod)
	for _, node := range nodes {
		domain := node.Labels[key]
		if _, counted := counts[domain]; domain == "" || counted {
			continue
		}
		if matches, err := required.Match(node); err == nil && matches {
			counts[domain] = 0
		}
	}
	least, most := -1, 0
	for _, n := range counts {
		if most = max(most, n); least < 0 || n < least {
			least = n
		}
	}
	return most - max(least, 0)
}
