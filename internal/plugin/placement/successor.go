// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/taints"
)

// leaver is a pod that looks for a node.
type leaver struct {
	pod *corev1.Pod
	// successor is the pod as the scheduler sees it.
	successor *corev1.Pod
	// only is the only node where the pod may run, if it is a DaemonSet's.
	only  string
	group *group
}

// SuccessorOf returns the pod that the controller of a pod creates next: the pod as it was created, with another name.
// Its name identifies it, and it is not bound to a node.
func SuccessorOf(pod *corev1.Pod, name string) *corev1.Pod {
	successor := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, UID: types.UID(pod.Namespace + "/" + name),
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
		},
		Spec: pod.Spec,
	}
	successor.Spec.NodeName = ""
	successor.Spec.Tolerations = taints.Lasting(pod.Spec.Tolerations)
	successor.Spec.ResourceClaims = nil
	return successor
}

// countsOthers reports whether all pods of the cluster are counted to place the successor.
func (l *leaver) countsOthers() bool {
	affinity := l.successor.Spec.Affinity
	return len(l.successor.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// Labels that distinguish pods of one workload and that no workload selects.
var ordinalLabels = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel}

// equalTo returns the same string for pods that look the same to the scheduler.
func (l *leaver) equalTo() (string, error) {
	return l.keyOf(l.successor.Namespace, selectable(l.successor.Labels), l.only, &l.successor.Spec)
}

// shapedAs returns the same string for pods that look the same to the filters that examine only one node.
func (l *leaver) shapedAs() (string, error) {
	spec := &l.successor.Spec
	shape := corev1.PodSpec{
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Overhead: spec.Overhead, Resources: spec.Resources,
		HostNetwork: spec.HostNetwork, Containers: nameless(spec.Containers), InitContainers: nameless(spec.InitContainers),
	}
	if spec.Affinity != nil {
		shape.Affinity = &corev1.Affinity{NodeAffinity: spec.Affinity.NodeAffinity}
	}
	return l.keyOf(l.only, &shape)
}

func nameless(containers []corev1.Container) []corev1.Container {
	all := slices.Clone(containers)
	for i := range all {
		all[i].Name, all[i].Image = "", ""
	}
	return all
}

func (l *leaver) keyOf(parts ...any) (string, error) {
	var key strings.Builder
	encoder := json.NewEncoder(&key)
	for _, part := range parts {
		if err := encoder.Encode(part); err != nil {
			return "", fmt.Errorf("compare pod %s/%s with others: %w", l.pod.Namespace, l.pod.Name, err)
		}
	}
	return key.String(), nil
}

// register finds equal pods.
type register struct {
	groups map[string]*group
	shapes map[string]*shape
}

// enter finds the group and the shape of a pod.
func (r register) enter(l *leaver) error {
	equal, err := l.equalTo()
	if err != nil {
		return err
	}
	shaped, err := l.shapedAs()
	if err != nil {
		return err
	}
	if r.shapes[shaped] == nil {
		r.shapes[shaped] = &shape{}
	}
	if r.groups[equal] == nil {
		r.groups[equal] = &group{shape: r.shapes[shaped]}
	}
	l.group = r.groups[equal]
	l.group.shape.left++
	return nil
}
