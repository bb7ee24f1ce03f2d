// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import "math/rand/v2"

// dice are what a history is made from: nothing but a seed and an index.
type dice struct{ *rand.Rand }

func newDice(seed, index uint64) dice { return dice{rand.New(rand.NewPCG(seed, index))} }

func (d dice) between(least, most int) int { return least + d.IntN(most-least+1) }

// chance is true in the given percentage of cases.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }
