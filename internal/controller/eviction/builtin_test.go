// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// backlogBook is a BuiltIn that notes what it is told.
type backlogBook struct {
	mu      sync.Mutex
	told    []NodeDecision
	refusal error // to record
}

func (b *backlogBook) Decided(d NodeDecision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, d)
}

func (b *backlogBook) Recorded(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal
}

func (b *backlogBook) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = err
}

// tries returns how many tries it was told about.
func (b *backlogBook) tries() (tries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.told {
		tries += d.Tries
	}
	return tries
}

// due returns how many pods are due, according to the last decision.
func (b *backlogBook) due() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.told) == 0 {
		return 0
	}
	return b.told[len(b.told)-1].Due
}

// spared reports whether, according to the last decision, the node has a pod that was tried and stays.
func (b *backlogBook) spared() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.told) > 0 && !b.told[len(b.told)-1].Spared.IsZero()
}

func (b *backlogBook) use(c *Config) { c.BuiltIn = b }

func TestTheBuiltInTriesEachPodOnceWhenItIsDueAndAgainAtEachChangeOfItsTaints(t *testing.T) {
	keep := func(w *world) { w.On("delete", "pods", "", func() error { return errors.New("not now") }) }
	for name, test := range map[string]struct {
		play func(w *world)
		want int
	}{
		"not tolerated":          {func(w *world) { w.Taint("n", "k:NoExecute") }, 2},
		"tolerated for a minute": {func(w *world) { w.Taint("n", "patient:NoExecute"); w.Pass(2 * time.Minute) }, 3}, // one of them is patient
		"not due yet":            {func(w *world) { w.Taint("n", "patient:NoExecute"); w.Pass(30 * sec) }, 2},
		"another taint":          {func(w *world) { w.Taint("n", "k:NoExecute"); w.Pass(sec); w.Taint("n", "other:NoExecute") }, 5},
		"a heartbeat":            {func(w *world) { w.Taint("n", "k:NoExecute"); w.Pass(sec); w.Heartbeat("n") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				var book backlogBook
				keep(w)
				w.addNode("n")
				w.addPod("p")
				w.addPod("q")
				w.addPod("patient", tolerating("patient", 60), tolerating("k", 3600))
				w.run(book.use, func(c *Config) { c.NeverStamp = true })
				w.Until(sec)
				test.play(w)
				w.Pass(sec)
				if got := book.tries(); got != test.want {
					t.Errorf("%d tries are reported, want %d", got, test.want)
				}
			})
		})
	}
}

// After a restart the built-in tries all of them.
func TestAllPodsThatAreDueAreReportedWhateverTheyWaitFor(t *testing.T) {
	for name, test := range map[string]struct {
		play func(w *world)
		want int
	}{
		"refused by a webhook":       {func(*world) {}, 4},
		"one tolerates it for now":   {func(w *world) { w.ChangePod("p", tolerating("k", 3600)) }, 3},
		"one tolerated it until now": {func(w *world) { w.ChangePod("p", tolerating("k", 60)); w.Pass(2 * time.Minute) }, 4},
		"one terminates": {func(w *world) {
			w.ChangePod("p", func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"}
			})
		}, 4},
		"a node is untainted":       {func(w *world) { w.Taint("n", "k-") }, 2},
		"the other node is deleted": {func(w *world) { w.DeleteNode("m") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				var book backlogBook
				w.On("delete", "pods", "", func() error { return errors.New("not now") })
				for _, node := range []string{"n", "m"} {
					w.addNode(node)
				}
				w.addPod("p")
				w.addPod("q")
				w.AddPod("r", "m")
				w.AddPod("s", "m")
				w.run(book.use, func(c *Config) { c.NeverStamp = true })
				w.Until(sec)
				w.Taint("n", "k:NoExecute")
				w.Taint("m", "k:NoExecute")
				w.Pass(sec)
				test.play(w)
				w.Pass(sec)
				if got := book.due(); got != test.want {
					t.Errorf("%d pods are reported as due, want %d", got, test.want)
				}
			})
		})
	}
}

func TestPodsThatWereDueAndStayAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		spare func(w *world)
		want  bool
	}{
		"the node is untainted": {func(w *world) { w.Taint("n", "k-") }, true},
		"the node is deleted and made again": {func(w *world) {
			w.DeleteNode("n")
			w.Pass(sec)
			w.addNode("n")
		}, true},
		"one tolerates the taint now":                 {func(w *world) { w.ChangePod("p", tolerating("k", 3600)) }, true},
		"one was never due":                           {func(*world) {}, false},
		"untainted and tainted again":                 {func(w *world) { w.Taint("n", "k-"); w.Pass(sec); w.Taint("n", "k:NoExecute") }, false},
		"a taint that is tolerated for a while stays": {func(w *world) { w.Taint("n", "k-", "later:NoExecute") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				var book backlogBook
				w.On("delete", "pods", "", func() error { return errors.New("not now") })
				w.addNode("n")
				w.addPod("p", tolerating("later", 3600))
				w.addPod("q", tolerating("later", 3600))
				w.addPod("daemon", tolerating("k", 3600))
				w.run(book.use)
				w.Until(sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(sec)
				test.spare(w)
				w.Pass(sec)
				if got := book.spared(); got != test.want {
					t.Errorf("reported as spared: %t, want %t", got, test.want)
				}
			})
		})
	}
}

