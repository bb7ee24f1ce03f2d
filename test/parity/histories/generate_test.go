// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"math/rand/v2"
	"time"
)

// dice are what a history is made from.
type dice struct{ *rand.Rand }

func (d dice) between(least, most int) int { return least + d.IntN(most-least+1) }

// chance is true in the given percentage of cases.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// generator makes a history.
type generator struct {
	dice

	history history
	at      time.Duration // of the next step
	started time.Duration // when the contestant starts for the last time
}

// happen makes the steps of a history, given how to move on to the instant of the next one, and what may happen then:
// nil when what was drawn is not possible.
func (g *generator) happen(most int, advance func(), next func() action) *history {
	for range g.between(3, most) {
		advance()
		if do := next(); do != nil {
			g.history.Steps = append(g.history.Steps, step{g.at, do})
		}
	}
	return &g.history
}

// restart restarts a contestant that runs.
func (g *generator) restart(down func() time.Duration) action {
	if g.at < g.started {
		return nil
	}
	do := restart{down()}
	g.started = g.at + do.Down
	return do
}
