// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// Series is histories of one sort, each of which is tried on its own.
type Series[H any, T Trial] struct {
	// Folder of the package, for the command that plays a history again.
	Folder string
	// Generate makes a history from a seed and an index.
	Generate func(seed, index uint64) H
	// Try plays a history to both contestants.
	Try func(*testing.T, H) T
	// Reductions returns the histories that are one thing smaller.
	Reductions func(H) []H
	// Often is after how many histories there is a line about the progress.
	Often int
}

// Trial is one history, played to both contestants.
type Trial interface {
	// Faults returns everything wrong with it.
	Faults() []Fault
	// Timetable writes down what happened when, and to which pod or node.
	Timetable() string
}

// Kind is what can be wrong with a trial.
type Kind string

// Fault is something wrong with a trial.
type Fault struct {
	Kind Kind
	// Name says what it is about: a node's name, or a pod's UID.
	Name string
}

// String says what is wrong.
func (f Fault) String() string { return f.Name + ": " + string(f.Kind) }

// Has reports whether something of a kind is wrong with a trial.
func Has(trial Trial, kind Kind) bool {
	return slices.ContainsFunc(trial.Faults(), func(f Fault) bool { return f.Kind == kind })
}

// Book counts what was played.
type Book[T Trial] interface {
	// Enter counts a trial. It must be safe for concurrent use.
	Enter(T)
	// Write writes the rows of the table of all that was played, in cells that end with a tab.
	Write(io.Writer, Score)
	// Check fails when the histories tested nothing.
	Check(*testing.T, Score)
}

// Score is what a series has come to.
type Score struct {
	Played int // histories
	Wrong  int // those with a difference that nothing explains
	Began  time.Time
}

func (s Score) perSecond() float64 { return float64(s.Played) / time.Since(s.Began).Seconds() }

// Play plays the given number of histories, or the one that the user asked for, and fails if anything is wrong with
// them. A history with a fault is shown in its smallest form.
func (s Series[H, T]) Play(t *testing.T, count int, book Book[T]) {
	t.Helper()
	if index, ok := seed.Only(); ok {
		_, trial := s.play(t, index)
		t.Logf("history %d of seed %d\n%s", index, seed.Seed(), trial.Timetable())
		return
	}
	var mu sync.Mutex
	score := Score{Began: time.Now()}
	seed.Each(t, count, func(t *testing.T, index int) {
		faulty, trial := s.play(t, index)
		book.Enter(trial)
		mu.Lock()
		defer mu.Unlock()
		score.Played++
		if faulty {
			score.Wrong++
		}
		if score.Played%s.Often == 0 {
			t.Logf("%d histories, %.1f per second", score.Played, score.perSecond())
		}
	})
	t.Logf("seed %d\n%s", seed.Seed(), table(book, score))
	book.Check(t, score)
}

// play plays the history at an index, and reports whether something is wrong with it.
func (s Series[H, T]) play(t *testing.T, index int) (bool, T) {
	t.Helper()
	history := s.Generate(seed.Seed(), uint64(index))
	trial := s.Try(t, history)
	faults := trial.Faults()
	if len(faults) == 0 {
		return false, trial
	}
	smallest := s.Try(t, s.Shrink(t, history, faults[0].Kind))
	t.Errorf("%s\n\n%s\nMinimal form of history %d of seed %d; run it again with\n%s",
		faults[0], smallest.Timetable(), index, seed.Seed(), seed.Again(t, s.Folder, index))
	return true, trial
}

// Shrink makes a history smaller while it keeps a kind of fault: it leaves out whatever the fault does not need, until
// nothing more can be left out.
func (s Series[H, T]) Shrink(t *testing.T, history H, kind Kind) H {
	t.Helper()
	for {
		all := s.Reductions(history)
		smaller := slices.IndexFunc(all, func(candidate H) bool { return Has(s.Try(t, candidate), kind) })
		if smaller < 0 {
			return history
		}
		history = all[smaller]
	}
}

// Search returns the first of a seed's histories that has a kind of fault, as it is and in its smallest form; false if
// none has.
func (s Series[H, T]) Search(t *testing.T, of uint64, count int, kind Kind) (found, smallest H, ok bool) {
	t.Helper()
	for index := range uint64(count) {
		history := s.Generate(of, index)
		if Has(s.Try(t, history), kind) {
			return history, s.Shrink(t, history, kind), true
		}
	}
	return found, smallest, false
}

// Fewer returns what is left of a list without one of its halves, quarters and so on, or without one of its items.
func Fewer[S ~[]E, E any](list S) []S {
	var all []S
	for part := len(list) / 2; part > 1; part /= 2 {
		for from := 0; from+part <= len(list); from += part {
			all = append(all, slices.Delete(slices.Clone(list), from, from+part))
		}
	}
	for i := range list {
		all = append(all, slices.Delete(slices.Clone(list), i, i+1))
	}
	return all
}

func table[T Trial](book Book[T], score Score) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	book.Write(table, score)
	fmt.Fprintf(table, "a difference that nothing explains\t%d\t\n", score.Wrong)
	fmt.Fprintf(table, "%s, %.1f histories per second\t\t\n", time.Since(score.Began).Round(time.Second), score.perSecond())
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}
