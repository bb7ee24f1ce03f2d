// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// contestant works in a world, from its start until the context ends: one process of a controller.
type contestant func(ctx context.Context, w *world) error

// play plays a history to a contestant in a bubble of virtual time of its own, and returns the world as it then is.
// What is next to it in the world, unless nil, lives as long as the bubble.
func play(t *testing.T, h *history, c contestant, nextToIt ...func(*testing.T, *world)) *world {
	t.Helper()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(h)
		for _, start := range nextToIt {
			start(t, w)
		}
		p := process{t: t, world: w, contestant: c}
		for _, o := range h.occasions() {
			sleepUntil(o.at)
			synctest.Wait()
			switch {
			case o.starts:
				p.start()
			case o.kills():
				p.kill()
			default:
				w.happen(o)
			}
		}
		sleepUntil(h.end())
		synctest.Wait()
		p.kill()
	})
	return w
}

// process is the process of a contestant, which a history starts and kills, one run after the other.
type process struct {
	t          *testing.T
	world      *world
	contestant contestant
	stop       func() // nil while it does not run
}

func (p *process) start() {
	if p.stop == nil {
		p.stop = bubble.Run(p.t, "the contestant", func(ctx context.Context) error { return p.contestant(ctx, p.world) })
	}
}

func (p *process) kill() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.stop = nil
	synctest.Wait()
}
