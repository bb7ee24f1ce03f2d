// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	taintKey = "bench.taintkeeper.dev/maintenance"
	// creators is how many objects are created at the same time.
	creators = 64
	// namespaceCount is the number of namespaces over which pods are spread, so that they are removed in parallel.
	namespaceCount = 10
)

func namespace(i int) string { return fmt.Sprintf("team-%02d", i%namespaceCount) }

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func nodeNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = nodeName(i)
	}
	return names
}

func (b *bench) createNamespaces(ctx context.Context) error {
	for i := range namespaceCount {
		if err := b.createNamespace(ctx, namespace(i)); err != nil {
			return err
		}
	}
	return errors.Join(b.createNamespace(ctx, canaryNamespace), b.createNamespace(ctx, slimNamespace))
}

func (b *bench) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := b.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return err
}

// createNodes creates nodes that kwok does not play. They are ready because nothing says otherwise.
func (b *bench) createNodes(ctx context.Context, names []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, name := range names {
		group.Go(func() error {
			_, err := b.admin.CoreV1().Nodes().Create(ctx, node(name), metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create node %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// ensureNodes creates nodes until there are that many.
func (b *bench) ensureNodes(ctx context.Context, count int) error {
	missing := nodeNames(count)[min(b.created, count):]
	b.created = max(b.created, count)
	return b.createNodes(ctx, missing)
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		}}},
	}
}

// taint sets the taint on a node as kubectl does, that is, without a timeAdded.
func (b *bench) taint(ctx context.Context, node string) error {
	return b.patchNode(ctx, node, `{"spec":{"taints":[{"key":"`+taintKey+`","effect":"NoExecute"}]}}`)
}

func (b *bench) untaintAll(ctx context.Context, nodes []string) error {
	for _, node := range nodes {
		if err := b.patchNode(ctx, node, `{"spec":{"taints":null}}`); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) patchNode(ctx context.Context, node, patch string) error {
	nodes := b.admin.CoreV1().Nodes()
	_, err := nodes.Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change the taints of node %s: %w", node, err)
	}
	return nil
}

// createPods creates pods in parallel and returns them as the API server has them.
func (b *bench) createPods(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	created := make([]*corev1.Pod, len(pods))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, pod := range pods {
		group.Go(func() error {
			var err error
			created[i], err = b.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	return created, group.Wait()
}

// removePods removes all pods for good, terminating or not, and waits until they are gone.
func (b *bench) removePods(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range namespaceCount {
		group.Go(func() error { return b.removePodsIn(ctx, namespace(i)) })
	}
	group.Go(func() error { return b.removePodsIn(ctx, canaryNamespace) })
	return group.Wait()
}

func (b *bench) removePodsIn(ctx context.Context, namespace string) error {
	pods := b.admin.CoreV1().Pods(namespace)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	removed := func(ctx context.Context) (bool, error) {
		if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return false, fmt.Errorf("remove the pods in namespace %s: %w", namespace, err)
		}
		left, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, fmt.Errorf("list the pods in namespace %s: %w", namespace, err)
		}
		return len(left.Items) == 0, nil
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Minute, true, removed)
}

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
