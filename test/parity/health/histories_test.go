// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// TestHistories plays random histories to upstream's controller and to ours, and explains every
// difference.
func TestHistories(t *testing.T) {
	contest := contest{ours: ours, upstream: upstream}
	if index, ok := seed.Only(); ok {
		trial := contest.try(t, generate(seed.Seed(), uint64(index)))
		t.Logf("history %d of seed %d\n%s", index, seed.Seed(), trial.timetable())
		report(t, contest, index, trial)
		return
	}
	book := &book{nodes: map[quirks]int{}, began: time.Now()}
	seed.Each(t, count(), func(t *testing.T, index int) {
		trial := contest.try(t, generate(seed.Seed(), uint64(index)))
		report(t, contest, index, trial)
		if progress := book.enter(trial); progress != "" {
			t.Log(progress)
		}
	})
	t.Logf("seed %d\n%s", seed.Seed(), book)
	book.check(t)
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
		faults[0], c.try(t, smallest).timetable(), index, seed.Seed(), seed.Again(t, "health", index))
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	mu     sync.Mutex
	began  time.Time
	played int
	whole  int // histories in which both agree about every node
	agreed int // nodes about which both agree
	nodes  map[quirks]int
	wrong  int // histories with a difference that nothing explains
}

// enter counts a trial, and now and then returns a line about the progress.
func (b *book) enter(t *trial) string {
	explanation, faults := t.explain(), t.faults()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.played++
	if len(faults) > 0 {
		b.wrong++
	}
	differs := false
	for _, found := range explanation {
		if found.agree {
			b.agreed++
			continue
		}
		differs = true
		b.nodes[found.quirks]++
	}
	if !differs {
		b.whole++
	}
	const often = 100
	if b.played%often > 0 {
		return ""
	}
	return fmt.Sprintf("%d histories, %.1f per second", b.played, float64(b.played)/time.Since(b.began).Seconds())
}

// check fails when the histories were no test: each quirk must have been met.
func (b *book) check(t *testing.T) {
	t.Helper()
	const many = 3000
	if b.played < many {
		return
	}
	for _, known := range quirkNames {
		met := false
		for set := range b.nodes {
			met = met || set.has(known.quirk)
		}
		if !met {
			t.Errorf("no node was treated differently because of %q", known.name)
		}
	}
	if b.agreed == 0 || b.whole == 0 {
		t.Error("both never agree")
	}
}

// String is the table of all that was played.
func (b *book) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	nodes := b.agreed
	for _, n := range b.nodes {
		nodes += n
	}
	took := time.Since(b.began)
	fmt.Fprintf(table, "\tHISTORIES\tNODES\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", b.played, nodes)
	fmt.Fprintf(table, "both the same, within %s\t%d\t%d\n", tolerance, b.whole, b.agreed)
	for _, set := range bySize {
		if n := b.nodes[set]; n > 0 {
			fmt.Fprintf(table, "upstream differs: %s\t\t%d\n", set, n)
		}
	}
	fmt.Fprintf(table, "a difference that nothing explains\t%d\t\n", b.wrong)
	fmt.Fprintf(table, "%s, %.1f histories per second\t\t\n", took.Round(time.Second), float64(b.played)/took.Seconds())
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}
