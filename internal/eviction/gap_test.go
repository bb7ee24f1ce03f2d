// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// nodeWatch is the watch of nodes, which can be broken: until it is mended nothing is listed and nothing watched.
type nodeWatch struct {
	broken atomic.Bool
	mu     sync.Mutex
	open   watch.Interface
}

func (w *world) breakableNodeWatch() *nodeWatch {
	n := &nodeWatch{}
	// The error is one after which client-go's handler, which knows no virtual time, does not sleep.
	tooOld := apierrors.NewResourceExpired("too old")
	w.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
		return n.broken.Load(), nil, tooOld
	})
	w.client.PrependWatchReactor("nodes", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if n.broken.Load() {
			return true, nil, tooOld
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		var err error
		n.open, err = w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return true, n.open, err
	})
	return n
}

func (n *nodeWatch) breaks() {
	n.broken.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open.Stop()
}

func TestATaintSetAgainWhileTheWatchIsBrokenCountsFromItsSecondSetting(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("patient", tolerating("off", 20))
		w.run()
		w.until(time.Second)
		w.taint("n", "off:NoExecute")
		w.until(5 * time.Second)
		watch.breaks()
		w.until(6 * time.Second)
		node := w.node("n")
		node.Spec.Taints, node.ResourceVersion = nil, "1"
		w.updateNode(node)
		w.until(15 * time.Second)
		node = w.node("n")
		node.Spec.Taints, node.ResourceVersion = w.edit(nil, "off:NoExecute"), "2"
		w.updateNode(node)
		w.until(16 * time.Second)
		watch.broken.Store(false)
		w.until(2 * time.Minute)
		if at := w.did("delete patient"); len(at) != 1 || at[0] < 35*time.Second {
			t.Errorf("deleted at %v, want once and not before 35 s", at)
		}
	})
}

func TestWaitingForTheWatchDoesNotLengthenTheBackoffOfAFailedCall(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		var tries atomic.Int32
		w.on("delete", "pods", "", func() error {
			if tries.Add(1) == 1 {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addStampedNode("n", "off:NoExecute")
		w.addPod("patient", tolerating("off", 6))
		w.run()
		stamped := w.node("n").Spec.Taints
		w.until(4 * time.Second)
		watch.breaks()
		w.taint("n", "off:NoExecute-")
		w.until(14 * time.Second) // since 6 s the pod is due by the cache, and the live read says that it is not
		node := w.node("n")
		node.Spec.Taints = stamped
		w.updateNode(node)
		w.until(time.Minute)
		if at := w.did("delete patient"); len(at) != 2 || at[1]-at[0] > time.Second {
			t.Errorf("DELETEs at %v, want the second soon after the first, which failed", at)
		}
	})
}
