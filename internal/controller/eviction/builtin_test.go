// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// builtIn is a BuiltIn without timers, whose record can be refused.
type builtIn struct{ refusal atomic.Pointer[error] }

func (b *builtIn) Decided(string) time.Time { return time.Time{} }

func (b *builtIn) Recorded(context.Context, string, time.Time) error {
	if refusal := b.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

func (b *builtIn) use(c *Config) { c.BuiltIn = b }

func TestNoPodIsEvictedBeforeTheBuiltInsBacklogIsRecorded(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var recorded builtIn
		recorded.refusal.Store(new(errors.New("no connection")))
		w.addNode("n")
		w.addPod("p")
		w.run(recorded.use)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		w.wantDeletes(nil)
		if at := w.Did("patch p"); len(at) != 0 {
			t.Errorf("the pod was patched at %v", at)
		}
		if retries, ok := w.metric("taintkeeper_retries_total", "NotRecorded"); !ok || retries == 0 {
			t.Error("no try is counted as NotRecorded")
		}
		recorded.refusal.Store(nil)
		w.Pass(time.Minute)
		if at := w.Did("delete p"); len(at) != 1 {
			t.Errorf("deleted at %v, want once, after that", at)
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
				w.run((&builtIn{}).use)
				w.Taint("n", "k:NoExecute")
				w.Pass(5 * time.Minute)
				if at := w.Did("patch n"); len(at) != 1 || at[0] < test.stamped-sec || at[0] > test.stamped+20*sec {
					t.Errorf("stamped at %v, want once, about %v", at, test.stamped)
				}
			})
		})
	}
}
