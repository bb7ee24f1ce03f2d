// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// namespace is where the pods of the demo live.
const namespace = "demo"

// The nodes on which the acts are played, and the two others.
const (
	east1, east2   = "east-1", "east-2"
	west1, west2   = "west-1", "west-2"
	north1, north2 = "north-1", "north-2"
)

// probeZone is the only zone in which the DaemonSet probe runs, which does not tolerate the taint of the first act: the
// DaemonSet controller removes such pods by itself, and the demo could not tell who did.
const probeZone = "west"

var nodes = []localcluster.NodeSpec{
	{Name: east1, Zone: "east"}, {Name: east2, Zone: "east"},
	{Name: west1, Zone: "west"}, {Name: west2, Zone: "west"},
	{Name: north1, Zone: "north"}, {Name: north2, Zone: "north"},
}

// The keys of the taints.
const (
	power       = "power"
	maintenance = "maintenance"
	heat        = "heat"
	unreached   = corev1.TaintNodeUnreachable // taintkeeper sets it
)

// lasting are the workloads whose controllers replace a pod that left, with the number of their pods.
var lasting = map[string]int{"web": 12, "db": len(nodes), "agent": len(nodes), "probe": 2}

// workloads returns everything that runs in the demo.
func workloads() []client.Object {
	all := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		deployment("web", 12, forSeconds(maintenance, 5), forSeconds(heat, 2)),
		statefulSet("db", len(nodes), forSeconds(maintenance, 6)),
		daemonSet("agent", nil, corev1.Toleration{Operator: corev1.TolerationOpExists}),
		daemonSet("probe", map[string]string{corev1.LabelTopologyZone: probeZone}, forSeconds(maintenance, 3), unscheduled(maintenance)),
	}
	for _, pod := range barePods() {
		all = append(all, pod)
	}
	return all
}

// barePods have no controller, so each plays in one act only, on the node of that act.
func barePods() []*corev1.Pod {
	return []*corev1.Pod{
		barePod("plain", east1),
		barePod("careful", east1, forEver(maintenance)),

		barePod("fragile", west1),
		barePod("hasty", west1, forSeconds(maintenance, 2)),
		barePod("shadowed", west1, forSeconds(maintenance, 4), forEver(maintenance)),
		barePod("settled", west1, forEver(maintenance)),

		barePod("heat-shy", north1, forEver(maintenance), forSeconds(heat, 1)),
		barePod("steady", north1, forEver(maintenance), forEver(heat)),

		barePod("nimble", north1, forEver(maintenance), forEver(heat), forSeconds(unreached, 1)),
		barePod("loyal", north2, forEver(unreached)),

		barePod("brisk", east2, forSeconds(maintenance, 3)),
		barePod("calm", east2, forSeconds(maintenance, 4)),
	}
}

func forSeconds(key string, seconds int64) corev1.Toleration {
	toleration := forEver(key)
	toleration.TolerationSeconds = &seconds
	return toleration
}

func forEver(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

// unscheduled tolerates the part of a taint that keeps new pods away, so that replacements come to the tainted node.
func unscheduled(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}

func deployment(name string, replicas int, tolerations ...corev1.Toleration) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metaOf(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: selectorOf(name),
			Template: spreadTemplate(name, tolerations),
		},
	}
}

func statefulSet(name string, replicas int, tolerations ...corev1.Toleration) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metaOf(name),
		Spec: appsv1.StatefulSetSpec{
			ServiceName:         name,
			Replicas:            new(int32(replicas)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            selectorOf(name),
			Template:            spreadTemplate(name, tolerations),
		},
	}
}

func daemonSet(name string, nodeSelector map[string]string, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
	template := templateOf(name, tolerations)
	template.Spec.NodeSelector = nodeSelector
	return &appsv1.DaemonSet{
		ObjectMeta: metaOf(name),
		Spec:       appsv1.DaemonSetSpec{Selector: selectorOf(name), Template: template},
	}
}

func barePod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metaOf(name), Spec: podSpec(tolerations)}
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

func templateOf(name string, tolerations []corev1.Toleration) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(name)}, Spec: podSpec(tolerations)}
}

// spreadTemplate makes pods that are spread evenly over the nodes, so that every act has some of them.
func spreadTemplate(name string, tolerations []corev1.Toleration) corev1.PodTemplateSpec {
	template := templateOf(name, tolerations)
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew:           1,
		TopologyKey:       corev1.LabelHostname,
		WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector:     selectorOf(name),
		NodeTaintsPolicy:  new(corev1.NodeInclusionPolicyHonor),
	}}
	return template
}

func podSpec(tolerations []corev1.Toleration) corev1.PodSpec {
	return corev1.PodSpec{
		Tolerations: tolerations,
		// kwok plays the pods: the image is never pulled.
		Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause"}},
	}
}
