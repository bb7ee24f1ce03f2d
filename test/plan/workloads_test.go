// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// apps is how many workloads a round has: Deployments, then StatefulSets, then Jobs of one pod.
const (
	apps             = 8
	firstStatefulSet = 4
	firstJob         = 6
)

func appName(i int) string { return fmt.Sprintf("app-%d", i) }

// anchor is the workload that pods with affinity need. It tolerates everything: a pod that leaves would attract others
// until it is gone, which takes a moment that no plan knows.
const anchor = 0

// isPlain reports whether a workload tolerates nothing and no policy selects it, so that all its pods that leave do so
// at once.
func isPlain(i int) bool { return i == 1 || i == 2 || i == 4 }

// populate makes workloads, and returns once all their pods run.
func (r *round) populate() {
	ctx := r.T.Context()
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}, metav1.CreateOptions{})
	r.must(err)
	replicas := 0
	for i := range apps {
		n := 1 + r.random.IntN(5)
		if i == claiming {
			n = 1
		}
		labels := map[string]string{"app": appName(i), "half": strconv.Itoa(i % 2), "kept": strconv.FormatBool(!isPlain(i))}
		template := r.template(i, labels)
		switch {
		case i >= firstJob:
			n = 1
			r.must(r.job(i, template))
		case i >= firstStatefulSet:
			r.must(r.statefulSet(i, int32(n), labels, template))
		default:
			r.must(r.deployment(i, int32(n), labels, template))
		}
		replicas += n
	}
	replicas += r.bare()
	if r.filled = !r.first && r.random.IntN(2) == 0; r.filled {
		replicas += r.fill()
	}
	r.AwaitRunning(replicas)
	if r.hangs = r.random.IntN(2) == 0; r.hangs {
		r.hangRollout()
		replicas++
		r.AwaitRunning(replicas)
		r.markUnready()
	}
	if r.random.IntN(2) == 0 {
		r.Quota(replicas + workloads.Pick(r.random, 0, 3))
	}
}

func (r *round) template(i int, labels map[string]string) corev1.PodTemplateSpec {
	template := workloads.Template(labels, r.tolerations())
	if i == claiming {
		template.Spec.Volumes = []corev1.Volume{r.Volume("data", workloads.Pick(r.random, "a", "b", "c"))}
	}
	switch {
	case i == anchor:
		template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		return template
	case isPlain(i):
		template.Spec.Tolerations = nil
	}
	template.Spec.Tolerations = append(template.Spec.Tolerations, toleratesOld)
	if i >= firstStatefulSet && r.random.IntN(2) == 0 {
		workloads.EndsAfter(&template, 3)
	}
	r.constrain(&template.Spec, labels)
	return template
}

// constrain draws where pods may be: half of the workloads are spread by default. A pod with a volume need not be near
// the anchor, which may be in other zones than the volume.
func (r *round) constrain(spec *corev1.PodSpec, labels map[string]string) {
	own := &metav1.LabelSelector{MatchLabels: labels}
	term := func(app, topology string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: topology,
		}}
	}
	spread := func(action corev1.UnsatisfiableConstraintAction) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: action, LabelSelector: own,
			NodeTaintsPolicy: new(workloads.Pick(r.random, corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor)),
		}}
	}
	switch r.random.IntN(8) {
	case 0:
		spread(corev1.DoNotSchedule)
		r.strict[labels["app"]] = true
	case 1:
		spread(corev1.ScheduleAnyway)
	case 2:
		if labels["app"] == appName(claiming) {
			return
		}
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(appName(anchor), corev1.LabelTopologyZone),
		}}
	case 3:
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(labels["app"], corev1.LabelHostname),
		}}
	}
}

func (r *round) deployment(i int, replicas int32, labels map[string]string, template corev1.PodTemplateSpec) error {
	_, err := admin.AppsV1().Deployments(r.Name).Create(r.T.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: appName(i)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0)),
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

func (r *round) statefulSet(i int, replicas int32, labels map[string]string, template corev1.PodTemplateSpec) error {
	_, err := admin.AppsV1().StatefulSets(r.Name).Create(r.T.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: appName(i)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			PodManagementPolicy: workloads.Pick(r.random, appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement),
		},
	}, metav1.CreateOptions{})
	return err
}

// job makes a Job whose pod does not end, and that fails or not when its pod is evicted.
func (r *round) job(i int, template corev1.PodTemplateSpec) error {
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := admin.BatchV1().Jobs(r.Name).Create(r.T.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: appName(i)},
		Spec:       batchv1.JobSpec{BackoffLimit: new(workloads.Pick(r.random, int32(0), 100)), Template: template},
	}, metav1.CreateOptions{})
	return err
}

// clear removes the taints, what objects, and the pods.
func (r *round) clear() {
	r.untaint()
	r.must(objects.DeleteAllOf(r.T.Context(), &v1alpha1.EvictionPolicy{}))
	r.Clear(objects)
}
