// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

const (
	// framePeriod is how often a table is drawn.
	framePeriod = 50 * time.Millisecond
	// watchedFor is how long pods that stay are watched.
	watchedFor = 4 * time.Second
	indent     = "  "
)

// tally counts what happened to pods.
type tally struct {
	left, stayed, cancelled, pending int
	worst                            time.Duration // lateness
}

// playDemo plays all acts, and fails when one did not go as promised.
func playDemo(ctx context.Context, s *stage) error {
	var total tally
	kept, began := true, time.Now()
	s.introduce()
	for i, a := range acts {
		s.say("")
		s.title(fmt.Sprintf("Act %d: %s", i+1, a.Name))
		found, err := s.play(ctx, a)
		if err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
		s.say("")
		s.say("%s%s", indent, count(s.rows))
		if !found.Right {
			s.say("%sNot as promised: %s.", indent, found.Seen)
		}
		kept, total = kept && found.Right, total.plus(count(s.rows))
	}
	s.say("")
	if !kept {
		s.title("Not every promise was kept.")
		return errors.New("some promises were not kept; the output above says which")
	}
	s.title("Every promise was kept.")
	s.say("%s%s The acts took %d s.", indent, total, int(time.Since(began).Seconds()))
	return nil
}

func (s *stage) introduce() {
	s.title(fmt.Sprintf("Taintkeeper keeps the promise a toleration makes: %d acts.", len(acts)))
	s.say("")
	s.say("%sA real control plane, Kubernetes %s, with simulated nodes.", indent, s.Version)
	s.say("%sThe built-in taint-eviction and node-lifecycle controllers are off; bin/taintkeeper uses its own service account.", indent)
	s.say("%stest/rig/oracle, which shares no code with taintkeeper, computes what is promised; a watch observes what happens.", indent)
	s.say("%sTimes count from the act's first command.", indent)
}

// play plays an act, and lets its table be seen meanwhile.
func (s *stage) play(ctx context.Context, a act) (Finding, error) {
	for _, line := range a.story {
		s.say("%s%s", indent, line)
	}
	s.say("")
	s.began = time.Time{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-s.keeper.Ended():
			cancel(s.keeper.Stop())
		}
	}()
	a.Watched, a.When = watchedFor, slices.Insert(slices.Clone(a.When), 0, show)
	return Run(ctx, s, a.namespace, a.Scenario)
}

// show draws the table of an act until it is over.
func show(ctx context.Context, p *Play) error {
	s := stageOf(p)
	s.began = time.Now()
	drawing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for await.Pause(drawing, framePeriod) == nil {
			s.draw(indented(Table(p.Rows(s.began))))
		}
	}()
	p.Finally(func(context.Context) error {
		stop()
		<-done
		s.rows = p.Rows(s.began)
		s.finish(indented(Table(s.rows)))
		return nil
	})
	return nil
}

func indented(lines []string) []string {
	return strings.Split(indent+strings.Join(lines, "\n"+indent), "\n")
}

func count(rows []Row) tally {
	var t tally
	for _, r := range rows {
		switch {
		case r.Left:
			t.left++
			t.worst = max(t.worst, r.After-r.Due)
		case !r.Stays():
			t.pending++
		case r.Was != Never:
			t.cancelled++
			t.stayed++
		default:
			t.stayed++
		}
	}
	return t
}

func (t tally) plus(other tally) tally {
	return tally{
		t.left + other.left, t.stayed + other.stayed, t.cancelled + other.cancelled, t.pending + other.pending,
		max(t.worst, other.worst),
	}
}

func (t tally) String() string {
	text := "No pod had to leave."
	if t.left > 0 {
		text = fmt.Sprintf("%s evicted, at most %s late.", sentence.Counted(t.left, "pod"), Seconds(t.worst))
	}
	text += fmt.Sprintf(" %d stayed", t.stayed)
	if t.cancelled > 0 {
		text += fmt.Sprintf(", %d of them because of the untaint", t.cancelled)
	}
	if t.pending > 0 {
		text += fmt.Sprintf(". %d not due yet", t.pending)
	}
	return text + "."
}
