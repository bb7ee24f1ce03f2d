// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// another is the key of a second taint.
const another = "test/another"

// hostile are acts that once made the built-in delete pods that should stay.
var hostile = []act{
	{
		name:    "the taint that set the built-in's timer goes early, all taints later, clean stop",
		setting: setting{tolerate: []func(*corev1.Pod){rig.Tolerating(key, 15), rig.Tolerating(another, 3600)}},
		play: func(s *scene) {
			s.taint()
			s.taintAlso(another)
			s.after(5 * time.Second)
			s.untaint()
			s.begun(s.due - 10)
			s.untaintFrom(another)
			s.after(18 * time.Second)
			s.stop()
		},
	},
	{
		name: "pods end slowly while taints come and go 12 times, untainted, both killed", setting: setting{due: 40, slow: true},
		play: func(s *scene) {
			s.taint()
			for at := 4 * time.Second; at < 13*time.Second; at += 1500 * time.Millisecond {
				s.after(at)
				s.taintAlso(another)
				s.after(at + 700*time.Millisecond)
				s.untaintFrom(another)
			}
			s.untaint()
			s.after(15 * time.Second)
			s.kill()
		},
	},
	{
		name:    "tolerationSeconds end during a clean stop, and the nodes are untainted then",
		setting: setting{oneReplica: true, tolerate: []func(*corev1.Pod){rig.Tolerating(key, 15)}},
		play:    func(s *scene) { s.endDuringStop(s.untaint) },
	},
	{
		name:    "the same, and a taint that the pods tolerate stays",
		setting: setting{oneReplica: true, tolerate: []func(*corev1.Pod){rig.Tolerating(key, 15), rig.Indefinitely(another)}},
		play: func(s *scene) {
			s.taintAlso(another)
			s.endDuringStop(s.untaint)
		},
	},
	{
		name:    "tolerationSeconds end during a clean stop, and the nodes are drained then",
		setting: setting{oneReplica: true, tolerate: []func(*corev1.Pod){rig.Tolerating(key, 15)}},
		play:    func(s *scene) { s.endDuringStop(s.drain) },
	},
	{
		name:    "tolerationSeconds end during a rolling update of one replica, untainted then, clean stop",
		setting: setting{oneReplica: true, tolerate: []func(*corev1.Pod){rig.Tolerating(key, 15)}},
		play: func(s *scene) {
			s.endDuringStop(func() { s.untaint(); s.start("second") })
			s.after(25 * time.Second)
			await.Must(s.t, s.replicas[1].Stop())
		},
	},
	{
		name:    "the leader is killed, and the pods tolerate the taint forever before the standby leads, clean stop",
		setting: setting{tolerate: []func(*corev1.Pod){rig.Tolerating(key, 10)}},
		play: func(s *scene) {
			s.taint()
			s.after(8 * time.Second)
			await.Must(s.t, s.replicas[0].Kill())
			s.begun(s.due - 10)
			s.tolerateIndefinitely()
			s.after(29 * time.Second)
			await.Must(s.t, s.replicas[1].Stop())
		},
	},
	{
		name: "the leader is killed, and tainted nodes are made again before the standby leads, clean stop",
		play: func(s *scene) {
			await.Must(s.t, s.replicas[0].Kill())
			s.taint()
			s.begun(s.due - 10)
			s.remakeNodes()
			s.after(22 * time.Second)
			await.Must(s.t, s.replicas[1].Stop())
		},
	},
	{
		name:    "untainted, another leader, another pod of each node is due, clean stop",
		setting: setting{oneReplica: true, tolerate: []func(*corev1.Pod){rig.Indefinitely(another)}},
		play: func(s *scene) {
			s.addOthers()
			s.taint()
			s.begun(20)
			s.untaint()
			s.after(4 * time.Second)
			s.start("second")
			await.Must(s.t, s.replicas[0].Stop())
			s.after(20 * time.Second)
			s.taintAlso(another)
			s.after(23 * time.Second)
			await.Must(s.t, s.replicas[1].Stop())
		},
	},
	{
		name: "evicted pods are made again with their random names, clean stop", setting: setting{bare: true},
		play: func(s *scene) {
			made, err := admin.CoreV1().Pods(s.Namespace).List(s.t.Context(), metav1.ListOptions{})
			await.Must(s.t, err)
			s.taint()
			s.evicted()
			for i := range made.Items {
				pod := &made.Items[i]
				again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, GenerateName: pod.GenerateName}, Spec: pod.Spec}
				again.Spec.NodeName = s.nodes[tainted+i%(nodes-tainted)]
				_, err := admin.CoreV1().Pods(s.Namespace).Create(s.t.Context(), again, metav1.CreateOptions{})
				await.Must(s.t, err)
			}
			s.stop()
		},
	},
}

// endDuringStop begins to stop the only replica 1.5 s before the pods are due, and does something once the built-in tries
// them.
func (s *scene) endDuringStop(then func()) {
	s.t.Helper()
	s.taint()
	s.after(13500 * time.Millisecond)
	var stopping errgroup.Group
	stopping.Go(s.replicas[0].Stop)
	s.begun(s.due - 10)
	then()
	await.Must(s.t, stopping.Wait())
}

// drain cordons the tainted nodes and deletes their pods.
func (s *scene) drain() {
	s.t.Helper()
	pods, nodes := admin.CoreV1().Pods(s.Namespace), admin.CoreV1().Nodes()
	s.onTainted(func(node string) error {
		_, err := nodes.Patch(s.t.Context(), node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return pods.DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	})
}

// remakeNodes deletes the tainted nodes and creates them again without their taints, as after a registration.
func (s *scene) remakeNodes() {
	s.t.Helper()
	nodes := admin.CoreV1().Nodes()
	s.onTainted(func(name string) error {
		node, err := nodes.Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := nodes.Delete(s.t.Context(), name, *metav1.NewDeleteOptions(0)); err != nil {
			return err
		}
		node.ResourceVersion, node.UID, node.Spec.Taints = "", "", nil
		_, err = nodes.Create(s.t.Context(), node, metav1.CreateOptions{})
		return err
	})
}

// tolerateIndefinitely takes the tolerationSeconds from all pods.
func (s *scene) tolerateIndefinitely() {
	s.t.Helper()
	pods := admin.CoreV1().Pods(s.Namespace)
	all, err := pods.List(s.t.Context(), metav1.ListOptions{})
	await.Must(s.t, err)
	var group errgroup.Group
	group.SetLimit(16)
	for _, pod := range all.Items {
		group.Go(func() error {
			for i := range pod.Spec.Tolerations {
				if pod.Spec.Tolerations[i].Key == key {
					pod.Spec.Tolerations[i].TolerationSeconds = nil
				}
			}
			_, err := pods.Update(s.t.Context(), &pod, metav1.UpdateOptions{})
			return err
		})
	}
	await.Must(s.t, group.Wait())
}

// addOthers adds a pod to each of the nodes that get the taint. The pod tolerates that taint but not the other.
func (s *scene) addOthers() {
	s.t.Helper()
	for _, node := range s.nodes[:tainted] {
		_, err := s.Pod(s.t.Context(), "other-"+node, node, rig.Indefinitely(key))
		await.Must(s.t, err)
	}
}

// createBare creates pods without a controller on the nodes that get the taint.
func (s *scene) createBare(template corev1.PodTemplateSpec, count int) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range count {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: template.Labels}, Spec: template.Spec}
		pod.Spec.NodeName = s.nodes[i%tainted]
		group.Go(func() error {
			_, err := admin.CoreV1().Pods(s.Namespace).Create(s.t.Context(), pod, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}
