// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// framePeriod is how often an act looks at what happened.
const framePeriod = 50 * time.Millisecond

// rule is the one that the taintkeeper of the demo follows: the default.
var rule verdict.Rule

// playDemo plays all acts, and fails when one did not go as promised.
func playDemo(ctx context.Context, s *stage) error {
	total := report{}
	began := time.Now()
	s.introduce()
	for i, a := range acts {
		s.say("")
		s.title(fmt.Sprintf("Act %d: %s", i+1, a.title))
		result, err := s.play(ctx, a)
		if err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
		s.conclude(result)
		total = total.plus(result)
	}
	s.say("")
	s.title(fmt.Sprintf("Act %d: %s", len(acts)+1, silenceTitle))
	result, err := s.playSilence(ctx)
	if err != nil {
		return fmt.Errorf("act %d: %w", len(acts)+1, err)
	}
	s.conclude(result)
	total = total.plus(result)
	s.say("")
	return s.sumUp(total, time.Since(began))
}

func (s *stage) introduce() {
	s.title("Taintkeeper keeps the promise a toleration makes: five acts.")
	s.say("")
	s.say("%sA real control plane, Kubernetes %s, with %d simulated nodes in three zones and %d pods.", indent, s.version, len(nodes), len(sightings(s.seen)))
	s.say("%sThe taint eviction and the node lifecycle that are built in are off; bin/taintkeeper runs as its own service account.", indent)
	s.say("%sWhat is promised is computed by package verdict; what happens is read in the API server's audit log.", indent)
	s.say("%sTimes count from the instant at which the act's first command was sent.", indent)
}

// play plays one act, and leaves the node without a taint and the workloads whole again.
func (s *stage) play(ctx context.Context, a act) (report, error) {
	for _, line := range a.story {
		s.say("%s%s", indent, line)
	}
	s.say("")
	if err := s.announce(a); err != nil {
		return report{}, err
	}
	result, err := s.perform(ctx, a)
	if err != nil {
		return report{}, err
	}
	return result, s.cleanUp(ctx, a)
}

// announce prints the commands of an act, and what is promised before any of them is carried out.
func (s *stage) announce(a act) error {
	now := time.Now()
	planned, err := a.forecast(now)
	if err != nil {
		return fmt.Errorf("forecast: %w", err)
	}
	for _, step := range a.steps {
		s.say("%s%s", indent, command(a.node, step))
	}
	s.say("%sPromised: %s", indent, foretell(rowsOf(rule, sightings(s.seen), a.node, planned), planned))
	s.say("")
	return nil
}

func command(node string, s step) string {
	text := "$ kubectl taint node " + node + " " + strings.Join(s.specs, " ")
	if s.after == 0 {
		return text
	}
	return fmt.Sprintf("%s   # after %d s", text, int(s.after.Seconds()))
}

// foretell says who has to leave and who stays, of the pods that are on the node before its first taint.
func foretell(rows []row, planned timeline) string {
	var leaving, staying, cancelled int
	var last time.Duration
	for _, r := range rows {
		switch {
		case r.Leaves:
			leaving++
			last = max(last, r.Due.Sub(planned[0].from))
		case r.cancelled():
			cancelled++
		default:
			staying++
		}
	}
	var parts []string
	if leaving > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s to leave, the last after %d s",
			leaving, plural(len(rows), "pod"), int(last.Seconds())))
	}
	if cancelled > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s to leave, but for the untaint", cancelled, plural(len(rows), "pod")))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d to stay", staying)), "; ") + "."
}

// perform takes the steps of an act, and watches until everything of interest has happened.
func (s *stage) perform(ctx context.Context, a act) (report, error) {
	var t timeline
	frames := time.NewTicker(framePeriod)
	defer frames.Stop()
	for {
		var err error
		if t, err = s.advance(ctx, a, t); err != nil {
			return report{}, err
		}
		now := time.Now()
		seen, err := s.ledger.correct(sightings(s.seen))
		if err != nil {
			return report{}, err
		}
		rows := rowsOf(rule, seen, a.node, t)
		if len(t) == len(a.steps) && over(rows, t, now) {
			s.finish(tableOf(rows, t, now, afterAct))
			return summarise(rows, countElsewhere(seen, []string{a.node}, t[0].from), now), nil
		}
		s.draw(tableOf(rows, t, now, duringAct))
		if err := s.wait(ctx, frames.C); err != nil {
			return report{}, err
		}
	}
}

// advance takes the next step of an act if its time has come, and returns the timeline with it.
func (s *stage) advance(ctx context.Context, a act, t timeline) (timeline, error) {
	if len(t) == len(a.steps) {
		return t, nil
	}
	next := a.steps[len(t)]
	if len(t) > 0 && time.Since(t[0].from) < next.after {
		return t, nil
	}
	at, nodeTaints, err := taintNode(ctx, s.client, a.node, next.specs...)
	if err != nil {
		return nil, err
	}
	return t.next(at, nodeTaints), nil
}

// wait returns at the next tick, or with an error when the demo cannot go on.
func (s *stage) wait(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.keeper.Ended():
		return s.keeper.Stop()
	case <-tick:
		return nil
	}
}

func (s *stage) cleanUp(ctx context.Context, a act) error {
	if err := untaintNode(ctx, s.client, a.node); err != nil {
		return err
	}
	return s.waitRunning(ctx, lasting)
}

func (s *stage) conclude(r report) {
	s.say("")
	for _, line := range fill(append(r.sentences(), r.elsewhere.sentence()), lineWidth) {
		s.say("%s%s", indent, line)
	}
	for _, problem := range r.problems {
		s.say("%sNot as promised: %s.", indent, problem)
	}
}

func (s *stage) sumUp(total report, took time.Duration) error {
	if !total.ok() {
		s.title("Not every promise was kept.")
		return fmt.Errorf("%s not kept; the story says which", wereOrWas(len(total.problems), "promise"))
	}
	s.title("Every promise was kept.")
	sentences := append(total.sentences(), fmt.Sprintf("The acts took %d s.", int(took.Seconds())))
	for _, line := range fill(sentences, lineWidth) {
		s.say("%s%s", indent, line)
	}
	return nil
}
