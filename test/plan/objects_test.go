// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
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
		r.Bare(fmt.Sprint("bare-", i), r.template(apps, map[string]string{"app": "bare", "half": fmt.Sprint(i), "kept": "true"}))
	}
	return n
}

// hangRollout changes the template of a Deployment, whose new pod is never available.
func (r *round) hangRollout() {
	_, err := admin.AppsV1().Deployments(r.Name).Patch(r.T.Context(), appName(hung), types.StrategicMergePatchType,
		[]byte(`{"spec":{"minReadySeconds":3600,"progressDeadlineSeconds":7200,"template":{"metadata":{"labels":{"rollout":"new"}}}}}`), metav1.PatchOptions{})
	r.must(err)
}

// markUnready says that the pods of the rollout are not ready, which kwok does not.
func (r *round) markUnready() {
	pods, err := admin.CoreV1().Pods(r.Name).List(r.T.Context(), metav1.ListOptions{LabelSelector: "rollout=new"})
	r.must(err)
	for i := range pods.Items {
		_, err := admin.CoreV1().Pods(r.Name).Patch(r.T.Context(), pods.Items[i].Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
		r.must(err)
	}
}

var toleratesOld = workloads.Tolerates(workloads.Old, new(int64(3600)))

// prepare sets taints before the plan is made: an old one on some of its nodes, and one that keeps successors from those
// that they may have to leave again.
func (r *round) prepare() {
	for _, name := range r.nodes {
		var set []corev1.Taint
		if r.random.IntN(4) == 0 {
			set = append(set, workloads.OldTaint())
		}
		if r.counted || len(set) > 0 {
			set = append(set, corev1.Taint{Key: closed, Effect: corev1.TaintEffectNoSchedule})
			_, err := scene.Taint(r.T.Context(), admin, name, set...)
			r.must(err)
		}
	}
}

// fill makes a pod of high priority that needs most of a node, and pods of low priority that fill the others. They
// tolerate nothing: if some left later than others, or came back to nodes with taints, it would be luck who is preempted.
func (r *round) fill() int {
	for i, class := range r.Classes(len(nodes())) {
		labels := map[string]string{"app": appName(apps + i), "half": "0", "kept": "false"}
		template := r.template(apps, labels)
		template.Spec.Tolerations = []corev1.Toleration{toleratesOld}
		r.Fill(&template.Spec, class)
		r.must(r.deployment(apps+i, 1, labels, template))
	}
	return len(nodes())
}
