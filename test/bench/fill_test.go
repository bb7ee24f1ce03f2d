// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// written keeps what is put. Like etcd, it accepts at most 128 objects at once.
type written struct {
	mu     sync.Mutex
	stored map[string][]byte
	order  []string
}

func (w *written) put(_ context.Context, objects []keyValue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(objects) > 128 {
		return fmt.Errorf("%d objects", len(objects))
	}
	for _, object := range objects {
		w.stored[string(object.Key)] = object.Value
		w.order = append(w.order, string(object.Key))
	}
	return nil
}

// pods are those that were written.
func (w *written) pods(t *testing.T) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for _, content := range w.stored {
		pod := &corev1.Pod{}
		if err := decodeStored(content, pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

const crowdPods, crowdNodes = 321, 7

// runningTemplate is a pod as an API server has stored it.
func runningTemplate(pod *corev1.Pod) *corev1.Pod {
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.Status = runningStatus(pod)
	return pod
}

func TestTheCrowdIsWrittenAsTheTemplateIsStored(t *testing.T) {
	template := runningTemplate(smallPod(crowdNodes))
	w := &written{stored: map[string][]byte{}}
	pod := func(i int) *corev1.Pod { return anotherPod(template, i, crowdNodes) }
	if err := fill(t.Context(), w.put, 0, crowdPods, keyed(pod)); err != nil {
		t.Fatal(err)
	}
	ips, onNodes := map[string]bool{}, map[string]bool{}
	for _, pod := range w.pods(t) {
		ips[pod.Status.PodIP], onNodes[pod.Spec.NodeName] = true, true
	}
	if len(w.stored) != crowdPods || len(ips) != crowdPods || len(onNodes) != crowdNodes {
		t.Errorf("%d keys and %d addresses of %d pods, on %d nodes; want %d nodes",
			len(w.stored), len(ips), crowdPods, len(onNodes), crowdNodes)
	}
	last, _ := keyed(pod)(crowdPods - 1)
	if slices.Index(w.order, last) != crowdPods-1 {
		t.Errorf("%s was written last, want %s", w.order[len(w.order)-1], last)
	}
}

func TestSlimPodsAreTheSameWheneverTheyAreMade(t *testing.T) {
	template := runningTemplate(slimPod(crowdNodes))
	w, uids := &written{stored: map[string][]byte{}}, map[types.UID]bool{}
	for _, is := range []bool{true, false} {
		err := fill(t.Context(), w.put, 0, crowdPods, keyed(func(i int) *corev1.Pod {
			return ready(anotherSlimPod(template, i, crowdNodes), is)
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range w.pods(t) {
			uids[pod.UID] = true
			if got := isReady(pod); got != is {
				t.Errorf("pod %s is ready: %t, want %t", pod.Name, got, is)
			}
		}
	}
	if len(uids) != crowdPods || len(w.stored) != crowdPods {
		t.Errorf("%d UIDs and %d keys of %d pods", len(uids), len(w.stored), crowdPods)
	}
}

func TestAPrefixHasTheKeysThatBeginWithItAndNoOthers(t *testing.T) {
	slim := withPrefix("/registry/pods/slim/")
	for key, want := range map[string]bool{
		"/registry/pods/slim/slim-0000000": true, "/registry/pods/slim/zz": true,
		"/registry/pods/slimmer/other": false, "/registry/pods/slim": false, "/registry/pods/team/other": false,
	} {
		if got := key >= string(slim.Key) && key < string(slim.End); got != want {
			t.Errorf("%s is among them: %t, want %t", key, got, want)
		}
	}
}

// isReady reports whether a pod says that it is ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
