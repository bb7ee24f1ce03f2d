// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// makeWorkloads makes workloads and PodDisruptionBudgets, and returns once all pods run.
func (r *round) makeWorkloads() {
	ctx := r.T.Context()
	for i := range 4 {
		_, err := admin.AppsV1().Deployments(r.Name).Create(ctx, r.drawDeployment(fmt.Sprint("web-", i)), metav1.CreateOptions{})
		r.must(err)
	}
	for i := range 2 {
		_, err := admin.AppsV1().StatefulSets(r.Name).Create(ctx, r.drawStatefulSet(fmt.Sprint("db-", i)), metav1.CreateOptions{})
		r.must(err)
	}
	for i := range 2 {
		_, err := admin.BatchV1().Jobs(r.Name).Create(ctx, r.drawJob(fmt.Sprint("batch-", i)), metav1.CreateOptions{})
		r.must(err)
	}
	_, err := admin.AppsV1().DaemonSets(r.Name).Create(ctx, r.drawDaemonSet("agent"), metav1.CreateOptions{})
	r.must(err)
	r.makeBarePods()
	_, err = admin.AppsV1().Deployments(r.Name).Create(ctx, r.drawClaiming("disk"), metav1.CreateOptions{})
	r.must(err)
	if r.index%6 == 4 {
		r.fill()
	}
	r.AwaitRunning(r.replicas)
	for _, app := range []string{"web-0", "web-1", "web-2", "db-0"} { // web-3 and db-1 have none
		r.makeBudget(app)
	}
}

// makeBudget makes a budget of a workload, and returns once it knows its pods.
func (r *round) makeBudget(app string) {
	var spec policyv1.PodDisruptionBudgetSpec
	number := workloads.Pick(r.random, intstr.FromInt32(1), intstr.FromString("50%"))
	if r.random.IntN(2) == 0 {
		spec.MinAvailable = &number
	} else {
		spec.MaxUnavailable = &number
	}
	r.Budget(app, spec, func(is policyv1.PodDisruptionBudgetStatus) bool { return is.CurrentHealthy == is.ExpectedPods })
}

// keys of taints that steps set.
var keys = []string{"power", "maintenance"}

// drawTolerations draws how long pods stay on nodes that are silent, and on tainted ones.
func (r *round) drawTolerations() (all []corev1.Toleration) {
	seconds := workloads.Pick(r.random, 0, tolerated, 3600)
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		all = append(all, workloads.Tolerates(key, new(int64(seconds))))
	}
	all = append(all, workloads.Tolerates(workloads.Old, new(int64(3600))))
	for _, key := range keys {
		switch r.random.IntN(4) {
		case 0:
			all = append(all, workloads.Tolerates(key, nil))
		case 1:
			all = append(all, workloads.Tolerates(key, new(int64(tolerated))))
		}
	}
	return all
}

// drawTemplate draws the pods of a workload. Those of some must be spread over the zones, and the scheduler's default
// spreads the others.
func (r *round) drawTemplate(name string) corev1.PodTemplateSpec {
	var spread []corev1.TopologySpreadConstraint
	if r.random.IntN(3) == 0 {
		spread = []corev1.TopologySpreadConstraint{{
			TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		}}
	}
	template := workloads.Template(map[string]string{"app": name}, r.drawTolerations())
	template.Spec.TopologySpreadConstraints = spread
	return template
}

func (r *round) drawDeployment(name string) *appsv1.Deployment {
	template := r.drawTemplate(name)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: new(r.drawReplicas()), Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
	}}
}

func (r *round) drawStatefulSet(name string) *appsv1.StatefulSet {
	template := r.drawTemplate(name)
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(r.drawReplicas()), Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
		PodManagementPolicy: workloads.Pick(r.random, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement),
	}}
}

// drawJob draws a Job whose pods do not end. If they leave, it fails or makes others.
func (r *round) drawJob(name string) *batchv1.Job {
	template := r.drawTemplate(name)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Parallelism: new(r.drawReplicas()), BackoffLimit: new(workloads.Pick(r.random, int32(0), 1, 100)), Template: template,
	}}
}

// drawDaemonSet draws a DaemonSet. Its pods tolerate everything where a policy counts pods: its controller deletes others
// at the same time as Taintkeeper, and makes them again on the same nodes.
func (r *round) drawDaemonSet(name string) *appsv1.DaemonSet {
	template := r.drawTemplate(name)
	template.Spec.TopologySpreadConstraints = nil
	if r.counts() {
		template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	r.replicas += len(r.nodes)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
	}}
}

func (r *round) drawReplicas() int32 {
	n := 1 + r.random.IntN(4)
	r.replicas += n
	return int32(n)
}

// drawPolicy draws an EvictionPolicy, or none. The first rounds of a run have one of each action.
func (r *round) drawPolicy() *v1alpha1.EvictionPolicy {
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	spec := &policy.Spec
	spec.Action = v1alpha1.ActionDelete
	switch r.index % 6 {
	case 0:
		spec.Action = v1alpha1.ActionEvict
		spec.Deadline = workloads.Pick(r.random, nil, &metav1.Duration{Duration: tolerated * time.Second})
	case 1:
		return nil
	case 2:
		spec.Action = v1alpha1.ActionHold
		spec.Deadline = workloads.Pick(r.random, nil, &metav1.Duration{Duration: 2 * time.Second}, &metav1.Duration{Duration: tolerated * time.Second})
	case 3:
		spec.Pace = &v1alpha1.EvictionPace{
			Pods: int32(1 + r.random.IntN(3)), Per: metav1.Duration{Duration: 2 * time.Second},
			Scope: workloads.Pick(r.random, v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster),
		}
	case 4:
		return nil
	case 5:
		spec.Breaker = &v1alpha1.EvictionBreaker{
			MaxDue: workloads.Pick(r.random, intstr.FromInt32(3), intstr.FromString("20%"), intstr.FromString("80%")),
			Settle: &metav1.Duration{Duration: 5 * time.Second},
		}
	}
	return policy
}

// counts reports whether the policy counts pods that are due, or that leave.
func (r *round) counts() bool {
	return r.policy != nil && (r.policy.Spec.Pace != nil || r.policy.Spec.Breaker != nil)
}

// inTurn reports whether pods of the policy wait for others, so that which goes first is luck.
func (r *round) inTurn() bool {
	return r.policy != nil && (r.policy.Spec.Pace != nil || r.policy.Spec.Action == v1alpha1.ActionEvict)
}