// The built-in has seen the taint, however short it was.
func TestATaintThatComesAndGoesBetweenTwoDecisionsIsReportedToo(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var book backlogBook
		w.On("patch", "pods", "status", func() error { return errors.New("not now") })
		w.addNode("n")
		w.addPod("p")
		w.run(book.use)
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Taint("n", "k-")
		w.Pass(sec)
		if tries := book.tries(); tries != 1 {
			t.Errorf("%d tries are reported, want one", tries)
		}
		if !book.spared() {
			t.Error("the node is not reported as spared")
		}
	})
}

func TestNoPodIsEvictedBeforeTheBuiltInsBacklogIsRecorded(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		book := backlogBook{refusal: errors.New("no connection")}
		w.addNode("n")
		w.addPod("p")
		w.run(book.use)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		w.wantDeletes(nil)
		if at := w.Did("patch p"); len(at) != 0 {
			t.Errorf("the pod was patched at %v", at)
		}
		if retries, ok := w.metric("taintkeeper_retries_total", "NotRecorded"); !ok || retries == 0 {
			t.Error("no try is counted as NotRecorded")
		}
		book.refuse(nil)
		w.Pass(time.Minute)
		if at := w.Did("delete p"); len(at) != 1 {
			t.Errorf("deleted at %v, want once, after that", at)
		}
	})
}

// The built-in's timer stays at 10 s when another taint, which is tolerated for longer, remains: processPodOnNode
// returns if something is scheduled already.
func TestTheBuiltInsTimerStaysWhenTheTaintThatSetItGoes(t *testing.T) {
	for name, second := range map[string]func(w *world){
		"both taints from the start": func(w *world) {
			w.Taint("n", "soon:NoExecute", "late:NoExecute")
			w.Pass(5 * sec)
			w.Taint("n", "soon-")
		},
		"the second instead of the first": func(w *world) {
			w.Taint("n", "soon:NoExecute")
			w.Pass(5 * sec)
			w.Taint("n", "soon-", "late:NoExecute")
		},
		"the pod tolerates it for longer": func(w *world) {
			w.Taint("n", "soon:NoExecute")
			w.Pass(5 * sec)
			w.ChangePod("p", func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = new(int64(3600)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				var book backlogBook
				w.On("delete", "pods", "", func() error { return errors.New("not now") })
				w.addNode("n")
				w.addPod("p", tolerating("soon", 10), tolerating("late", 3600))
				w.run(book.use, func(c *Config) { c.NeverStamp = true })
				w.Until(sec)
				second(w)
				w.Pass(6 * sec) // the built-in fires
				if got := book.tries(); got != 1 {
					t.Errorf("%d tries are reported, the built-in made 1", got)
				}
				w.Taint("n", map[bool]string{true: "soon-", false: "late-"}[name == "the pod tolerates it for longer"])
				w.Pass(sec)
				if !book.spared() {
					t.Error("the node is not reported as spared")
				}
			})
		})
	}
}

func TestTheBuiltInTriesPodsThatTerminateToo(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var book backlogBook
		w.On("delete", "pods", "", func() error { return errors.New("not now") })
		w.addNode("n")
		w.addPod("p")
		w.run(book.use, func(c *Config) { c.NeverStamp = true })
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.ChangePod("p", func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			p.Finalizers = []string{"x"}
		})
		w.Pass(sec)
		w.Taint("n", "other:NoExecute")
		w.Pass(sec)
		w.Taint("n", "other-")
		w.Pass(sec)
		if got := book.tries(); got != 3 {
			t.Errorf("%d tries are reported, the built-in made 3", got)
		}
	})
}

// Each write of a taint makes the built-in try all due pods of the node again.
func TestANodeIsNotStampedWhileDuePodsAreLeavingIt(t *testing.T) {
	for name, test := range map[string]struct {
		refused time.Duration // how long nothing is deleted
		stamped time.Duration
	}{
		"they leave at once":             {0, time.Second},
		"they leave after 20 s":          {20 * sec, 20 * sec},
		"they do not leave for a minute": {hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.On("delete", "pods", "", func() error {
					if time.Since(w.Start) < test.refused {
						return errors.New("not now")
					}
					return nil
				})
				w.addNode("n")
				w.addPod("due")
				w.addPod("patient", tolerating("k", 3600))
				w.run((&backlogBook{}).use)
				w.Taint("n", "k:NoExecute")
				w.Pass(5 * time.Minute)
				if at := w.Did("patch n"); len(at) != 1 || at[0] < test.stamped-sec || at[0] > test.stamped+20*sec {
					t.Errorf("stamped at %v, want once, about %v", at, test.stamped)
				}
			})
		})
	}
}
