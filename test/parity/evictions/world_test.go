// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// world is a cluster with an API: client-go's fake clientset, in virtual time, with what it lacks:
// resource versions, UID preconditions, grace periods, watches that are interrupted, and a book of
// the deletes that were accepted. It lives in one synctest bubble.
type world struct {
	client *fake.Clientset
	hasty  bool // the next pod with a name comes before the end of the previous one can be seen

	mu         sync.Mutex
	cluster    *cluster
	news       arena.News
	blindUntil time.Duration
	deletes    outcome
	calls      map[string]int
	events     []*corev1.Event
}

// outcome says about every pod, by UID, when deletes of it were accepted.
type outcome map[string][]time.Duration

func (o outcome) note(uid string, at time.Duration) { o[uid] = append(o[uid], at) }

func newWorld(h *history) *world {
	w := &world{
		client:  &fake.Clientset{},
		cluster: newCluster(h),
		news:    arena.News{},
		deletes: outcome{},
		calls:   map[string]int{},
	}
	w.cluster.nodeChanged = func(before, after *corev1.Node) {
		arena.Tell(w.news, "nodes", before, after, w.cluster.version)
	}
	w.cluster.podChanged = func(before, after *corev1.Pod) {
		arena.Tell(w.news, "pods", before, after, w.cluster.version)
	}
	w.client.AddReactor("*", "*", w.react)
	w.client.AddWatchReactor("*", w.watch)
	for name := range w.cluster.removals {
		w.removeLater(w.cluster.removals[name])
	}
	return w
}

// do does what a step says, and lets what can happen then happen. A pod that is replaced is gone for everybody before
// the next pod with its name comes, unless the replacement is to be unseen.
func (w *world) do(s step) {
	if replacing, ok := s.Do.(create); ok {
		w.locked(func() { w.cluster.vacate(replacing.Pod.Name) })
		w.pause()
	}
	w.locked(func() {
		if _, ok := s.Do.(createUnseen); ok {
			w.interrupt(s.At + blindFor)
		}
		w.cluster.apply(s)
		w.scheduleRemovals()
	})
	synctest.Wait()
}

func (w *world) pause() {
	if !w.hasty {
		synctest.Wait()
	}
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// interrupt ends all watches of pods, as when their resource version is too old to go on from, and
// makes the next list wait.
func (w *world) interrupt(until time.Duration) {
	w.blindUntil = until
	w.news.Interrupt("pods")
}

func (w *world) scheduleRemovals() {
	if next := w.cluster.nextRemoval(); next != never {
		w.removeLater(next)
	}
}

func (w *world) removeLater(at time.Duration) {
	time.AfterFunc(at-arena.Now(), func() {
		w.locked(func() {
			w.cluster.removeEnded(arena.Now())
			w.scheduleRemovals()
		})
	})
}

func (w *world) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stream, err := w.news.Watch(action)
	return true, stream, err
}
