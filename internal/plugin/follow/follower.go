// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow watches a cluster for commands that show or wait for changes: pending --watch, the board and
// taint --wait.
//
//	reflectors, one for each feed -> one goroutine that takes the changes -> Act, which rests between changes
package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Follower watches feeds and hands what they bring to one goroutine. The functions of its feeds, Called, Listed, Act
// and those passed to Do run on that goroutine, so what they share needs no lock.
//
// A watch that breaks is started again, until the context ends: rights can be granted and kinds installed meanwhile.
type Follower struct {
	// Feeds are watched.
	Feeds []Feed
	// Also runs next to the watches until its context ends. It passes what it finds to Do.
	Also []func(ctx context.Context)
	// Called is told how each call to list or watch a feed ended, unless it ended as watches usually do.
	Called func(ctx context.Context, feed Feed, verb string, err error)
	// Listed is told that all objects of a feed have been brought. It is optional.
	Listed func(feed Feed)
	// Act is called soon after changes, and when the time that it returned last has passed.
	Act func() (again time.Duration)
	// Rest is for how long changes are gathered after a call of Act, before they make it act again.
	Rest time.Duration

	do       chan func()
	unlisted map[string]bool
	broken   map[string]error
	stopped  bool
	err      error
}

// NotYet is what Act returns if it did nothing because it needs more. It is called right after the next change, and in
// a second if there is none.
const NotYet time.Duration = 0

// New returns a Follower without feeds. Run makes it live.
func New(rest time.Duration) *Follower {
	return &Follower{Rest: rest, do: make(chan func()), unlisted: map[string]bool{}, broken: map[string]error{}}
}

// Run follows until the context ends or Stop is called. It returns what Stop was given, once nothing runs any more.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // Called tells of watches that break
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

// Synced reports whether all objects of every feed have been brought once. Only what runs on the goroutine may ask.
func (f *Follower) Synced() bool { return len(f.unlisted) == 0 }

// Broken returns why feeds are not watched now: of each that had a call fail and no watch begin since, or its list
// end if the watch streams one. What they brought last may be out of date. Only what runs on the goroutine may ask.
func (f *Follower) Broken() error {
	var errs []error
	for _, feed := range f.Feeds {
		if err := f.broken[feed.id()]; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Stop ends Run, which returns err. Only what runs on the goroutine may call it.
func (f *Follower) Stop(err error) { f.stopped, f.err = true, err }

// Do runs a function on the goroutine, and returns when that has begun or the context has ended. Everybody but the
// goroutine itself may call it, while Run runs.
func (f *Follower) Do(ctx context.Context, do func()) {
	select {
	case <-ctx.Done():
	case f.do <- do:
	}
}
