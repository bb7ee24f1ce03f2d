// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"testing"
	"testing/synctest"
)

// play plays a history to a contestant in a bubble of virtual time of its own, and returns which
// pods it deleted and when.
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
		p := player{t: t, world: world(h), contestant: c}
		p.play(h)
		look(p.world)
		deletes = p.world.deletes
	})
	return deletes
}

type player struct {
	t          *testing.T
	world      *world
	contestant contestant
	stop       func() // nil while nobody runs
}

func (p *player) play(h *history) {
	for _, next := range h.occasions() {
		sleep(next.at - now())
		switch {
		case next.step == nil:
			p.start()
		case isRestart(next.step.Do):
			p.kill()
		default:
			p.world.do(*next.step)
		}
	}
	sleep(h.end() - now())
	synctest.Wait()
	p.kill()
}

func isRestart(do action) bool {
	_, ok := do.(restart)
	return ok
}

func (p *player) start() {
	if p.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.contestant(ctx, p.world.client) }()
	p.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("the contestant ended with: %v", err)
		}
	}
	synctest.Wait()
}

func (p *player) kill() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.stop = nil
	synctest.Wait()
}
