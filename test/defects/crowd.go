// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const crowd = 2000

// weight is what a process needs at one moment.
type weight struct{ goroutines, bytes float64 }

// playCrowd has many pods that are pending first, and then due at once.
func playCrowd(ctx context.Context, s *scene) (finding, error) {
	node, err := s.node(ctx, "tainted")
	if err != nil {
		return finding{}, err
	}
	if _, err := s.Pods(ctx, crowd, node, rig.Tolerating("soon", longTime)); err != nil {
		return finding{}, err
	}
	before, err := s.weigh(ctx)
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, node, rig.NoExecute("soon")); err != nil {
		return finding{}, err
	}
	pending, err := s.weigh(ctx)
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, node, rig.NoExecute("now")); err != nil {
		return finding{}, err
	}
	due, err := s.weigh(ctx)
	return judgeCrowd(before, pending, due), err
}

// weigh returns the most that the process needed in a few seconds.
func (s *scene) weigh(ctx context.Context) (weight, error) {
	var most weight
	for range 3 {
		if err := pause(ctx, time.Second); err != nil {
			return most, err
		}
		scraped, err := s.contestant.scrape(ctx)
		if err != nil {
			return most, err
		}
		goroutines, err := scraped.gauge("go_goroutines")
		if err != nil {
			return most, err
		}
		bytes, err := scraped.gauge("process_resident_memory_bytes")
		if err != nil {
			return most, err
		}
		most = weight{max(most.goroutines, goroutines), max(most.bytes, bytes)}
	}
	return most, nil
}

// judgeCrowd wants the number of goroutines not to follow that of pods; memory, which depends on when garbage was
// collected, is told only.
func judgeCrowd(before, pending, due weight) finding {
	more := math.Max(pending.goroutines, due.goroutines) - before.goroutines
	return finding{
		seen: fmt.Sprintf("goroutines: %.0f before, %.0f with the pods pending, %.0f with them due; memory: %s, %s, %s",
			before.goroutines, pending.goroutines, due.goroutines,
			mebibytes(before.bytes), mebibytes(pending.bytes), mebibytes(due.bytes)),
		right: more < crowd/10,
	}
}

func mebibytes(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }
