// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// outcome is a finding, or why there is none.
type outcome struct {
	scenario.Finding
	err    error
	absent bool // the contestant did not play by itself
}

func (o outcome) isRight() bool { return o.err == nil && o.Right }

func (o outcome) String() string {
	switch {
	case o.absent:
		return "not played"
	case o.err != nil:
		return "could not be run: " + o.err.Error()
	default:
		return o.Finding.String()
	}
}

// result is the result of a scenario with both contestants.
type result struct {
	row
	upstream, ours outcome
}

// report has the results of all scenarios that were played.
type report struct {
	version string // of Kubernetes
	took    time.Duration
	results []result
}

// compare plays the chosen scenarios to both contestants, each in a cluster of its own, at the same time.
func compare(ctx context.Context, o options) (report, error) {
	began := time.Now()
	var upstreams, our map[int]outcome
	var version string
	group, playing := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		our, version, err = perform(playing, "ours", startOurs, o)
		return err
	})
	if !o.coexist {
		group.Go(func() (err error) {
			upstreams, _, err = perform(playing, "upstream", startUpstream, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return report{}, err
	}
	r := report{version: version, took: time.Since(began)}
	for _, row := range rows() {
		if o.chosen(row.number) {
			upstream := upstreams[row.number]
			upstream.absent = o.coexist
			r.results = append(r.results, result{row: row, upstream: upstream, ours: our[row.number]})
		}
	}
	return r, nil
}

// perform plays the program to one contestant. An error means that the cluster failed; what failed in a scenario is
// among the outcomes.
func perform(ctx context.Context, name string, start starter, o options,
) (outcomes map[int]outcome, version string, err error) {
	// The cluster is taken down in order also when ctx ends, so it needs one of its own.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s, err := setUp(lasting, name, start, o)
	defer func() { err = errors.Join(err, s.takeDown()) }()
	if err != nil {
		return nil, "", err
	}
	outcomes = map[int]outcome{}
	for _, a := range program() {
		a.rows = slices.DeleteFunc(a.rows, func(number int) bool { return !o.chosen(number) })
		if err := s.playAct(ctx, a, outcomes); err != nil {
			return nil, "", err
		}
	}
	return outcomes, s.Version, nil
}

// playAct plays an act, unless the contestant cannot run in the way that the act requires.
func (s *stage) playAct(ctx context.Context, a act, outcomes map[int]outcome) error {
	if len(a.rows) == 0 {
		return nil
	}
	if err := s.contestant.canRun(a.launch); err != nil {
		for _, number := range a.rows {
			outcomes[number] = outcome{err: err}
		}
		return nil
	}
	if err := s.launch(ctx, a.launch); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.playTogether(ctx, a.rows, outcomes)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// playTogether plays some scenarios side by side.
func (s *stage) playTogether(ctx context.Context, numbers []int, outcomes map[int]outcome) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, r := range rows() {
		if !slices.Contains(numbers, r.number) {
			continue
		}
		group.Go(func() {
			played := s.play(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.number] = played
		})
	}
	group.Wait()
}

// of returns the results of a section.
func (r report) of(s section) []result {
	return slices.DeleteFunc(slices.Clone(r.results), func(result result) bool { return result.section != s })
}

// wrong returns an error that says what ours did wrong, or could not be shown to do right.
func (r report) wrong() error {
	var all []error
	for _, result := range r.results {
		if !result.ours.isRight() {
			all = append(all, fmt.Errorf("scenario %d, %s: ours %s", result.number, result.scenario, result.ours))
		}
	}
	return errors.Join(all...)
}

// incomplete returns an error for every scenario that could not be played.
func (r report) incomplete() error {
	var all []error
	for _, result := range r.results {
		if err := errors.Join(result.upstream.err, result.ours.err); err != nil {
			all = append(all, fmt.Errorf("scenario %d could not be run: %w", result.number, err))
		}
	}
	return errors.Join(all...)
}
