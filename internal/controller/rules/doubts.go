// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// doubt is about a taint that may have been written: the call was not answered. While the node has the version that the
// call was bound to, the taint may still come, until the call has ended in the API server, too.
type doubt struct {
	version string
	until   time.Time
	rules   []types.UID
}

// unanswered notes that it is not known whether taints were written, by a call that has ended by an instant for
// certain.
func (b *book) unanswered(e edit, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, ok := b.nodes[e.node.Name]
	if !ok || is.UID != e.node.UID || is.ResourceVersion != e.node.ResourceVersion || len(e.adds) == 0 {
		return
	}
	d := doubt{version: e.node.ResourceVersion, until: until, rules: e.adds}
	if before, ok := b.doubts[e.node.Name]; ok {
		d.rules = slices.Concat(before.rules, e.adds)
	}
	b.doubts[e.node.Name] = d
}

// doubted returns the nodes that may have a rule's taint though they do not show it.
func (b *book) doubted(uid types.UID) []string {
	var names []string
	for name, d := range b.doubts {
		if slices.Contains(d.rules, uid) {
			names = append(names, name)
		}
	}
	return names
}

// overdue returns the nodes in doubt whose call has ended by now, and when the next does.
func (b *book) overdue(now time.Time) (names []string, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, d := range b.doubts {
		if d.until.After(now) {
			next = timeline.Next(next, d.until)
		} else {
			names = append(names, name)
		}
	}
	return names, next
}

// believe notes that a live read has shown a node as it is known: what was in doubt was not done.
func (b *book) believe(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d, ok := b.doubts[name]; ok {
		b.settle(name, d)
	}
}

func (b *book) settle(name string, d doubt) {
	delete(b.doubts, name)
	for _, uid := range d.rules {
		if p, ok := b.rules[uid]; ok {
			p.dirty = true
		}
	}
}
