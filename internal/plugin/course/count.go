// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// counter counts the ready pods of a workload, or the healthy pods of a budget, over time. Changes within an instant do
// not count.
type counter struct {
	number  int
	changed bool
	unknown bool                            // a pod has left, and it is not known whether its owner creates another
	points  []cliv1alpha1.SimulatedReplicas // over time; the first is at the start
	atMost  bool                            // some successors wait for grace periods
	leave   int                             // how many of the ready pods on the nodes that change leave; only in a course
}

// add counts a pod that became ready, or is no longer ready.
func (s *simulation) add(c *counter, change int) {
	c.number += change
	if !c.changed {
		c.changed = true
		s.changed = append(s.changed, c)
	}
}

// record records what changed in the instant that has just ended.
func (s *simulation) record() {
	s.tellRefused()
	for _, c := range s.changed {
		c.changed = false
		if last := c.points[len(c.points)-1]; last.Ready != c.number {
			c.points = append(c.points, cliv1alpha1.SimulatedReplicas{At: s.offset(s.now), Ready: c.number})
		}
	}
	s.changed = s.changed[:0]
}

// recordFirst records the numbers at the start.
func (s *simulation) recordFirst() {
	for _, c := range s.workloads {
		c.points[0].Ready = c.number
	}
	for _, b := range s.allowed {
		b.points[0].Ready = b.number
		b.expect()
		s.allow(b)
	}
	s.record()
}

// first returns the number at the start.
func (c *counter) first() int { return c.points[0].Ready }

// lowest returns the first point with the lowest number.
func (c *counter) lowest() cliv1alpha1.SimulatedReplicas {
	return slices.MinFunc(c.points, func(a, b cliv1alpha1.SimulatedReplicas) int { return cmp.Compare(a.Ready, b.Ready) })
}

// below returns how long the number is less than the given one, until an end.
func (c *counter) below(number int, end metav1.Duration) (length metav1.Duration) {
	for i, p := range c.points {
		if p.Ready < number {
			length.Duration += c.until(i, end) - p.At.Duration
		}
	}
	return length
}

// until returns when the number of a point changes, or an end.
func (c *counter) until(i int, end metav1.Duration) time.Duration {
	if i+1 < len(c.points) {
		end = c.points[i+1].At
	}
	return end.Duration
}

// workloadKey identifies a workload in the cluster.
type workloadKey struct {
	namespace string
	owner     cliv1alpha1.Owner
}

func (s *simulation) workload(namespace string, owner cliv1alpha1.Owner) *counter {
	key := workloadKey{namespace, owner}
	if s.workloads[key] == nil {
		s.workloads[key] = &counter{points: make([]cliv1alpha1.SimulatedReplicas, 1)}
	}
	return s.workloads[key]
}

// budget is the current state of a PodDisruptionBudget.
type budget struct {
	counter
	*policyv1.PodDisruptionBudget

	desired int // how many healthy pods it requires
	pods    int // how many it covers at the start
}

// budgetsOf returns the budgets of a pod.
func (s *simulation) budgetsOf(pod *corev1.Pod) (all []*budget) {
	for _, object := range s.budgets(pod.Namespace, pod.Labels) {
		key := object.Namespace + "/" + object.Name
		b := s.allowed[key]
		if b == nil {
			b = &budget{PodDisruptionBudget: object}
			b.points = make([]cliv1alpha1.SimulatedReplicas, 1)
			s.allowed[key] = b
		}
		b.pods++
		all = append(all, b)
	}
	return all
}

// expect computes how many healthy pods a budget requires: the number that the disruption controller recorded, or would
// record if it has not seen the budget yet. The number of pods that workloads request does not change in a simulation.
func (b *budget) expect() {
	b.desired = int(b.Status.DesiredHealthy)
	if b.Status.ExpectedPods > 0 {
		return
	}
	of := func(number *intstr.IntOrString) int {
		n, _ := intstr.GetScaledValueFromIntOrPercent(number, b.pods, true) // the API server refuses wrong ones
		return n
	}
	switch {
	case b.Spec.MinAvailable != nil:
		b.desired = of(b.Spec.MinAvailable)
	case b.Spec.MaxUnavailable != nil:
		b.desired = max(b.pods-of(b.Spec.MaxUnavailable), 0)
	default:
		b.desired = max(b.pods-1, 0)
	}
}

// allowedFirst returns how many disruptions the budget allows at the start: as the disruption controller recorded, or
// would record.
func (b *budget) allowedFirst() int {
	if b.Status.ExpectedPods == 0 {
		return max(b.first()-b.desired, 0)
	}
	return int(b.Status.DisruptionsAllowed)
}

// room returns how many disruptions the budget allows now.
func (b *budget) room() int { return max(b.number-b.desired, 0) }

// sparesUnready is [policy.SparesUnready] now.
func (b *budget) sparesUnready() bool {
	now := policyv1.PodDisruptionBudget{Spec: b.Spec}
	now.Status.CurrentHealthy, now.Status.DesiredHealthy = int32(b.number), int32(b.desired)
	return policy.SparesUnready(&now)
}

func (b *budget) name() string { return b.Namespace + "/" + b.Name }

// allow tells the policies how many disruptions a budget allows now.
func (s *simulation) allow(b *budget) {
	if s.policies != nil {
		s.policies.engine.SetBudget(b.name(), b.room(), s.now)
		s.policies.changed(s.now)
	}
}
