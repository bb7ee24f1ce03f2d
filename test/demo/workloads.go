// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// namespace is where the pods of the playground live.
const namespace = "demo"

// The nodes that hints name.
const west1, north1, north2 = "west-1", "north-1", "north-2"

var fleet = []localcluster.NodeSpec{
	{Name: "east-1", Zone: "east"}, {Name: "east-2", Zone: "east"},
	{Name: west1, Zone: "west"}, {Name: "west-2", Zone: "west"},
	{Name: north1, Zone: "north"}, {Name: north2, Zone: "north"},
}

// webs is how many pods the Deployment has. The others have one for each node.
const webs = 12

// podCount is the number of pods of all workloads.
func podCount() int { return webs + 2*len(fleet) + len(barePods()) }

// workloads returns everything that runs in the playground.
func workloads() []client.Object {
	all := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		deployment("web", webs, scene.Tolerating("maintenance", 5), scene.Tolerating("heat", 2)),
		statefulSet("db", len(fleet), scene.Tolerating("maintenance", 6)),
		daemonSet("agent", agent),
	}
	for _, pod := range barePods() {
		all = append(all, pod)
	}
	return all
}

// barePods have no controller, so each leaves once.
func barePods() []*corev1.Pod {
	return []*corev1.Pod{
		barePod("fragile", west1),
		barePod("hasty", west1, scene.Tolerating("maintenance", 2)),
		barePod("settled", west1, scene.Indefinitely("maintenance")),
		barePod("nimble", north1, scene.Tolerating(unreachable, 1)),
		barePod("loyal", north2, scene.Indefinitely(unreachable)),
	}
}

func deployment(name string, replicas int, edits ...scenario.Edit) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metaOf(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: selectorOf(name),
			Template: spreadTemplate(name, edits),
		},
	}
}

func statefulSet(name string, replicas int, edits ...scenario.Edit) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metaOf(name),
		Spec: appsv1.StatefulSetSpec{
			ServiceName:         name,
			Replicas:            new(int32(replicas)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            selectorOf(name),
			Template:            spreadTemplate(name, edits),
		},
	}
}

func daemonSet(name string, edits ...scenario.Edit) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metaOf(name),
		Spec:       appsv1.DaemonSetSpec{Selector: selectorOf(name), Template: templateOf(name, edits)},
	}
}

func barePod(name, node string, edits ...scenario.Edit) *corev1.Pod {
	template := templateOf(name, edits)
	pod := &corev1.Pod{ObjectMeta: metaOf(name), Spec: template.Spec}
	pod.Labels = labelsOf(name)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

func labelsOf(name string) map[string]string { return map[string]string{"app": name} }

func selectorOf(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labelsOf(name)}
}

// templateOf makes pods that kwok plays: the image is never pulled.
func templateOf(name string, edits []scenario.Edit) corev1.PodTemplateSpec {
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause"}}}}
	for _, edit := range edits {
		edit(&pod)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(name)}, Spec: pod.Spec}
}

// spreadTemplate makes pods that are spread evenly over the nodes, so that every node has some of them.
func spreadTemplate(name string, edits []scenario.Edit) corev1.PodTemplateSpec {
	template := templateOf(name, edits)
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew:           1,
		TopologyKey:       corev1.LabelHostname,
		WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector:     selectorOf(name),
		NodeTaintsPolicy:  new(corev1.NodeInclusionPolicyHonor),
	}}
	return template
}
