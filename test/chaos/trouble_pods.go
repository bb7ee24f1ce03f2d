// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace is where the troublemaker's pods are.
const namespace = metav1.NamespaceDefault

// deleteDelay is the annotation by which kwok knows how long a deleted pod takes to be gone.
const deleteDelay = "pod-delete.stage.kwok.x-k8s.io/delay"

// createPod creates a pod, most often on a node of its own choice.
func (t *troublemaker) createPod(ctx context.Context) error {
	if t.observer.unguarded() >= mostPods {
		return nil
	}
	t.made++
	return t.create(ctx, t.aNewPod(fmt.Sprintf("%s-%d", t.series, t.made)))
}

func (t *troublemaker) create(ctx context.Context, pod *corev1.Pod) error {
	return persist(ctx, "create pod "+pod.Name, func(ctx context.Context) error {
		_, err := t.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (t *troublemaker) aNewPod(name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Annotations: map[string]string{}, Labels: map[string]string{},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: "main", Image: "none"}},
			Tolerations:                   t.tolerations(),
		},
	}
	switch drawn := t.random.IntN(100); {
	case drawn < 70:
		pod.Spec.NodeName = pick(t.random, t.nodes...)
	case drawn < 90:
		pod.Spec.SchedulerName = ownScheduler
	}
	if t.chance(0.3) { // one that terminates slowly
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Annotations[deleteDelay] = (time.Duration(500+t.random.IntN(14000)) * time.Millisecond).String()
	}
	if t.chance(0.1) {
		pod.Labels[guarded] = ""
	}
	if pod.Spec.NodeName != "" && t.chance(0.06) {
		pod.Annotations[corev1.MirrorPodAnnotationKey] = "static"
	}
	return pod
}

// tolerations draws a list: of every form that the API allows, including several for one taint, of which the first
// counts.
func (t *troublemaker) tolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for range t.random.IntN(5) {
		all = append(all, t.aToleration())
	}
	return all
}

func (t *troublemaker) aToleration() corev1.Toleration {
	toleration := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	switch drawn := t.random.IntN(10); {
	case drawn < 1: // every taint
	case drawn < 6:
		toleration.Key = pick(t.random, toleratedKeys...)
	default:
		toleration.Key = pick(t.random, toleratedKeys...)
		toleration.Operator = pick(t.random, corev1.TolerationOpEqual, "")
		toleration.Value = pick(t.random, taintValues...)
	}
	switch drawn := t.random.IntN(10); {
	case drawn < 1:
		toleration.Effect = pick(t.random, "", corev1.TaintEffectNoSchedule)
	case drawn < 9:
		toleration.TolerationSeconds = new(t.seconds())
	}
	return toleration
}

func (t *troublemaker) seconds() int64 {
	switch t.random.IntN(25) {
	case 0:
		return -1
	case 1:
		return math.MaxInt64
	}
	return t.random.Int64N(21)
}

// deletePod deletes one of the pods.
func (t *troublemaker) deletePod(ctx context.Context) error {
	name, ok := t.aPod()
	if !ok {
		return nil
	}
	return t.delete(ctx, name)
}

func (t *troublemaker) delete(ctx context.Context, name string) error {
	return persist(ctx, "delete pod "+name, func(ctx context.Context) error {
		return t.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// replacePod deletes a pod and creates another one with the same name: at once, or when kwok is done with the first.
// The delete is by name, so a late one deletes the second pod.
func (t *troublemaker) replacePod(ctx context.Context) error {
	name, ok := t.aPod()
	if !ok {
		return nil
	}
	if err := t.delete(ctx, name); err != nil {
		return err
	}
	if t.chance(0.6) {
		pause(ctx, time.Duration(20+t.random.IntN(200))*time.Millisecond)
	}
	return t.create(ctx, t.aNewPod(name))
}

// tolerateMore adds a toleration to a pod.
func (t *troublemaker) tolerateMore(ctx context.Context) error {
	added := t.aToleration()
	return t.changePod(ctx, func(tolerations []corev1.Toleration) []corev1.Toleration {
		return append(tolerations, added)
	})
}

// tolerateOtherwise changes the seconds of a pod's tolerations, which is all that the API allows to change of them.
func (t *troublemaker) tolerateOtherwise(ctx context.Context) error {
	seconds := t.seconds()
	return t.changePod(ctx, func(tolerations []corev1.Toleration) []corev1.Toleration {
		for i := range tolerations {
			if tolerations[i].TolerationSeconds != nil {
				tolerations[i].TolerationSeconds = &seconds
			}
		}
		return tolerations
	})
}

func (t *troublemaker) changePod(ctx context.Context, change func([]corev1.Toleration) []corev1.Toleration) error {
	name, ok := t.aPod()
	if !ok {
		return nil
	}
	return persist(ctx, "change the tolerations of pod "+name, func(ctx context.Context) error {
		pod, err := t.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Spec.Tolerations = change(pod.Spec.Tolerations)
		_, err = t.client.CoreV1().Pods(namespace).Update(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// aPod picks one of the troublemaker's pods that are there. It reports false while there are none.
func (t *troublemaker) aPod() (name string, ok bool) {
	var names []string
	for _, full := range t.observer.present() {
		if ns, name := split(full); ns == namespace {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	slices.Sort(names) // so that the seed alone decides
	return names[t.random.IntN(len(names))], true
}

// statefulSet is a set whose pods are put back under their names wherever a node takes them.
func statefulSet() *appsv1.StatefulSet {
	labels := map[string]string{"app": "db"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(int32(4)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SchedulerName:                 ownScheduler,
					AutomountServiceAccountToken:  new(false),
					TerminationGracePeriodSeconds: new(int64(0)),
					Containers:                    []corev1.Container{{Name: "main", Image: "none"}},
					Tolerations: []corev1.Toleration{{
						Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3)),
					}},
				},
			},
		},
	}
}
