// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"runtime"

	"golang.org/x/sync/errgroup"
)

// World is one state of a small world, together with all that can happen next.
type World interface {
	// Steps returns what can happen now. Equal states return the same steps in the same order.
	Steps() []Step
	// Clone returns a copy that has nothing in common with the world.
	Clone() World
	// Fingerprint is equal for states that nothing can tell apart from now on.
	Fingerprint() Fingerprint
	// Broken returns the promise that the last step broke; empty if it broke none.
	Broken() string
}

// Step is something that can happen. It changes the world that returned it, and returns the line of a timeline.
type Step func() string

// Search walks all histories of a world, breadth first, so that what it finds is as short as possible. Two searches of
// the same world find the same.
type Search struct {
	// New returns the world at its beginning.
	New func() World
	// Until ends the search once a promise is broken for which it returns true; nil means never.
	Until func(promise string) bool
}

// Walked is what a search has seen.
type Walked struct {
	States, Steps int
	// Depth is the length of the longest history that was needed to reach a state.
	Depth int
	// Complete means that every history of the world was walked.
	Complete bool
	// Broken has the shortest history that breaks each promise.
	Broken map[string]History
}

// History is the numbers of the steps that lead to a state.
type History []uint8

// visited is a state that was reached, and how.
type visited struct {
	from int32 // -1 for the beginning
	step uint8
}

// aliveAtMost is how many worlds are kept instead of played again.
const aliveAtMost = 50_000

// walk is a search under way.
type walk struct {
	Search

	seen   map[Fingerprint]bool
	states []visited
	alive  map[int]World // at states from which the search goes on, as far as there is memory for them
	walked Walked
	over   bool
}

// atOnce is how many states are expanded before what was reached is noted. It is noted in the order of the states, so
// every search finds the same.
const atOnce = 1000

// Walk walks. It uses every processor.
func (s Search) Walk() Walked {
	w := &walk{Search: s, seen: map[Fingerprint]bool{}, alive: map[int]World{}}
	w.walked.Broken = map[string]History{}
	w.add(visited{from: -1}, reached{world: s.New()})
	for from := 0; from < len(w.states) && !w.over; w.walked.Depth++ {
		to := len(w.states)
		for ; from < to && !w.over; from = min(from+atOnce, to) {
			w.expandAll(from, min(from+atOnce, to))
		}
	}
	w.walked.States, w.walked.Complete = len(w.states), !w.over
	return w.walked
}

// reached is a world that a step has led to.
type reached struct {
	world  World
	is     Fingerprint
	broken string
}

// expandAll takes every step from some states.
func (w *walk) expandAll(from, to int) {
	next := make([][]reached, to-from)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range next {
		group.Go(func() error {
			next[i] = w.expand(from + i)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	for i, steps := range next {
		delete(w.alive, from+i)
		for step, is := range steps {
			w.walked.Steps++
			w.add(visited{int32(from + i), uint8(step)}, is)
		}
	}
}

// expand takes every step from a state. It only reads the walk.
func (w *walk) expand(state int) (all []reached) {
	world := w.alive[state]
	if world == nil {
		world = w.history(int32(state)).Replay(w.New)
	}
	for step := range world.Steps() {
		next := world.Clone()
		next.Steps()[step]()
		all = append(all, reached{next, next.Fingerprint(), next.Broken()})
	}
	return all
}

// add notes a state that was reached, unless it is known.
func (w *walk) add(how visited, is reached) {
	switch {
	case is.broken != "":
		if _, known := w.walked.Broken[is.broken]; !known {
			w.walked.Broken[is.broken] = append(w.history(how.from), how.step)
		}
		w.over = w.over || w.Until != nil && w.Until(is.broken)
		return
	case w.seen[is.is]:
		return
	}
	w.seen[is.is] = true
	if len(w.alive) < aliveAtMost {
		w.alive[len(w.states)] = is.world
	}
	w.states = append(w.states, how)
}

// history returns how a state was reached.
func (w *walk) history(state int32) History {
	var length int
	for at := state; at >= 0 && w.states[at].from >= 0; at = w.states[at].from {
		length++
	}
	history := make(History, length, length+1)
	for at := state; at >= 0 && w.states[at].from >= 0; at = w.states[at].from {
		length--
		history[length] = w.states[at].step
	}
	return history
}

// Replay returns the world at the end of the history.
func (h History) Replay(begin func() World) World {
	world := begin()
	for _, step := range h {
		world.Steps()[step]()
	}
	return world
}

// Timeline returns what happens in the history, a line for each step.
func (h History) Timeline(begin func() World) (lines []string) {
	world := begin()
	for _, step := range h {
		lines = append(lines, world.Steps()[step]())
	}
	return lines
}
