// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// defects is a set of ways in which upstream differs from the rule, the switches of the model.
type defects uint

// The numbers refer to docs/defects.md.
const (
	// frozen (4): once a countdown runs for a pod, other taints and other tolerationSeconds do not change it; only the
	// end of all taints or of the pod, or a toleration without a limit, ends it; a taint that is not tolerated makes
	// the pod leave at once.
	frozen defects = 1 << iota
	// overflow (6): tolerationSeconds are counted in 64-bit nanoseconds.
	overflow
	// byName (7): what is known about a pod is kept under its name, and the name is deleted.
	byName
	// terminatingAgain (8): a pod that terminates already is deleted like any other.
	terminatingAgain
	// mirrorPods (9): mirror pods are deleted.
	mirrorPods
	// apart (no number there; in docs/differences.md): not-ready and unreachable each count from when they came.
	apart
	// fromSight (10): a countdown starts when the process first sees that the pod must leave.
	fromSight
	// orphans (no number there; in docs/differences.md): a countdown continues when its node is gone.
	orphans

	none defects = 0
	all          = orphans<<1 - 1
)

var defectNames = []struct {
	defect       defects
	number, name string
}{
	{frozen, "4", "frozen countdown"},
	{overflow, "6", "overflow"},
	{byName, "7", "keyed by name"},
	{terminatingAgain, "8", "terminating pod deleted again"},
	{mirrorPods, "9", "mirror pod deleted"},
	{fromSight, "10", "countdown from sight"},
	{apart, "swap", "not-ready and unreachable count apart"},
	{orphans, "node gone", "countdown goes on"},
}

func (d defects) has(other defects) bool { return d&other != 0 }

func (d defects) size() int { return bits.OnesCount(uint(d)) }

// String names a defect, or the numbers of several.
func (d defects) String() string {
	var numbers []string
	name := ""
	for _, known := range defectNames {
		if d.has(known.defect) {
			numbers, name = append(numbers, known.number), ": "+known.name
		}
	}
	switch len(numbers) {
	case 0:
		return "none"
	case 1:
		return numbers[0] + name
	}
	return strings.Join(numbers, " + ")
}

// bySize holds every set of defects but the empty one, the small ones first.
var bySize = func() []defects {
	var sets []defects
	for set := none + 1; set <= all; set++ {
		sets = append(sets, set)
	}
	slices.SortStableFunc(sets, func(a, b defects) int { return cmp.Compare(a.size(), b.size()) })
	return sets
}()
