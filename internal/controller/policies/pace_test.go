// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// wantPace fails unless the given number of pods left, and never more than most of them in a window.
func (w *world) wantPace(prefix string, pods, most int, per time.Duration) {
	w.T.Helper()
	at := w.deletes(prefix)
	if len(at) != pods {
		w.T.Errorf("after %s %d pods %s* have left, want %d: %v", w.Now(), len(at), prefix, pods, at)
	}
	for i := most; i < len(at); i++ {
		if at[i]-at[i-most] < per {
			w.T.Errorf("%d pods %s* left between %s and %s: %v", most+1, prefix, at[i-most], at[i], at)
			return
		}
	}
}

// How an Engine shares places is tested in package policy. Here is what the Evictor and the watches tell it. Before the
// first pod is due, the process has seen a whole window.
func TestPaces(t *testing.T) {
	stories := map[string]func(w *world){
		"a pace that is new lets pods go at once, and one that is raised lets the difference go": func(w *world) {
			w.addPods(30, 0)
			w.run()
			w.Until(time.Minute)
			w.add("slow", paceOf(5, 30*sec, v1alpha1.ScopeCluster))
			w.Pass(sec)
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			w.wantPace("", 5, 5, 30*sec)
			w.edit("slow", func(is *spec) { is.Pace.Pods = 6 })
			w.Pass(sec)
			w.wantPace("", 6, 6, 30*sec)
			w.Pass(27 * sec)
			w.wantPace("", 6, 6, 30*sec)
			w.Pass(10 * sec)
			w.wantPace("", 12, 6, 30*sec)
		},
		"pods that other clients delete count": func(w *world) {
			w.add("slow", paceOf(2, 30*sec, v1alpha1.ScopeCluster))
			w.addPods(3, 1)
			w.begins(time.Minute)
			w.Pass(sec)
			w.wantPace("n", 2, 2, 30*sec)
			w.Pass(20 * sec)
			w.DeletePod("default", "m0") // of a node without taints: it does not count
			w.DeletePod("default", "n2")
			w.AddPod("n3", "n")
			w.Pass(10 * sec) // two have left the window, one has come
			w.wantPace("n3", 1, 1, 30*sec)
		},
		"a pod that another policy holds takes no place": func(w *world) {
			w.add("slow", paceOf(1, 10*sec, v1alpha1.ScopeCluster))
			w.add("db", only("tier", "db", hold(0)))
			for i := range 3 {
				w.AddPod(fmt.Sprintf("db%d", i), "n", labeled("tier", "db"))
			}
			w.addPods(3, 0)
			w.begins(time.Minute)
			w.Pass(25 * sec)
			w.wantPace("n", 3, 1, 10*sec)
			w.wantPace("db", 0, 1, 10*sec)
			w.remove("db")
			w.Pass(30 * sec)
			w.wantPace("db", 3, 1, 10*sec)
		},
		"a node that is untainted gives its places back": func(w *world) {
			w.add("slow", paceOf(1, 20*sec, v1alpha1.ScopeCluster))
			w.addPods(3, 2)
			w.begins(time.Minute)
			w.Taint("m", "k:NoExecute")
			w.Pass(sec)
			w.Taint("n", "k-")
			w.Pass(50 * sec)
			w.wantPace("m", 2, 1, 20*sec)
			w.wantPace("n", 1, 1, 20*sec)
		},
		"pods that are refused again and again do not keep the places of others": func(w *world) {
			w.add("slow", paceOf(1, 5*sec, v1alpha1.ScopeCluster))
			w.addPods(3, 10)
			w.run(w.slow(func(_ context.Context, r bubble.Request) error {
				if r.Verb == "delete" && strings.HasPrefix(r.Name, "n") {
					return errRefused
				}
				return nil
			}))
			w.Until(time.Minute)
			w.Taint("n", "k:NoExecute")
			w.Pass(10 * time.Minute) // each is tried rarely now
			w.Taint("m", "k:NoExecute")
			w.Pass(2 * time.Minute)
			w.wantPace("m", 10, 1, 5*sec)
		},
	}
	for scope, each := range map[v1alpha1.PaceScope]int{v1alpha1.ScopeCluster: 1, v1alpha1.ScopeNode: 2, v1alpha1.ScopeZone: 1} {
		stories["a pace holds in every window and is used up: "+string(scope)] = func(w *world) {
			w.add("slow", paceOf(5, 30*sec, scope))
			w.addPods(10, 10)
			w.begins(time.Minute)
			w.Taint("m", "k:NoExecute")
			w.Pass(25 * sec)
			w.wantPace("", each*5, each*5, 30*sec)
			w.Pass(6 * sec)
			w.wantPace("", each*10, each*5, 30*sec)
			w.Pass(time.Minute + 10*sec)
			w.wantPace("", 20, each*5, 30*sec)
			if scope == v1alpha1.ScopeNode {
				w.wantPace("n", 10, 5, 30*sec)
				w.wantPace("m", 10, 5, 30*sec)
			}
		}
	}
	for what, happens := range map[string]func(w *world){
		"its node is untainted": func(w *world) { w.Taint("n", "k-") },
		"it is held":            func(w *world) { w.add("db", only("tier", "db", hold(0))) },
	} {
		stories["a pod whose DELETE is not answered counts, and then "+what] = func(w *world) {
			w.add("slow", paceOf(1, 5*time.Minute, v1alpha1.ScopeCluster))
			w.AddPod("n0", "n", labeled("tier", "db"))
			w.addPods(0, 2)
			w.run(w.slow(func(ctx context.Context, r bubble.Request) error {
				if r.Verb == "delete" && r.Name == "n0" { // it is cancelled, and carried out
					_ = bubble.Takes(ctx, 3*sec)
					time.AfterFunc(sec/2, func() { _ = w.API.Delete(podResource, "default", "n0") })
					return context.Canceled
				}
				return nil
			}))
			w.Until(10 * time.Minute)
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			w.Taint("m", "k:NoExecute")
			w.Pass(sec)
			happens(w)
			w.Pass(4 * time.Minute)
			w.wantPace("m", 0, 1, 5*time.Minute) // the window is the same
			w.Pass(7 * time.Minute)
			w.wantPace("m", 2, 1, 5*time.Minute)
		}
	}
	for what, spare := range map[string]func(w *world, pod string){
		"they tolerate":    func(w *world, pod string) { w.ChangePod(pod, toleratingFirst) },
		"they are deleted": func(w *world, pod string) { w.DeletePod("default", pod) },
	} {
		stories["a pace sees pods that need not leave any more: "+what] = func(w *world) {
			w.add("slow", paceOf(2, time.Minute, v1alpha1.ScopeCluster))
			w.addPods(20, 2)
			w.begins(10 * time.Minute)
			w.Pass(sec)
			w.Taint("m", "k:NoExecute")
			w.wantPace("n", 2, 2, time.Minute)
			for i := range 20 {
				pod := fmt.Sprintf("n%d", i)
				if _, err := w.API.Get(podResource, "default", pod); err == nil {
					spare(w, pod)
				}
			}
			w.Pass(70 * sec)
			w.wantPace("m", 2, 2, time.Minute)
		}
	}
	playStories(t, stories)
}

// toleratingFirst lets a pod tolerate k for an hour, even if Taintkeeper keeps it alive: the first toleration that matches
// counts.
func toleratingFirst(pod *corev1.Pod) {
	all := pod.Spec.Tolerations
	pod.Spec.Tolerations = nil
	scene.Tolerating("k", 3600)(pod)
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all...)
}
