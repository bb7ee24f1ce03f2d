// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"sync"
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// TestHistories plays random histories to upstream's controller and to ours, and explains every
// difference.
func TestHistories(t *testing.T) { playHistories(t, count()) }

// The operators Gt and Lt are behind a feature gate of their own.
func TestHistoriesWithComparisonOperators(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, true)
	playHistories(t, count()/10)
}

func playHistories(t *testing.T, n int) {
	t.Helper()
	contest := contest{ours: ours, upstream: upstream}
	if index, ok := seed.Only(); ok {
		trial := contest.try(t, generate(seed.Seed(), uint64(index)))
		t.Logf("history %d of seed %d\n%s", index, seed.Seed(), trial.timetable())
		report(t, contest, index, trial)
		return
	}
	book := &book{histories: map[defects]int{}, pods: map[defects]int{}, began: time.Now()}
	seed.Each(t, n, func(t *testing.T, index int) {
		trial := contest.try(t, generate(seed.Seed(), uint64(index)))
		report(t, contest, index, trial)
		if progress := book.enter(trial); progress != "" {
			t.Log(progress)
		}
	})
	t.Logf("seed %d\n%s", seed.Seed(), book)
	book.check(t)
}

// check fails when the histories were no test: each defect must have been met alone.
func (b *book) check(t *testing.T) {
	t.Helper()
	const many = 2000
	if b.played < many {
		return
	}
	for _, known := range defectNames {
		if b.pods[known.defect] == 0 {
			t.Errorf("no pod was treated differently because of %s alone", known.defect)
		}
	}
	if b.pods[none] == 0 {
		t.Error("no pod was treated the same by both")
	}
}

// report fails for what is wrong with a trial, and shows the smallest history with the same fault.
func report(t *testing.T, c contest, index int, found *trial) {
	t.Helper()
	faults := found.faults()
	if len(faults) == 0 {
		return
	}
	smallest := shrink(found.history, func(h *history) bool { return c.try(t, h).has(faults[0].kind) })
	t.Errorf("%s\n\n%s\nMinimal form of history %d of seed %d; play it again with\n%s",
		faults[0], c.try(t, smallest).timetable(), index, seed.Seed(), seed.Again(t, "evictions", index))
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	mu        sync.Mutex
	began     time.Time
	played    int
	agreed    int // histories in which nothing differs
	pods      map[defects]int
	histories map[defects]int
	wrong     int // histories with a difference that nothing explains
	repeats   int // pods that upstream deleted twice at its start, whatever else
}

// enter counts a trial, and now and then returns a line about the progress.
func (b *book) enter(t *trial) string {
	explanation := t.explain()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.played++
	b.repeats += t.repeats
	if len(t.faults()) > 0 {
		b.wrong++
	}
	because := map[defects]bool{}
	for _, set := range explanation {
		b.pods[set]++
		because[set] = true
	}
	delete(because, none)
	for set := range because {
		b.histories[set]++
	}
	if len(because) == 0 {
		b.agreed++
	}
	const often = 1000
	if b.played%often > 0 {
		return ""
	}
	return fmt.Sprintf("%d histories, %.0f per second", b.played, float64(b.played)/time.Since(b.began).Seconds())
}
