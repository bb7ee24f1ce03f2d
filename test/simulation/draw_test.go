// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

const (
	// apart is the time between two steps. Together with [tolerated] it keeps removals of taints away from evictions.
	apart = 4 * time.Second
	// tolerated is for how many seconds pods tolerate that leave later.
	tolerated = 8
	// until is when a simulation ends: the last step, a silence, a turn and a toleration later.
	until = 30 * time.Second
)

func pick[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

// drawNodes draws two or three zones with up to three nodes, and names them after the round.
func (r *round) drawNodes() {
	for _, zone := range []string{"a", "b", "c"}[:2+r.random.IntN(2)] {
		for i := range 1 + r.random.IntN(3) {
			r.nodes = append(r.nodes, localcluster.NodeSpec{Name: fmt.Sprintf("%s-%s%d", r.namespace, zone, i), Zone: zone})
		}
	}
}

// keys are those of taints that steps set.
var keys = []string{"power", "maintenance"}

// drawTolerations draws how long pods stay on nodes that are silent, and on tainted ones.
func (r *round) drawTolerations() (all []corev1.Toleration) {
	seconds := pick(r.random, 0, tolerated, 3600)
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		all = append(all, tolerates(key, new(int64(seconds))))
	}
	for _, key := range keys {
		switch r.random.IntN(4) {
		case 0:
			all = append(all, tolerates(key, nil))
		case 1:
			all = append(all, tolerates(key, new(int64(tolerated))))
		}
	}
	return all
}

func tolerates(key string, seconds *int64) corev1.Toleration {
	return corev1.Toleration{
		Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
	}
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
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			Tolerations:                   r.drawTolerations(),
			TopologySpreadConstraints:     spread,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/main"}},
		},
	}
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
		PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}

func (r *round) drawReplicas() int32 {
	n := 1 + r.random.IntN(4)
	r.replicas += n
	return int32(n)
}

// drawPolicy draws an EvictionPolicy, or none.
func (r *round) drawPolicy() *v1alpha1.EvictionPolicy {
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	policy.Spec.Action = v1alpha1.ActionDelete
	switch r.random.IntN(5) {
	case 0:
		policy.Spec.Action = v1alpha1.ActionHold
		policy.Spec.Deadline = &metav1.Duration{Duration: pick(r.random, 2*time.Second, tolerated*time.Second)}
	case 1:
		policy.Spec.Pace = &v1alpha1.EvictionPace{
			Pods: int32(1 + r.random.IntN(3)), Per: metav1.Duration{Duration: 2 * time.Second},
			Scope: pick(r.random, v1alpha1.ScopeNode, v1alpha1.ScopeZone, v1alpha1.ScopeCluster),
		}
	case 2:
		policy.Spec.Breaker = &v1alpha1.EvictionBreaker{
			MaxDue: pick(r.random, intstr.FromInt32(3), intstr.FromString("20%"), intstr.FromString("80%")),
			Settle: &metav1.Duration{Duration: 5 * time.Second},
		}
	default:
		return nil
	}
	return policy
}

// drawSteps draws two to four steps. Each is possible when it comes: silent nodes come back, and taints that are set
// are removed.
func (r *round) drawSteps() (steps []cliv1alpha1.SimulationStep) {
	silent, tainted := map[string]bool{}, map[string][]string{}
	for i := range 2 + r.random.IntN(3) {
		step := cliv1alpha1.SimulationStep{At: metav1.Duration{Duration: time.Second + time.Duration(i)*apart}}
		switch kind := r.random.IntN(3); {
		case kind == 0 && len(silent) > 0:
			step.Back = &cliv1alpha1.SimulationNodes{Nodes: r.some(silent)}
			for _, name := range step.Back.Nodes {
				delete(silent, name)
			}
		case kind == 1:
			step.Taint = r.drawTaint(tainted)
		default:
			step.Silent = &cliv1alpha1.SimulationNodes{Nodes: r.drawSilence(silent)}
			for _, name := range step.Silent.Nodes {
				silent[name] = true
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// some draws some of a set, at least one.
func (r *round) some(set map[string]bool) (some []string) {
	all := make([]string, 0, len(set))
	for _, node := range r.nodes {
		if set[node.Name] {
			all = append(all, node.Name)
		}
	}
	for _, i := range r.random.Perm(len(all))[:1+r.random.IntN(len(all))] {
		some = append(some, all[i])
	}
	slices.Sort(some)
	return some
}

// drawSilence draws one node, or all of a zone. If others of a zone fell silent at one instant, it would be luck whether
// the first of them is tainted before the state of the zone is known.
func (r *round) drawSilence(already map[string]bool) (names []string) {
	chosen := r.nodes[r.random.IntN(len(r.nodes))]
	whole := r.random.IntN(2) == 0
	for _, node := range r.nodes {
		if node.Name == chosen.Name || whole && node.Zone == chosen.Zone {
			names = append(names, node.Name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return already[name] && len(names) > 1 })
}

// drawTaint draws a taint that is set on some nodes, or one that is removed.
func (r *round) drawTaint(tainted map[string][]string) *cliv1alpha1.SimulationTaint {
	key := pick(r.random, keys...)
	step := &cliv1alpha1.SimulationTaint{}
	if nodes := tainted[key]; len(nodes) > 0 {
		delete(tainted, key)
		step.Nodes, step.Taints = nodes, []string{key + "-"}
		return step
	}
	for _, node := range r.nodes {
		if r.random.IntN(2) == 0 {
			step.Nodes = append(step.Nodes, node.Name)
		}
	}
	if len(step.Nodes) == 0 {
		step.Nodes = []string{r.nodes[0].Name}
	}
	tainted[key] = step.Nodes
	step.Taints = []string{key + pick(r.random, "", "=now") + ":" + pick(r.random, "NoExecute", "NoExecute", "NoSchedule")}
	return step
}
