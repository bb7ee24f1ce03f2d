// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// played is what became of a history.
type played struct {
	looks  outcome
	passes []time.Duration
}

// play plays a history to a contestant in a bubble of virtual time of its own.
func play(t *testing.T, h *history, c contestant) played {
	t.Helper()
	return playAndLook(t, h, c, func(*world) {})
}

// playAndLook lets the caller look at the world, too: at its end, within the bubble.
func playAndLook(t *testing.T, h *history, c contestant, look func(*world)) played {
	t.Helper()
	var result played
	synctest.Test(t, func(t *testing.T) {
		p := player{t: t, world: newWorld(h), contestant: c}
		p.play(h)
		look(p.world)
		result = played{p.world.looks, p.world.passes}
	})
	return result
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
		synctest.Wait()
		switch {
		case next.starts:
			p.start()
		case isRestart(next):
			p.kill()
		default:
			p.world.locked(func() { p.world.cluster.happen(next) })
			synctest.Wait()
		}
	}
	sleep(h.end() - now())
	synctest.Wait()
	p.kill()
}

func isRestart(o occasion) bool {
	if o.step == nil {
		return false
	}
	_, ok := o.step.Do.(restart)
	return ok
}

func (p *player) start() {
	if p.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.contestant(ctx, p.world) }()
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
