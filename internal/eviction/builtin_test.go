// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// tries counts the tries that were told of a node.
func (b *backlogBook) tries(node string) (tries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.told {
		if d.Node == node {
			tries += d.Tries
		}
	}
	return tries
}

// spared returns the pods that were last told to be spared, in order.
func (b *backlogBook) spared() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range slices.Backward(b.told) {
		if len(d.Spared) > 0 {
			return slices.Sorted(slices.Values(d.Spared))
		}
	}
	return nil
}

func (b *backlogBook) use(c *Config) { c.BuiltIn = b }

func TestTheBuiltInTriesEachPodOnceWhenItIsDueAndAgainAtEachChangeOfItsTaints(t *testing.T) {
	keep := func(w *world) { w.on("delete", "pods", "", func() error { return errors.New("not now") }) }
	for name, test := range map[string]struct {
		play func(w *world)
		want int
	}{
		"not tolerated":          {func(w *world) { w.taint("n", "k:NoExecute") }, 2},
		"tolerated for a minute": {func(w *world) { w.taint("n", "patient:NoExecute"); w.pass(2 * time.Minute) }, 3}, // one of them is patient
		"not due yet":            {func(w *world) { w.taint("n", "patient:NoExecute"); w.pass(30 * sec) }, 2},
		"another taint":          {func(w *world) { w.taint("n", "k:NoExecute"); w.pass(sec); w.taint("n", "other:NoExecute") }, 5},
		"a heartbeat":            {func(w *world) { w.taint("n", "k:NoExecute"); w.pass(sec); w.heartbeat("n") }, 2},
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
				w.until(sec)
				test.play(w)
				w.pass(sec)
				if got := book.tries("n"); got != test.want {
					t.Errorf("%d tries are told, want %d", got, test.want)
				}
			})
		})
	}
}

func TestPodsThatWereDueAndStayAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		spare func(w *world)
		want  []types.UID
	}{
		"the node is untainted":       {func(w *world) { w.taint("n", "k-") }, []types.UID{"uid-of-p", "uid-of-q"}},
		"one tolerates the taint now": {func(w *world) { w.changePod("p", tolerating("k", 3600)) }, []types.UID{"uid-of-p"}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				var book backlogBook
				w.on("delete", "pods", "", func() error { return errors.New("not now") })
				w.addNode("n")
				w.addPod("p")
				w.addPod("q")
				w.addPod("daemon", tolerating("k", 3600))
				w.run(book.use)
				w.until(sec)
				w.taint("n", "k:NoExecute")
				w.pass(sec)
				test.spare(w)
				w.pass(sec)
				if got := book.spared(); !slices.Equal(got, test.want) {
					t.Errorf("told as spared are %v, want %v", got, test.want)
				}
			})
		})
	}
}

// The built-in has seen the taint, however short it was.
func TestATaintThatComesAndGoesBetweenTwoDecisionsIsToldToo(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var book backlogBook
		w.on("patch", "pods", "status", func() error { return errors.New("not now") })
		w.addNode("n")
		w.addPod("p")
		w.run(book.use)
		w.until(sec)
		w.taint("n", "k:NoExecute")
		w.taint("n", "k-")
		w.pass(sec)
		if tries := book.tries("n"); tries != 1 {
			t.Errorf("%d tries are told, want one", tries)
		}
		if got := book.spared(); !slices.Equal(got, []types.UID{"uid-of-p"}) {
			t.Errorf("told as spared are %v, want p", got)
		}
	})
}

func TestNoPodIsEvictedBeforeTheBuiltInsBacklogIsRecorded(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		book := backlogBook{refusal: errors.New("no connection")}
		w.addNode("n")
		w.addPod("p")
		w.run(book.use)
		w.taint("n", "k:NoExecute")
		w.pass(10 * sec)
		w.wantDeletes(nil)
		if at := w.did("patch p"); len(at) != 0 {
			t.Errorf("the pod was patched at %v", at)
		}
		if retries, ok := w.metric("taintkeeper_retries_total", "NotRecorded"); !ok || retries == 0 {
			t.Error("no try is counted as NotRecorded")
		}
		book.refuse(nil)
		w.pass(time.Minute)
		if at := w.did("delete p"); len(at) != 1 {
			t.Errorf("deleted at %v, want once, after that", at)
		}
	})
}
