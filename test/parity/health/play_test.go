// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// played is what happened in a history.
type played struct {
	looks  outcome
	passes []time.Duration
}

// play runs a history with a contestant in a bubble of virtual time of its own.
func play(t *testing.T, h *history, c contestant) played {
	t.Helper()
	return playAndLook(t, h, c, func(*world) {})
}

// playAndLook lets the caller look at the world, too: at its end, within the bubble.
func playAndLook(t *testing.T, h *history, c contestant, look func(*world)) played {
	t.Helper()
	var result played
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(h)
		w.play(h, &arena.Process{T: t, Run: func(ctx context.Context) error { return c(ctx, w) }})
		look(w)
		result = played{w.looks, w.passes}
	})
	return result
}

// play lets a history happen, to the world and to the contestant in it.
func (w *world) play(h *history, contestant *arena.Process) {
	for _, next := range h.occasions() {
		arena.Sleep(next.at - arena.Now())
		synctest.Wait()
		switch {
		case next.starts:
			contestant.Start()
		case isRestart(next):
			contestant.Kill()
		default:
			w.locked(func() { w.cluster.happen(next) })
			synctest.Wait()
		}
	}
	arena.Sleep(h.end() - arena.Now())
	synctest.Wait()
	contestant.Kill()
}

func isRestart(o occasion) bool {
	if o.step == nil {
		return false
	}
	_, ok := o.step.Do.(restart)
	return ok
}
