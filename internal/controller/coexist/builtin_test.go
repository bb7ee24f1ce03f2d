// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/builtin"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// followed is what an Account would be told in a cluster where an Evictor works and no pod can be deleted.
type followed struct {
	tries *builtInTries

	mu  sync.Mutex
	all []builtin.NodeTries
}

// follow runs a test in such a cluster, which has node n. The Evictor starts with begin.
func follow(t *testing.T, test func(w *bubble.World, f *followed)) {
	t.Helper()
	bubble.Play(t, bubble.DescribeWrites, func(w *bubble.World) {
		w.On("delete", "pods", "", func() error { return errors.New("not now") })
		w.AddNode("n", "")
		test(w, &followed{})
	})
}

// begin starts the Evictor, and lets a second pass.
func (f *followed) begin(w *bubble.World) {
	w.T.Helper()
	caches := caches.New(w.Client, w.Clock, true)
	f.tries = newBuiltInTries(AccountConfig{Clock: w.Clock, Nodes: caches.Nodes, Pods: caches.Pods}, f.add)
	evictor, err := eviction.New(eviction.Config{
		Client: w.Client, Clock: w.Clock, Nodes: caches.Nodes, Pods: caches.Pods, BuiltIn: f, NeverStamp: true,
	})
	w.Must(nil, err)
	w.Run("the Evictor", caches.With(evictor.Run))
	w.Pass(time.Second)
}

func (f *followed) Decided(node string) time.Time { return f.tries.seeNode(node) }

func (f *followed) Recorded(_ context.Context, node string, since time.Time) error {
	f.tries.seeNodeSince(node, since)
	return nil
}

func (f *followed) add(is builtin.NodeTries) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, is)
}

// begun returns how many tries have begun.
func (f *followed) begun() (tries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, is := range f.all {
		tries += is.Begun
	}
	return tries
}

// last returns the last report.
func (f *followed) last() builtin.NodeTries {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[len(f.all)-1]
}

func TestTheBuiltInTriesEachPodOnceWhenItIsDueAndAgainAtEachChangeOfItsTaints(t *testing.T) {
	for name, test := range map[string]struct {
		play func(w *bubble.World)
		want int
	}{
		"not tolerated":          {func(w *bubble.World) { w.Taint("n", "k:NoExecute") }, 2},
		"tolerated for a minute": {func(w *bubble.World) { w.Taint("n", "patient:NoExecute"); w.Pass(2 * time.Minute) }, 3}, // one of them is patient
		"not due yet":            {func(w *bubble.World) { w.Taint("n", "patient:NoExecute"); w.Pass(30 * time.Second) }, 2},
		"another taint": {func(w *bubble.World) {
			w.Taint("n", "k:NoExecute")
			w.Pass(time.Second)
			w.Taint("n", "other:NoExecute")
		}, 5},
		"a heartbeat": {func(w *bubble.World) { w.Taint("n", "k:NoExecute"); w.Pass(time.Second); w.Heartbeat("n") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(w *bubble.World, built *followed) {
				w.AddPod("p", "n")
				w.AddPod("q", "n")
				w.AddPod("patient", "n", rig.Tolerating("patient", 60), rig.Tolerating("k", 3600))
				built.begin(w)
				test.play(w)
				w.Pass(time.Second)
				if got := built.begun(); got != test.want {
					t.Errorf("%d tries are reported, want %d", got, test.want)
				}
			})
		})
	}
}

// After a restart the built-in tries all of them.
func TestAllPodsThatAreDueAreReportedWhateverTheyWaitFor(t *testing.T) {
	for name, test := range map[string]struct {
		play func(w *bubble.World)
		want int
	}{
		"refused by a webhook":       {func(*bubble.World) {}, 4},
		"one tolerates it for now":   {func(w *bubble.World) { w.ChangePod("p", rig.Tolerating("k", 3600)) }, 3},
		"one tolerated it until now": {func(w *bubble.World) { w.ChangePod("p", rig.Tolerating("k", 60)); w.Pass(2 * time.Minute) }, 4},
		"one terminates": {func(w *bubble.World) {
			w.ChangePod("p", func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"}
			})
		}, 4},
		"a node is untainted":       {func(w *bubble.World) { w.Taint("n", "k-") }, 2},
		"the other node is deleted": {func(w *bubble.World) { w.DeleteNode("m") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(w *bubble.World, built *followed) {
				w.AddNode("m", "")
				w.AddPod("p", "n")
				w.AddPod("q", "n")
				w.AddPod("r", "m")
				w.AddPod("s", "m")
				built.begin(w)
				w.Taint("n", "k:NoExecute")
				w.Taint("m", "k:NoExecute")
				w.Pass(time.Second)
				test.play(w)
				w.Pass(time.Second)
				if got := built.last().Due; got != test.want {
					t.Errorf("%d pods are reported as due, want %d", got, test.want)
				}
			})
		})
	}
}

func TestPodsThatWereDueAndStayAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		spare func(w *bubble.World)
		want  bool
	}{
		"the node is untainted": {func(w *bubble.World) { w.Taint("n", "k-") }, true},
		"the node is deleted and made again": {func(w *bubble.World) {
			w.DeleteNode("n")
			w.Pass(time.Second)
			w.AddNode("n", "")
		}, true},
		"one tolerates the taint now":                 {func(w *bubble.World) { w.ChangePod("p", rig.Tolerating("k", 3600)) }, true},
		"one was never due":                           {func(*bubble.World) {}, false},
		"untainted and tainted again":                 {func(w *bubble.World) { w.Taint("n", "k-"); w.Pass(time.Second); w.Taint("n", "k:NoExecute") }, false},
		"a taint that is tolerated for a while stays": {func(w *bubble.World) { w.Taint("n", "k-", "later:NoExecute") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(w *bubble.World, built *followed) {
				w.AddPod("p", "n", rig.Tolerating("later", 3600))
				w.AddPod("q", "n", rig.Tolerating("later", 3600))
				w.AddPod("daemon", "n", rig.Tolerating("k", 3600))
				built.begin(w)
				w.Taint("n", "k:NoExecute")
				w.Pass(time.Second)
				test.spare(w)
				w.Pass(time.Second)
				if got := !built.last().Spared.IsZero(); got != test.want {
					t.Errorf("reported as spared: %t, want %t", got, test.want)
				}
			})
		})
	}
}

// The built-in has seen the taint, however short it was.
func TestATaintThatComesAndGoesBetweenTwoDecisionsIsReportedToo(t *testing.T) {
	follow(t, func(w *bubble.World, built *followed) {
		w.AddPod("p", "n")
		built.begin(w)
		w.Taint("n", "k:NoExecute")
		w.Taint("n", "k-")
		w.Pass(time.Second)
		if tries := built.begun(); tries != 1 {
			t.Errorf("%d tries are reported, want one", tries)
		}
		if built.last().Spared.IsZero() {
			t.Error("the node is not reported as spared")
		}
	})
}

// The built-in's timer stays at 10 s when another taint, which is tolerated for longer, remains: processPodOnNode
// returns if something is scheduled already.
func TestTheBuiltInsTimerStaysWhenTheTaintThatSetItGoes(t *testing.T) {
	for name, second := range map[string]func(w *bubble.World){
		"both taints from the start": func(w *bubble.World) {
			w.Taint("n", "soon:NoExecute", "late:NoExecute")
			w.Pass(5 * time.Second)
			w.Taint("n", "soon-")
		},
		"the second instead of the first": func(w *bubble.World) {
			w.Taint("n", "soon:NoExecute")
			w.Pass(5 * time.Second)
			w.Taint("n", "soon-", "late:NoExecute")
		},
		"the pod tolerates it for longer": func(w *bubble.World) {
			w.Taint("n", "soon:NoExecute")
			w.Pass(5 * time.Second)
			w.ChangePod("p", func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = new(int64(3600)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(w *bubble.World, built *followed) {
				w.AddPod("p", "n", rig.Tolerating("soon", 10), rig.Tolerating("late", 3600))
				built.begin(w)
				second(w)
				w.Pass(6 * time.Second) // the built-in fires
				if got := built.begun(); got != 1 {
					t.Errorf("%d tries are reported, the built-in made 1", got)
				}
				w.Taint("n", map[bool]string{true: "soon-", false: "late-"}[name == "the pod tolerates it for longer"])
				w.Pass(time.Second)
				if built.last().Spared.IsZero() {
					t.Error("the node is not reported as spared")
				}
			})
		})
	}
}

func TestTheBuiltInTriesPodsThatTerminateToo(t *testing.T) {
	follow(t, func(w *bubble.World, built *followed) {
		w.AddPod("p", "n")
		built.begin(w)
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Second)
		w.ChangePod("p", func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			p.Finalizers = []string{"x"}
		})
		w.Pass(time.Second)
		w.Taint("n", "other:NoExecute")
		w.Pass(time.Second)
		w.Taint("n", "other-")
		w.Pass(time.Second)
		if got := built.begun(); got != 3 {
			t.Errorf("%d tries are reported, the built-in made 3", got)
		}
	})
}
