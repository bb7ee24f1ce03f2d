// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// world is a cluster with an API: client-go's fake clientset, in virtual time, with what it lacks: resource versions,
// UIDs as preconditions, a status that is written separately, calls that take time, and a book of how nodes looked. It
// lives in one synctest bubble.
type world struct {
	client *fake.Clientset

	mu      sync.Mutex
	cluster *cluster
	news    arena.News
	looks   outcome
	passes  []time.Duration // when upstream began to look at all nodes
	writes  map[string]int  // of each node
	events  []*corev1.Event
}

func newWorld(h *history) *world {
	w := &world{
		client:  &fake.Clientset{},
		cluster: newCluster(),
		news:    arena.News{},
		looks:   outcome{},
		writes:  map[string]int{},
	}
	w.cluster.nodeChanged = func(before, after *corev1.Node) {
		w.looks.note(cmp.Or(after, before).Name, after, arena.Now())
		arena.Tell(w.news, "nodes", before, after, w.cluster.version)
	}
	w.cluster.leaseChanged = func(before, after *coordinationv1.Lease) {
		arena.Tell(w.news, "leases", before, after, w.cluster.version)
	}
	w.cluster.begin(h)
	w.client.AddReactor("*", "*", w.react)
	w.client.AddWatchReactor("*", w.watch)
	return w
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stream, err := w.news.Watch(action)
	return true, stream, err
}
