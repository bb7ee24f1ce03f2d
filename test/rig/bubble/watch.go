// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// WatchNodesFromTheirList closes the gap that the fake clientset leaves between a reflector's list and its watch. What
// changes in between is lost; a real API server goes on from the version of the list. A watch that begins while late
// returns one is late; nil: it is not.
func WatchNodesFromTheirList(client *fake.Clientset, late func() *LateWatch) {
	var begun watch.Interface
	client.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if list, ok := action.(clienttesting.ListActionImpl); !ok || list.ListOptions.Limit == 0 {
			return false, nil, nil // not a reflector
		}
		if begun != nil {
			begun.Stop()
		}
		var err error
		begun, err = client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return err != nil, nil, err
	})
	client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		stream := begun
		begun = nil
		if slow := late(); stream != nil && slow != nil {
			stream = slow.through(stream)
		}
		return stream != nil, stream, nil
	})
}

// LateWatch keeps what a watch brings back for a while, in its order. Safe for concurrent use.
type LateWatch struct {
	mu   sync.Mutex
	held bool
	kept []watch.Event
	to   *watch.RaceFreeFakeWatcher
}

// Hold keeps back what comes from now on.
func (l *LateWatch) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Breaks ends the watch, and with it what was kept back: only a list will tell of it.
func (l *LateWatch) Breaks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.kept = false, nil
	tooOld := apierrors.NewResourceExpired("too old").Status()
	l.to.Error(&tooOld)
	l.to.Stop()
}

// Release brings what was kept back, and from then on what comes.
func (l *LateWatch) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	for _, event := range l.kept {
		l.to.Action(event.Type, event.Object)
	}
	l.kept = nil
}

func (l *LateWatch) through(stream watch.Interface) watch.Interface {
	passed := watch.NewRaceFreeFake()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.kept = passed, nil
	go func() {
		defer passed.Stop()
		for event := range stream.ResultChan() {
			l.brings(event, passed)
		}
	}()
	return PassedOn{passed, stream}
}

func (l *LateWatch) brings(event watch.Event, to *watch.RaceFreeFakeWatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case to != l.to: // nobody watches it any more
	case l.held:
		l.kept = append(l.kept, event)
	default:
		to.Action(event.Type, event.Object)
	}
}

// PassedOn is a watch that gets its events from another, and stops it, too.
type PassedOn struct {
	watch.Interface

	From watch.Interface
}

// Stop implements watch.Interface.
func (p PassedOn) Stop() {
	p.From.Stop()
	p.Interface.Stop()
}
