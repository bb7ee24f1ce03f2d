// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloads makes what the random clusters of test/plan and test/simulation consist of. The tests draw what
// chance decides.
package workloads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// Pick draws one of some values.
func Pick[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

// Old is the key of a taint that was added long ago, and that pods tolerate for an hour from when they were bound.
const Old = "old"

// OldTaint returns that taint.
func OldTaint() corev1.Taint {
	return corev1.Taint{
		Key: Old, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(time.Now().Add(-2 * time.Hour))),
	}
}

// Tolerates returns a toleration of a NoExecute taint, for some seconds or without an end.
func Tolerates(key string, seconds *int64) corev1.Toleration {
	return corev1.Toleration{
		Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
	}
}

// Template returns a pod that uses all of its grace period. If it is a Job's, it does not end by itself.
func Template(labels map[string]string, tolerations []corev1.Toleration) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: labels, Annotations: map[string]string{"pod-complete.stage.kwok.x-k8s.io/delay": "1h"},
		},
		Spec: corev1.PodSpec{
			Tolerations: tolerations,
			Containers:  []corev1.Container{{Name: "main", Image: "registry.example/main"}},
		},
	}
	EndsAfter(&template, 1)
	return template
}

// EndsAfter sets the grace period of pods, all of which they use.
func EndsAfter(template *corev1.PodTemplateSpec, seconds int64) {
	template.Spec.TerminationGracePeriodSeconds = &seconds
	template.Annotations["pod-delete.stage.kwok.x-k8s.io/delay"] = fmt.Sprint(seconds, "s")
}

// Fill lets a pod need most of a node. The class is high or low: one of the first preempts one of the second.
func (n Namespace) Fill(spec *corev1.PodSpec, class string) {
	spec.Affinity, spec.TopologySpreadConstraints = nil, nil
	spec.PriorityClassName = n.Name + "-" + class
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900")}
}

// Leaves picks the calls by which pods leave: deletes, and evictions by the Eviction API.
func Leaves(e auditlog.Event) bool {
	return auditlog.Deletes(e) || e.Verb == "create" && e.Resource == "pods/eviction"
}

// Start starts a cluster with Taintkeeper from these sources, and returns clients and the kubeconfig of a person.
func Start(
	ctx context.Context, shared *suite.Suite, config localcluster.Config, nodes []localcluster.NodeSpec, args ...string,
) (cluster *localcluster.Cluster, admin kubernetes.Interface, objects client.Client, kubeconfig string, err error) {
	keeper, err := suite.Build(ctx, shared.Dir, "taintkeeper")
	if err != nil {
		return cluster, admin, objects, kubeconfig, err
	}
	if cluster, admin, err = shared.StartCluster(ctx, config); err != nil {
		return cluster, admin, objects, kubeconfig, err
	}
	if err := errors.Join(cluster.InstallResources(ctx), cluster.AddNodes(ctx, nodes...)); err != nil {
		return cluster, admin, objects, kubeconfig, err
	}
	if objects, err = cluster.Client(); err != nil {
		return cluster, admin, objects, kubeconfig, err
	}
	if kubeconfig, err = cluster.Kubeconfig("person", cluster.AdminConfig()); err != nil {
		return cluster, admin, objects, kubeconfig, err
	}
	ours := localcluster.TaintkeeperConfig{Binary: keeper, Args: args}
	_, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), ours)
	return cluster, admin, objects, kubeconfig, err
}

// Namespace is where a round makes its objects.
type Namespace struct {
	T     testing.TB
	Admin kubernetes.Interface
	Name  string
}

// Bare makes a pod without a controller.
func (n Namespace) Bare(name string, template corev1.PodTemplateSpec) {
	n.T.Helper()
	_, err := n.Admin.CoreV1().Pods(n.Name).Create(n.T.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels, Annotations: template.Annotations},
		Spec:       template.Spec,
	}, metav1.CreateOptions{})
	await.Must(n.T, err)
}

// Classes makes the priority classes of pods that fill nodes, and returns the class for each of as many nodes: one of
// the pods may preempt the others.
func (n Namespace) Classes(nodes int) []string {
	n.T.Helper()
	for name, value := range map[string]int32{"high": 1000, "low": 1} {
		_, err := n.Admin.SchedulingV1().PriorityClasses().Create(n.T.Context(), &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-" + name, Labels: map[string]string{"round": n.Name}}, Value: value,
		}, metav1.CreateOptions{})
		await.Must(n.T, err)
	}
	return append([]string{"high"}, slices.Repeat([]string{"low"}, nodes-1)...)
}

