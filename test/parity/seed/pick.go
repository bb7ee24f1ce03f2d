// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import "math/rand/v2"

// Pick gives one of the choices, each with the same chance. There must be at least one.
func Pick[T any](r *rand.Rand, choices []T) T {
	return choices[r.IntN(len(choices))]
}

// List gives from zero to the given number of things, every length with the same chance. Without any it is nil.
func List[T any](r *rand.Rand, most int, one func(*rand.Rand) T) []T {
	var list []T
	for range r.IntN(most + 1) {
		list = append(list, one(r))
	}
	return list
}
