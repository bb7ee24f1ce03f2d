// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow watches a cluster for commands that show or wait for changes: leaving --watch, board and taint --wait.
//
//	reflectors, one for each feed -> one goroutine that handles the changes -> Act, which rests between changes
package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Follower watches feeds and passes their objects to one goroutine. The functions of its feeds, Called, Listed, Act and
// functions passed to Do run on that goroutine, so their shared state needs no lock.
//
// It restarts broken watches until the context ends, because rights may be granted and kinds installed meanwhile.
type Follower struct {
	// Feeds are the feeds to watch.
	Feeds []Feed
	// Also runs in parallel with the watches until its context ends. It passes its results to Do.
	Also []func(ctx context.Context)
	// Called is called with the result of each call to list or watch a feed, unless the call ended normally.
	Called func(ctx context.Context, feed Feed, verb string, err error)
	// Listed is called when a feed has delivered all objects. It is optional.
	Listed func(feed Feed)
	// Act is called soon after changes, and when the time that it last returned has passed.
	Act func() (again time.Duration)
	// Rest is how long changes are collected after a call of Act before it is called again.
	Rest time.Duration

	do       chan func()
	unlisted map[string]bool
	broken   map[string]error
	stopped  bool
	err      error
}

// NotYet is what Act returns if it did nothing because it needs more data. It is then called right after the next
// change, or in a second if there is none.
const NotYet time.Duration = 0

// New returns a Follower without feeds. Run starts it.
func New(rest time.Duration) *Follower {
	return &Follower{Rest: rest, do: make(chan func()), unlisted: map[string]bool{}, broken: map[string]error{}}
}

// Run follows until the context ends or Stop is called. It returns the argument of Stop, after everything has stopped.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // Called reports broken watches
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, feed := range f.Feeds {
		f.unlisted[feed.id()] = true
		running.Go(func() { f.watch(ctx, feed) })
	}
	for _, also := range f.Also {
		running.Go(func() { also(ctx) })
	}
	again, rested := time.NewTimer(0), time.NewTimer(0)
	defer again.Stop()
	defer rested.Stop()
	changed, resting := false, false
	act := func() {
		changed = false
		after := f.Act()
		if resting = after != NotYet; resting {
			again.Reset(after)
			rested.Reset(f.Rest)
			return
		}
		again.Reset(time.Second)
	}
	for !f.stopped {
		select {
		case <-ctx.Done():
			return nil
		case do := <-f.do:
			do()
			if changed = true; !resting && !f.stopped {
				act()
			}
		case <-rested.C:
			if resting = false; changed {
				act()
			}
		case <-again.C:
			act()
		}
	}
	return f.err
}

// Synced reports whether every feed has delivered all objects once. Only code on the goroutine may call it.
func (f *Follower) Synced() bool { return len(f.unlisted) == 0 }

// Broken returns why feeds are currently not watched: one of their calls failed, and no watch has begun since then (or,
// if the watch streams a list, no list has been completed). Their objects may be out of date. Only code on the
// goroutine may call it.
func (f *Follower) Broken() error {
	var errs []error
	for _, feed := range f.Feeds {
		if err := f.broken[feed.id()]; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Stop ends Run, which returns err. Only code on the goroutine may call it.
func (f *Follower) Stop(err error) { f.stopped, f.err = true, err }

// Do runs a function on the goroutine. It returns when the function has begun or the context has ended. Any other
// goroutine may call it while Run runs.
func (f *Follower) Do(ctx context.Context, do func()) {
	select {
	case <-ctx.Done():
	case f.do <- do:
	}
}
