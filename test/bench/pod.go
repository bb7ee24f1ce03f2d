// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// partLabel marks the pods of the part that runs, and not the canaries.
const partLabel = "bench.taintkeeper.dev/part"

// productionPod makes a pod as big as pods in production: with an application, a sidecar, and what deployment tools
// add. It is bound to a node from the beginning.
func productionPod(part string, i int, node string) *corev1.Pod {
	name := fmt.Sprintf("%s-%05d", part, i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Namespace:   namespace(i),
			Labels:      podLabels(part, name),
			Annotations: podAnnotations(name),
		},
		Spec: corev1.PodSpec{
			NodeName:           node,
			ServiceAccountName: "shop",
			Containers:         []corev1.Container{container("application", 8080), container("sidecar", 15090)},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"}}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-tls"}}},
			},
		},
	}
}

func podLabels(part, name string) map[string]string {
	return map[string]string{
		partLabel:                      part,
		"app.kubernetes.io/name":       "shop",
		"app.kubernetes.io/instance":   name,
		"app.kubernetes.io/version":    "2026.11.3",
		"app.kubernetes.io/component":  "checkout",
		"app.kubernetes.io/part-of":    "storefront",
		"app.kubernetes.io/managed-by": "Helm",
		"helm.sh/chart":                "shop-4.17.0",
		"team":                         "payments",
		"pod-template-hash":            "7d9f8c6b54",
	}
}

func podAnnotations(name string) map[string]string {
	return map[string]string{
		"checksum/config":       strings.Repeat("5d41402abc4b2a76", 4),
		"checksum/secret":       strings.Repeat("7d793037a0760186", 4),
		"prometheus.io/scrape":  "true",
		"prometheus.io/port":    "15090",
		"example.com/git-sha":   "0a4d55a8d778e5022fab701977c5d840bbc486d0",
		"example.com/mesh-info": `{"containers":["application","sidecar"],"volumes":["config","cache","tls"],"revision":"1-27","workload":"` + name + `","ports":[8080,15090]}`,
	}
}

func container(name string, port int32) corev1.Container {
	return corev1.Container{
		Name:  name,
		Image: "registry.example.com/storefront/" + name + "@sha256:" + strings.Repeat("9f86d081884c7d65", 4),
		Args:  []string{"--config=/etc/shop/config.yaml", "--listen=:" + fmt.Sprint(port), "--log-format=json"},
		Ports: []corev1.ContainerPort{
			{Name: name[:4] + "-http", ContainerPort: port}, {Name: name[:4] + "-metrics", ContainerPort: port + 1},
		},
		Env: environment(name),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		ReadinessProbe: probe("/ready", port),
		LivenessProbe:  probe("/live", port),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/shop", ReadOnly: true},
			{Name: "cache", MountPath: "/var/cache/shop"},
			{Name: "tls", MountPath: "/etc/shop/tls", ReadOnly: true},
		},
	}
}

// environment returns a dozen variables: ten values, and two references.
func environment(name string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for i := range 10 {
		env = append(env, corev1.EnvVar{
			Name:  fmt.Sprintf("%s_SETTING_%02d", strings.ToUpper(name), i),
			Value: fmt.Sprintf("https://service-%02d.storefront.svc.cluster.local:8443/api/v1", i),
		})
	}
	return append(env,
		corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shop-database"}, Key: "password",
		}}},
	)
}

func probe(path string, port int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}},
		PeriodSeconds: 10,
	}
}
