// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// old is the key of a taint that was added long ago, and that pods tolerate for an hour from when they were bound.
const old = "old"

// taintLongAgo sets that taint on one node.
func (r *round) taintLongAgo() {
	node := r.nodes[r.random.IntN(len(r.nodes))].Name
	_, err := scene.Taint(r.t.Context(), admin, node, corev1.Taint{
		Key: old, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(time.Now().Add(-2 * time.Hour))),
	})
	r.must(err)
}

// makeBarePods makes up to two pods without a controller.
func (r *round) makeBarePods() {
	for i := range r.random.IntN(3) {
		name := fmt.Sprint("bare-", i)
		template := r.drawTemplate(name)
		_, err := admin.CoreV1().Pods(r.namespace).Create(r.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}, metav1.CreateOptions{})
		r.must(err)
		r.replicas++
	}
}

// fill makes a pod for each node that needs most of it. The first has a high priority, so it preempts another when it
// loses its node.
func (r *round) fill() {
	ctx := r.t.Context()
	for name, value := range map[string]int32{"high": 1000, "low": 1} {
		_, err := admin.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-" + name, Labels: map[string]string{"round": r.namespace}}, Value: value,
		}, metav1.CreateOptions{})
		r.must(err)
	}
	for i, class := range append([]string{"high"}, slices.Repeat([]string{"low"}, len(r.nodes)-1)...) {
		deployment := r.drawDeployment(fmt.Sprint(filling, i))
		r.replicas += 1 - int(*deployment.Spec.Replicas)
		deployment.Spec.Replicas = new(int32(1))
		pod := &deployment.Spec.Template.Spec
		pod.TopologySpreadConstraints, pod.PriorityClassName = nil, r.namespace+"-"+class
		pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900")}
		_, err := admin.AppsV1().Deployments(r.namespace).Create(ctx, deployment, metav1.CreateOptions{})
		r.must(err)
	}
	r.filled = true
}

// filling is how names of pods begin that need most of a node.
const filling = "fill-"

// drawClaiming draws a Deployment of one pod, and makes its ReadWriteOnce volume, which one zone has.
func (r *round) drawClaiming(name string) *appsv1.Deployment {
	ctx := r.t.Context()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	zone := r.nodes[r.random.IntN(len(r.nodes))].Zone
	_, err := admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: r.namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
				}},
			}}}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	_, err = admin.CoreV1().PersistentVolumeClaims(r.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: new(""), VolumeName: r.namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	template := r.drawTemplate(name)
	template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	r.replicas++
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
	}}
}

// limit makes a quota of the pods that there are in half of the rounds in which no node falls silent: of pods that hang
// on such nodes, it is luck when the API server counts them no more.
func (r *round) limit() {
	silent := slices.ContainsFunc(r.steps, func(step cliv1alpha1.SimulationStep) bool { return step.Silent != nil })
	if silent || r.random.IntN(2) == 0 {
		return
	}
	quotas := admin.CoreV1().ResourceQuotas(r.namespace)
	_, err := quotas.Create(r.t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: *resource.NewQuantity(int64(r.replicas), resource.DecimalSI),
		}},
	}, metav1.CreateOptions{})
	r.must(err)
	await.Eventually(r.t, "the quota counts pods", func(ctx context.Context) error {
		quota, err := quotas.Get(ctx, "pods", metav1.GetOptions{})
		if err == nil && len(quota.Status.Used) == 0 {
			err = errors.New("it counts none")
		}
		return err
	})
}
