// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

// Sweeps play one scenario again and again, and each time something else is in its way: at its first call, at its
// second, and so on. They end when there is no such call any longer. With -short they play only one in so many calls,
// not always the same ones: others after calls than before them, and others with each fault.

var errKilled = errors.New("the process is gone")

// Killed is a process that is killed at one of its calls: before it, or after it was carried out and before its answer
// came. Safe for concurrent use.
type Killed struct {
	after bool

	mu   sync.Mutex
	call int // at which it is killed; zero once it is gone
	seen int
	at   Request
	gone chan struct{}
}

// KillAtEveryCall plays a scenario once for each call before which the process can be killed, and once for each after
// which it can.
func KillAtEveryCall(t *testing.T, oneIn int, play func(t *testing.T, k *Killed)) {
	t.Helper()
	stride := sample.Stride(t, oneIn)
	for i, after := range []bool{false, true} {
		sweep(t, 1+i*stride/2, stride, func(call int) bool {
			k := &Killed{after: after, call: call}
			play(t, k)
			return k.call == 0
		})
	}
}

// sweep plays steps, the first and every one that is a stride after another, until there is no such step.
func sweep(t *testing.T, first, stride int, play func(step int) (there bool)) {
	t.Helper()
	step := first
	for play(step) {
		step += stride
	}
	if step == first {
		t.Errorf("there is no step %d, so nothing was disturbed", first)
	}
}

// String says when it is killed.
func (k *Killed) String() string {
	return fmt.Sprintf("killed at call %d, %s %s %s (carried out: %t)", k.seen, k.at.Verb, k.at.Resource, k.at.Name, k.after)
}

// Lives runs a process, and another when it is killed. Each is made from the client that it uses. Only calls that
// counts accepts are counted; a process that is gone makes none of them.
func (k *Killed) Lives(w *World, counts func(Request) bool,
	process func(client *Slow) func(context.Context) error,
) {
	w.T.Helper()
	k.gone = make(chan struct{})
	hook := func(after bool) Hook {
		return func(_ context.Context, r Request) error {
			if counts(r) && k.dies(r, after) {
				return errKilled
			}
			return nil
		}
	}
	w.Run("the process that is killed", process(&Slow{Clientset: w.Client, Before: hook(false), After: hook(true)}))
	go func() {
		select {
		case <-k.gone:
			w.Stop()
			if err := process(&Slow{Clientset: w.Client})(w.T.Context()); err != nil {
				w.T.Errorf("the next process ended with: %v", err)
			}
		case <-w.T.Context().Done():
		}
	}()
}

func (k *Killed) dies(r Request, after bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.call == 0 {
		return true
	}
	if k.after != after {
		return false
	}
	if k.seen++; k.seen < k.call {
		return false
	}
	k.call, k.at = 0, r
	close(k.gone)
	return true
}

// Fault is what can happen to the watches of a resource at one of their events. All of it is what API servers do: an
// event is never lost without a list after it, comes twice only with a list, and overtakes those of other resources
// only.
type Fault struct {
	Name string
	// Late is how much later everything may happen because of it.
	Late    time.Duration
	happens func(*Watches)
}

// Faults are what can happen at an event. None lasts as long as three seconds: what comes and goes within an outage is
// never seen, and need not be. A list after an event may make a countdown that has no timeAdded yet begin again.
var Faults = []Fault{
	{"the watch ends before it, and a list comes later", 5 * time.Second, func(w *Watches) {
		w.Break()
		time.AfterFunc(500*time.Millisecond, w.Repair) // client-go lists again after up to 1.6 s
	}},
	{"a list brings it once more", 5 * time.Second, func(w *Watches) { time.AfterFunc(time.Millisecond, w.Expire) }},
	{"those of the other resource overtake it", 3 * time.Second, func(w *Watches) {
		w.Hold()
		time.AfterFunc(2500*time.Millisecond, w.Release)
	}},
}

// Disturbed is a cluster in which a fault happens at one event. Safe for concurrent use.
type Disturbed struct {
	Fault

	mu    sync.Mutex
	event int // at which it happens
	seen  int
}

// DisturbEveryEvent plays a scenario once for each event of the watches of nodes and pods, and for each fault.
func DisturbEveryEvent(t *testing.T, oneIn int, play func(t *testing.T, d *Disturbed)) {
	t.Helper()
	stride := sample.Stride(t, oneIn)
	for i, fault := range Faults {
		sweep(t, 1+i*stride/len(Faults), stride, func(event int) bool {
			d := &Disturbed{Fault: fault, event: event}
			play(t, d)
			return d.seen >= event
		})
	}
}

// String says what happened.
func (d *Disturbed) String() string { return fmt.Sprintf("event %d: %s", d.event, d.Name) }

// In disturbs a world from now on.
func (d *Disturbed) In(w *World) {
	for _, resource := range []string{"nodes", "pods"} {
		watches := w.API.Watches(resource)
		watches.Before(func() {
			if d.isNow() {
				d.happens(watches)
			}
		})
	}
}

func (d *Disturbed) isNow() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen++
	return d.seen == d.event
}
