// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace is where the troublemaker's pods are.
const namespace = metav1.NamespaceDefault

// deleteDelay is the annotation by which kwok knows how long a deleted pod takes to be gone.
const deleteDelay = "pod-delete.stage.kwok.x-k8s.io/delay"

// mostPods limits how many pods exist at the same time, in addition to those of a crowd.
const mostPods = 110

// createPod creates a pod, most often on a node of its own choice.
func (a *actor) createPod(ctx context.Context) error {
	if _, unguarded := a.observer.present(); unguarded >= mostPods {
		return nil
	}
	a.made++
	return a.create(ctx, a.aNewPod(fmt.Sprintf("%s-%d", a.series, a.made)))
}

func (a *actor) create(ctx context.Context, pod *corev1.Pod) error {
	return persist(ctx, "create pod "+pod.Name, func(ctx context.Context) error {
		_, err := a.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (a *actor) aNewPod(name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Annotations: map[string]string{}, Labels: map[string]string{},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: "main", Image: "none"}},
			Tolerations:                   a.tolerations(),
		},
	}
	switch drawn := a.random.IntN(100); {
	case drawn < 70:
		pod.Spec.NodeName = pick(a.random, a.nodes...)
	case drawn < 90:
		pod.Spec.SchedulerName = ownScheduler
	}
	if a.chance(0.3) { // one that terminates slowly
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Annotations[deleteDelay] = (time.Duration(500+a.random.IntN(14000)) * time.Millisecond).String()
	}
	if a.chance(0.1) {
		pod.Labels[guarded] = ""
	}
	if pod.Spec.NodeName != "" && a.chance(0.06) {
		pod.Annotations[corev1.MirrorPodAnnotationKey] = "static"
	}
	return pod
}

// tolerations draws a list: of every form that the API allows, including several for one taint, of which the first
// counts.
func (a *actor) tolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for range a.random.IntN(5) {
		all = append(all, a.aToleration())
	}
	return all
}

func (a *actor) aToleration() corev1.Toleration {
	toleration := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	switch drawn := a.random.IntN(10); {
	case drawn < 1: // every taint
	case drawn < 6:
		toleration.Key = pick(a.random, toleratedKeys...)
	default:
		toleration.Key = pick(a.random, toleratedKeys...)
		toleration.Operator = pick(a.random, corev1.TolerationOpEqual, "")
		toleration.Value = pick(a.random, taintValues...)
	}
	switch drawn := a.random.IntN(10); {
	case drawn < 1:
		toleration.Effect = pick(a.random, "", corev1.TaintEffectNoSchedule)
	case drawn < 9:
		toleration.TolerationSeconds = new(a.seconds())
	}
	return toleration
}

func (a *actor) seconds() int64 {
	switch a.random.IntN(25) {
	case 0:
		return -1
	case 1:
		return math.MaxInt64
	}
	return a.random.Int64N(21)
}

// deletePod deletes one of the pods.
func (a *actor) deletePod(ctx context.Context) error {
	name, ok := a.aPod()
	if !ok {
		return nil
	}
	return a.delete(ctx, name)
}

func (a *actor) delete(ctx context.Context, name string) error {
	return persist(ctx, "delete pod "+name, func(ctx context.Context) error {
		return a.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// replacePod deletes a pod and creates another one with the same name: at once, or when kwok is done with the first.
// The delete is by name, so a late one deletes the second pod.
func (a *actor) replacePod(ctx context.Context) error {
	name, ok := a.aPod()
	if !ok {
		return nil
	}
	if err := a.delete(ctx, name); err != nil {
		return err
	}
	if a.chance(0.6) {
		pause(ctx, time.Duration(20+a.random.IntN(200))*time.Millisecond)
	}
	return a.create(ctx, a.aNewPod(name))
}

// tolerateMore adds a toleration to a pod.
func (a *actor) tolerateMore(ctx context.Context) error {
	added := a.aToleration()
	return a.changePod(ctx, func(tolerations []corev1.Toleration) []corev1.Toleration {
		return append(tolerations, added)
	})
}

// tolerateOtherwise changes the seconds of a pod's tolerations, which is all that the API allows to change of them.
func (a *actor) tolerateOtherwise(ctx context.Context) error {
	seconds := a.seconds()
	return a.changePod(ctx, func(tolerations []corev1.Toleration) []corev1.Toleration {
		for i := range tolerations {
			if tolerations[i].TolerationSeconds != nil {
				tolerations[i].TolerationSeconds = &seconds
			}
		}
		return tolerations
	})
}

func (a *actor) changePod(ctx context.Context, change func([]corev1.Toleration) []corev1.Toleration) error {
	name, ok := a.aPod()
	if !ok {
		return nil
	}
	return persist(ctx, "change the tolerations of pod "+name, func(ctx context.Context) error {
		pod, err := a.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Spec.Tolerations = change(pod.Spec.Tolerations)
		_, err = a.client.CoreV1().Pods(namespace).Update(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// aPod picks one of the pods that are there. It reports false while there are none.
func (a *actor) aPod() (name string, ok bool) {
	names, _ := a.observer.present()
	if len(names) == 0 {
		return "", false
	}
	return pick(a.random, names...), true
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

// ownScheduler is the name by which pods ask for the scheduler below.
const ownScheduler = "chaos"

// bindPods binds the pods that wait to nodes at random, tainted or not. kube-scheduler exits if a pod was replaced by
// one with the same name while it could not watch; a StatefulSet would then get no more pods.
func (a *actor) bindPods(ctx context.Context) error {
	var waiting corev1.PodList
	err := persist(ctx, "list the pods that have no node", func(ctx context.Context) error {
		list, err := a.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=,spec.schedulerName=" + ownScheduler,
		})
		if err == nil {
			waiting = *list
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range waiting.Items {
		if err := a.bind(ctx, &waiting.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) bind(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pick(a.random, a.nodes...)},
	}
	return persist(ctx, fmt.Sprintf("bind pod %s", pod.Name), func(ctx context.Context) error {
		return a.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	})
}

// persist makes a call until the API server has answered it, for as long as the context lasts. That an object is gone,
// is there already or has changed meanwhile is an answer.
func persist(ctx context.Context, what string, call func(context.Context) error) error {
	const again = 200 * time.Millisecond
	for {
		err := once(ctx, call)
		var status apierrors.APIStatus
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			return nil
		case errors.As(err, &status) && status.Status().Code < 500 && status.Status().Code != 429 &&
			!apierrors.IsForbidden(err):
			return fmt.Errorf("%s: %w", what, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pause(ctx, again) // the API server is down, or coming up
	}
}

func once(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}
