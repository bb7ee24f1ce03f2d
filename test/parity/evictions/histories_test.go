// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// TestHistories runs random histories with upstream's controller and with ours, and explains every difference.
func TestHistories(t *testing.T) {
	contest{ours, upstream}.series().Play(t, count(), newBook())
}

// The operators Gt and Lt are behind a feature gate of their own.
func TestHistoriesWithComparisonOperators(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, true)
	contest{ours, upstream}.series().Play(t, count()/10, newBook())
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	mu        sync.Mutex
	agreed    int // histories in which nothing differs
	pods      map[defects]int
	histories map[defects]int
	repeats   int // pods that upstream deleted twice at its start, whatever else
}

func newBook() *book { return &book{histories: map[defects]int{}, pods: map[defects]int{}} }

// Enter implements arena.Book.
func (b *book) Enter(t *trial) {
	explanation := t.explain()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.repeats += t.repeats
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
}

// Write implements arena.Book.
func (b *book) Write(table io.Writer, score arena.Score) {
	pods := 0
	for _, n := range b.pods {
		pods += n
	}
	fmt.Fprintf(table, "\tHISTORIES\tPODS\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", score.Played, pods)
	fmt.Fprintf(table, "both the same, to the second\t%d\t%d\n", b.agreed, b.pods[none])
	for _, set := range slices.SortedFunc(maps.Keys(b.histories), smallFirst) {
		fmt.Fprintf(table, "upstream differs because of %s\t%d\t%d\n", set, b.histories[set], b.pods[set])
	}
	fmt.Fprintf(table, "upstream deleted twice at its start\t\t%d\n", b.repeats)
}

func smallFirst(a, b defects) int {
	return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a, b))
}

// Check implements arena.Book: each defect must have been met alone.
func (b *book) Check(t *testing.T, score arena.Score) {
	t.Helper()
	const many = 2000
	if score.Played < many {
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