// Volume makes a ReadWriteOnce volume, which one zone has, and its claim.
func (n Namespace) Volume(claim, zone string) corev1.Volume {
	n.T.Helper()
	ctx := n.T.Context()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := n.Admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: n.Name, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
				}}}},
			}},
		},
	}, metav1.CreateOptions{})
	await.Must(n.T, err)
	_, err = n.Admin.CoreV1().PersistentVolumeClaims(n.Name).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: new(""), VolumeName: n.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	await.Must(n.T, err)
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// Quota makes a quota of so many pods, and returns once it counts the pods of now.
func (n Namespace) Quota(pods int) {
	n.T.Helper()
	quotas := n.Admin.CoreV1().ResourceQuotas(n.Name)
	_, err := quotas.Create(n.T.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI),
		}},
	}, metav1.CreateOptions{})
	await.Must(n.T, err)
	await.Eventually(n.T, "the quota counts pods", func(ctx context.Context) error {
		quota, err := quotas.Get(ctx, "pods", metav1.GetOptions{})
		if err == nil && len(quota.Status.Used) == 0 {
			err = errors.New("it counts none")
		}
		return err
	})
}

// Budget makes a PodDisruptionBudget of an app, and returns once its status is as wanted.
func (n Namespace) Budget(
	app string, spec policyv1.PodDisruptionBudgetSpec, wanted func(policyv1.PodDisruptionBudgetStatus) bool,
) {
	n.T.Helper()
	budgets := n.Admin.PolicyV1().PodDisruptionBudgets(n.Name)
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: spec}
	_, err := budgets.Create(n.T.Context(), budget, metav1.CreateOptions{})
	await.Must(n.T, err)
	await.Eventually(n.T, "budget "+app+" knows its pods", func(ctx context.Context) error {
		budget, err := budgets.Get(ctx, app, metav1.GetOptions{})
		if err == nil && (budget.Status.ExpectedPods == 0 || !wanted(budget.Status)) {
			err = fmt.Errorf("%d of %d pods are healthy", budget.Status.CurrentHealthy, budget.Status.ExpectedPods)
		}
		return err
	})
}

// AwaitRunning waits until so many pods run.
func (n Namespace) AwaitRunning(pods int) {
	n.T.Helper()
	await.Eventually(n.T, n.Name+": all pods run", func(ctx context.Context) error {
		all, err := n.Admin.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		var others []string
		for i := range all.Items {
			pod := &all.Items[i]
			if pod.Status.Phase == corev1.PodRunning {
				running++
				continue
			}
			why := []string{string(pod.Status.Phase)}
			for _, c := range pod.Status.Conditions {
				if c.Status == corev1.ConditionFalse {
					why = append(why, c.Message)
				}
			}
			others = append(others, fmt.Sprintf("%s on node %q (%s)", pod.Name, pod.Spec.NodeName, strings.Join(why, ", ")))
		}
		if running != pods {
			return fmt.Errorf("%d of %d do; %s", running, pods, strings.Join(others, "; "))
		}
		return nil
	})
}

// Clear removes all that a round may have made, but for what is not in the namespace: its nodes and EvictionPolicies.
func (n Namespace) Clear(objects client.Client) {
	n.T.Helper()
	ctx := n.T.Context()
	for _, kind := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{}, &policyv1.PodDisruptionBudget{},
	} {
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		await.Must(n.T, objects.DeleteAllOf(ctx, kind, client.InNamespace(n.Name), background))
	}
	await.Must(n.T, n.Admin.CoreV1().PersistentVolumes().Delete(ctx, n.Name, metav1.DeleteOptions{}))
	await.Must(n.T, objects.DeleteAllOf(ctx, &schedulingv1.PriorityClass{}, client.MatchingLabels{"round": n.Name}))
	await.Eventually(n.T, "all pods are gone", func(ctx context.Context) error {
		err := n.Admin.CoreV1().Pods(n.Name).DeleteCollection(ctx, scene.AtOnce(), metav1.ListOptions{})
		pods, listed := n.Admin.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{})
		if err = errors.Join(err, listed); err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
}
