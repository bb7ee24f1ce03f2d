// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// play runs a history with a contestant in a bubble of virtual time of its own, and returns which pods it deleted and
// when.
func play(t *testing.T, h *history, c contestant) outcome {
	t.Helper()
	return playAndLook(t, h, c, func(*world) {})
}

// playAndLook lets the caller look at the world, too: at its end, within the bubble.
func playAndLook(t *testing.T, h *history, c contestant, look func(*world)) outcome {
	t.Helper()
	return playIn(t, newWorld, h, c, look)
}

// playIn plays in a world that the caller makes.
func playIn(t *testing.T, world func(*history) *world, h *history, c contestant, look func(*world)) outcome {
	t.Helper()
	var deletes outcome
	synctest.Test(t, func(t *testing.T) {
		w := world(h)
		w.play(h, &arena.Process{T: t, Run: func(ctx context.Context) error { return c(ctx, w.client) }})
		look(w)
		deletes = w.deletes
	})
	return deletes
}

// play lets a history happen, to the world and to the contestant in it.
func (w *world) play(h *history, contestant *arena.Process) {
	for _, next := range h.occasions() {
		arena.Sleep(next.at - arena.Now())
		switch {
		case next.step == nil:
			contestant.Start()
		case isRestart(next.step.Do):
			contestant.Kill()
		default:
			w.do(*next.step)
		}
	}
	arena.Sleep(h.end() - arena.Now())
	synctest.Wait()
	contestant.Kill()
}

func isRestart(do action) bool {
	_, ok := do.(restart)
	return ok
}
