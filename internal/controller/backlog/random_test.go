// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	"k8s.io/apimachinery/pkg/types"
)

// history puts a Backlog through random events, and knows what must be true.
type history struct {
	*testing.T

	random   *rand.Rand
	b        *Backlog
	now      time.Time
	wanted   map[string]map[types.UID]Leaving // by node
	inFlight map[types.UID]*Eviction
}

// Whatever happens: the limits of both lanes hold, no pod is tried twice at once, too early or in the wrong lane, none is
// forgotten, and nothing is left over.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(300) {
		h := &history{
			T: t, random: rand.New(rand.NewPCG(seed, 3)), b: New(Lanes{std, asks}, there), now: t0,
			wanted: map[string]map[types.UID]Leaving{}, inFlight: map[types.UID]*Eviction{},
		}
		for range 400 {
			h.step()
		}
		h.end(seed)
	}
}

func (h *history) step() {
	h.now = h.now.Add(time.Duration(h.random.IntN(100)) * ms)
	if h.random.IntN(4) == 0 {
		h.set(fmt.Sprint("n", h.random.IntN(12)), h.random.IntN(3) > 0)
	}
	for _, e := range h.b.Excess(h.now) {
		h.done(e, Hung)
	}
	h.begin()
	h.checkLimits()
	for _, e := range h.inFlight {
		switch {
		case e.Cancelled() != nil && h.random.IntN(2) == 0:
			h.done(e, []Outcome{Over, Withdrawn, Failed(sec, "w"), Hung}[h.random.IntN(4)])
		case h.random.IntN(8) == 0:
			h.done(e, []Outcome{Over, Failed(sec, ""), Failed(sec, "w"), Later(sec), Unsure(sec), Hung}[h.random.IntN(6)])
		}
	}
}

func (h *history) set(node string, tainted bool) {
	var leaving []Leaving
	h.wanted[node] = map[types.UID]Leaving{}
	for i := range 30 {
		if !tainted || h.random.IntN(3) == 0 {
			continue
		}
		l := Leaving{
			UID: types.UID(fmt.Sprint(node, "-", i)), Group: fmt.Sprint("ns", i%7),
			Due: h.now.Add(time.Duration(h.random.IntN(5)-3) * sec),
		}
		if h.random.IntN(5) == 0 {
			l.Answer.After = h.now.Add(sec)
		}
		if h.random.IntN(4) == 0 {
			l.Lane = Ask
		}
		leaving = append(leaving, l)
		h.wanted[node][l.UID] = l
	}
	_, cancel := h.b.Set(node, leaving, h.now)
	for _, e := range cancel {
		if h.inFlight[e.UID] != e || e.Cancelled() == nil {
			h.Fatalf("%s should be cancelled, but is not in flight", e.UID)
		}
	}
}

func (h *history) begin() {
	for {
		e, again := h.b.Next(h.now)
		switch {
		case e == nil && !again.IsZero() && !again.After(h.now):
			h.Fatal("Next asks to be called again at once, with a few pods")
		case e == nil:
			return
		case h.inFlight[e.UID] != nil:
			h.Fatalf("%s is tried twice at once", e.UID)
		case e.Due.After(h.now) || e.Answer.After.After(h.now) || e.from.After(h.now):
			h.Fatalf("%s is tried too early", e.UID)
		}
		h.checkWanted(e)
		h.inFlight[e.UID] = e
	}
}

// checkWanted checks that a pod must leave, and in this lane. One that is held may stay in the lane of before.
func (h *history) checkWanted(e *Eviction) {
	want, ok := h.wanted[e.Node][e.UID]
	if !ok {
		h.Fatalf("%s is tried, and need not leave", e.UID)
	}
	if e.Lane != want.Lane && want.Answer.Free() || h.b.lanes[e.Lane] != e.group.lane {
		h.Fatalf("%s is tried in lane %d, want %d", e.UID, e.Lane, want.Lane)
	}
}

func (h *history) done(e *Eviction, o Outcome) {
	delete(h.inFlight, e.UID)
	if o == Over {
		delete(h.wanted[e.Node], e.UID)
	}
	h.b.Done(e, o, h.now)
}

func (h *history) checkLimits() {
	for i, l := range h.b.lanes {
		inFlight, young, retries := 0, 0, 0
		perGroup := map[string]int{}
		for _, e := range h.inFlight {
			if e.group.lane != l {
				continue
			}
			inFlight++
			perGroup[e.Group]++
			if e.began.Add(l.limits.Patience).After(h.now) {
				young++
				if e.retry {
					retries++
				}
			}
		}
		most := l.limits
		if inFlight > most.Prompt+most.Slow || young > most.Prompt || retries > most.Retries {
			h.Fatalf("lane %d: %d are in flight, %d of them not slow, of which %d are retries", i, inFlight, young, retries)
		}
		for group, count := range perGroup {
			if most.PerGroup > 0 && count > most.PerGroup {
				h.Fatalf("lane %d: %d of %s are in flight", i, count, group)
			}
		}
	}
}

// end lets all pods that must leave do so.
func (h *history) end(seed uint64) {
	for range 100_000 {
		for _, e := range h.inFlight {
			h.done(e, Over)
		}
		e, again := h.b.Next(h.now)
		if e != nil {
			h.inFlight[e.UID] = e
		} else if len(h.inFlight) == 0 {
			if again.IsZero() {
				break
			}
			h.now = instant.Later(h.now, again)
		}
	}
	left := 0
	for _, pods := range h.wanted {
		left += len(pods)
	}
	groups := len(h.b.lanes[Delete].groups) + len(h.b.lanes[Ask].groups)
	if s := h.b.Stats(h.now); left+s.Due+s.Pending+s.Held+s.InFlight+len(h.b.nodes)+groups != 0 {
		h.Fatalf("seed %d: %d pods must still leave; %+v, %d nodes, %d groups", seed, left, s, len(h.b.nodes), groups)
	}
}
