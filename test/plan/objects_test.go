// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	// claiming is a Deployment of one pod with a ReadWriteOnce volume.
	claiming = 3
	// hung is a Deployment whose rollout may hang.
	hung = 1
)

// bare makes pods without a controller, and returns how many.
func (r *round) bare() int {
	n := r.random.IntN(3)
	for i := range n {
		labels := map[string]string{"app": "bare", "half": fmt.Sprint(i), "kept": "true"}
		template := r.template(apps, labels)
		_, err := admin.CoreV1().Pods(r.namespace).Create(r.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bare-", i), Labels: labels, Annotations: template.Annotations}, Spec: template.Spec,
		}, metav1.CreateOptions{})
		r.must(err)
	}
	return n
}

// endsAfter lets pods use all of their grace period.
func endsAfter(template *corev1.PodTemplateSpec, seconds int64) {
	template.Spec.TerminationGracePeriodSeconds = &seconds
	template.Annotations["pod-delete.stage.kwok.x-k8s.io/delay"] = fmt.Sprint(seconds, "s")
}

// volume makes a volume with its claim, which some zone has.
func (r *round) volume() corev1.Volume {
	ctx := r.t.Context()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: r.namespace, Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(r.random, "a", "b", "c")},
				}},
			}}}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	_, err = admin.CoreV1().PersistentVolumeClaims(r.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: new(""), VolumeName: r.namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	r.must(err)
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}
}

// hangRollout changes the template of a Deployment, whose new pod is never available.
func (r *round) hangRollout() {
	_, err := admin.AppsV1().Deployments(r.namespace).Patch(r.t.Context(), appName(hung), types.StrategicMergePatchType,
		[]byte(`{"spec":{"minReadySeconds":3600,"progressDeadlineSeconds":7200,"template":{"metadata":{"labels":{"rollout":"new"}}}}}`), metav1.PatchOptions{})
	r.must(err)
}

// markUnready says that the pods of the rollout are not ready, which kwok does not.
func (r *round) markUnready() {
	pods, err := admin.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: "rollout=new"})
	r.must(err)
	for i := range pods.Items {
		_, err := admin.CoreV1().Pods(r.namespace).Patch(r.t.Context(), pods.Items[i].Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
		r.must(err)
	}
}

// limit makes a quota of so many pods, and returns once it counts the pods of now.
func (r *round) limit(pods int) {
	quotas := admin.CoreV1().ResourceQuotas(r.namespace)
	_, err := quotas.Create(r.t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI)}},
	}, metav1.CreateOptions{})
	r.must(err)
	r.await("the quota counts pods", func(ctx context.Context) (bool, error) {
		quota, err := quotas.Get(ctx, "pods", metav1.GetOptions{})
		return err == nil && len(quota.Status.Used) > 0, nil
	})
}

// old is the key of a taint that was added long ago, and that pods tolerate for an hour from when they were bound.
const old = "old"

var tolerationOfOld = corev1.Toleration{
	Key: old, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3600)),
}

// prepare sets taints before the plan is made: that one on some of its nodes, and one that keeps successors from those
// that they may have to leave again.
func (r *round) prepare() {
	for _, name := range r.nodes {
		var set []corev1.Taint
		if r.random.IntN(4) == 0 {
			set = append(set, corev1.Taint{
				Key: old, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(time.Now().Add(-2 * time.Hour))),
			})
		}
		if r.counted || len(set) > 0 {
			set = append(set, corev1.Taint{Key: closed, Effect: corev1.TaintEffectNoSchedule})
			_, err := scene.Taint(r.t.Context(), admin, name, set...)
			r.must(err)
		}
	}
}

// fill makes a pod of high priority that needs most of a node, and pods of low priority that fill the others. They
// tolerate nothing: if some left later than others, or came back to nodes with taints, it would be luck who is preempted.
func (r *round) fill() int {
	ctx := r.t.Context()
	for name, value := range map[string]int32{"high": 1000, "low": 1} {
		_, err := admin.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-" + name}, Value: value,
		}, metav1.CreateOptions{})
		r.must(err)
	}
	for i, class := range append([]string{"high"}, slices.Repeat([]string{"low"}, len(nodes())-1)...) {
		labels := map[string]string{"app": appName(apps + i), "half": "0", "kept": "false"}
		template := r.template(apps, labels)
		template.Spec.Affinity, template.Spec.TopologySpreadConstraints = nil, nil
		template.Spec.Tolerations = []corev1.Toleration{tolerationOfOld}
		template.Spec.PriorityClassName = r.namespace + "-" + class
		template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900")}
		r.must(r.deployment(apps+i, 1, labels, template))
	}
	return len(nodes())
}
