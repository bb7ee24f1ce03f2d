// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// owners are the objects whose pods the scheduler spreads by default. It reads only their selectors.
type owners struct {
	replicaSets            []*appsv1.ReplicaSet
	statefulSets           []*appsv1.StatefulSet
	replicationControllers []*corev1.ReplicationController
}

// The kinds of owners that PodTopologySpread distinguishes.
var (
	replicaSet            = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	statefulSet           = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	replicationController = corev1.SchemeGroupVersion.WithKind("ReplicationController")
)

// daemonSet is the kind of controller whose pods each belong to one node.
const daemonSet = "DaemonSet"

// ownerName identifies an owner, as in the scheduler.
type ownerName struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// ownersOf creates the owners of pods from their references. If the source does not contain an owner's selector, the
// selector consists of the labels that all its pods have.
func ownersOf(cluster *state.Cluster) owners {
	selectors := map[ownerName]*metav1.LabelSelector{}
	for _, pod := range cluster.Pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			continue
		}
		name := ownerName{schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), pod.Namespace, ref.Name}
		selector, known := selectors[name]
		switch held := cluster.Selectors[ref.UID]; {
		case !known && held != nil:
			selectors[name] = held.DeepCopy()
		case !known:
			selectors[name] = &metav1.LabelSelector{MatchLabels: selectable(pod.Labels)}
		case held == nil:
			keepShared(selector.MatchLabels, pod.Labels)
		}
	}
	var all owners
	for name, selector := range selectors {
		all.add(name, selector)
	}
	return all
}

// selectable returns the labels of a pod that its workload may select.
func selectable(labels map[string]string) map[string]string {
	all := maps.Clone(labels)
	for _, name := range ordinalLabels {
		delete(all, name)
	}
	return all
}

func keepShared(labels, others map[string]string) {
	maps.DeleteFunc(labels, func(key, value string) bool {
		other, ok := others[key]
		return !ok || other != value
	})
}

func (o *owners) add(name ownerName, selector *metav1.LabelSelector) {
	meta := metav1.ObjectMeta{Namespace: name.namespace, Name: name.name}
	switch name.kind {
	case replicaSet:
		owner := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}
		o.replicaSets = append(o.replicaSets, owner)
	case statefulSet:
		owner := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}}
		o.statefulSets = append(o.statefulSets, owner)
	case replicationController:
		owner := &corev1.ReplicationController{
			ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels},
		}
		o.replicationControllers = append(o.replicationControllers, owner)
	}
}
