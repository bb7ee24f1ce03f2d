// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Counted describes what breakers count. If again is set, all pods are counted again.
func (e *Engine) Counted(now time.Time, again bool) string {
	if again {
		e.MarkAllStale()
	}
	e.count(now)
	text := ""
	for _, policy := range slices.Sorted(maps.Keys(e.total)) {
		if of := *e.total[policy]; of.free+of.unread+len(of.asking) > 0 {
			text += fmt.Sprintf("%s %d %d %v\n", policy, of.free, of.unread, of.asking)
		}
	}
	return text
}

// Remembers returns of how many nodes and pods something is remembered.
func (e *Engine) Remembers() int {
	return len(e.demands) + len(e.sights) + len(e.line.nodes) + len(e.line.called) + len(e.begun)
}

// InLine returns of how many nodes pods wait in line.
func (e *Engine) InLine() int { return len(e.line.nodes) }
