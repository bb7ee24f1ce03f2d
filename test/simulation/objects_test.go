// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// taintLongAgo sets a taint that was added long ago on one node.
func (r *round) taintLongAgo() {
	node := r.nodes[r.random.IntN(len(r.nodes))].Name
	_, err := scene.Taint(r.T.Context(), admin, node, workloads.OldTaint())
	r.must(err)
}

// makeBarePods makes up to two pods without a controller.
func (r *round) makeBarePods() {
	for i := range r.random.IntN(3) {
		name := fmt.Sprint("bare-", i)
		r.Bare(name, r.drawTemplate(name))
		r.replicas++
	}
}

// fill makes a pod for each node that needs most of it. The first has a high priority, so it preempts another when it
// loses its node.
func (r *round) fill() {
	for i, class := range r.Classes(len(r.nodes)) {
		deployment := r.drawDeployment(fmt.Sprint(filling, i))
		r.replicas += 1 - int(*deployment.Spec.Replicas)
		deployment.Spec.Replicas = new(int32(1))
		r.Fill(&deployment.Spec.Template.Spec, class)
		_, err := admin.AppsV1().Deployments(r.Name).Create(r.T.Context(), deployment, metav1.CreateOptions{})
		r.must(err)
	}
	r.filled = true
}

// filling is how names of pods begin that need most of a node.
const filling = "fill-"

// drawClaiming draws a Deployment of one pod, and makes its ReadWriteOnce volume, which one zone has.
func (r *round) drawClaiming(name string) *appsv1.Deployment {
	volume := r.Volume(name, r.nodes[r.random.IntN(len(r.nodes))].Zone)
	template := r.drawTemplate(name)
	template.Spec.Volumes = []corev1.Volume{volume}
	r.replicas++
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
	}}
}

// limit makes a quota of the pods that there are in half of the rounds in which no node falls silent: of pods that hang
// on such nodes, it is luck when the API server counts them no more.
func (r *round) limit() {
	silent := slices.ContainsFunc(r.steps, func(step cliv1alpha1.SimulationStep) bool { return step.Silent != nil })
	if !silent && r.random.IntN(2) != 0 {
		r.Quota(r.replicas)
	}
}
