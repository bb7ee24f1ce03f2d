// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// TestHistories runs random histories with upstream's controller and with ours, and explains every difference.
func TestHistories(t *testing.T) {
	contest{ours, upstream}.series().Play(t, count(), &book{nodes: map[quirks]int{}})
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	mu     sync.Mutex
	whole  int // histories in which both agree about every node
	agreed int // nodes about which both agree
	nodes  map[quirks]int
}

// Enter implements arena.Book.
func (b *book) Enter(t *trial) {
	explanation := t.explain()
	b.mu.Lock()
	defer b.mu.Unlock()
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
}

// Write implements arena.Book.
func (b *book) Write(table io.Writer, score arena.Score) {
	nodes := b.agreed
	for _, n := range b.nodes {
		nodes += n
	}
	fmt.Fprintf(table, "\tHISTORIES\tNODES\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", score.Played, nodes)
	fmt.Fprintf(table, "both the same, within %s\t%d\t%d\n", tolerance, b.whole, b.agreed)
	for _, set := range bySize {
		if n := b.nodes[set]; n > 0 {
			fmt.Fprintf(table, "upstream differs: %s\t\t%d\n", set, n)
		}
	}
}

// Check implements arena.Book: each quirk must have been met.
func (b *book) Check(t *testing.T, score arena.Score) {
	t.Helper()
	const many = 3000
	if score.Played < many {
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
