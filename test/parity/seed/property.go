// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
)

// Property is something that holds for every input.
type Property[T any] struct {
	// Usual is how many inputs are tried unless -n says otherwise.
	Usual int
	// Generate makes an input from nothing but the source.
	Generate func(*rand.Rand) T
	// Check gives an error that says how the input breaks the property, or nil. A panic breaks it as well.
	Check func(T) error
	// Smaller gives inputs that are one thing simpler. If it is nil, anything in an input is simplified.
	Smaller func(T) []T
}

// Hold tries the inputs that the flags ask for and fails the test with the first that breaks the property: its
// smallest form, what is wrong, and the arguments that play it again.
func (p Property[T]) Hold(t *testing.T) {
	t.Helper()
	if index, ok := Only(); ok {
		p.HoldAt(t, index)
		return
	}
	count := Count(p.Usual)
	if count <= 0 {
		t.Fatalf("-n=%d: ask for at least one input", count)
	}
	for index := range count {
		p.HoldAt(t, index)
	}
	t.Logf("holds for %d inputs from seed %d", count, Seed())
}

// HoldAt tries the input at an index.
func (p Property[T]) HoldAt(t *testing.T, index int) {
	t.Helper()
	if smallest, err := p.try(Seed(), index); err != nil {
		t.Fatalf("-seed=%d -only=%d: %v\nthe smallest input that shows it:\n%s", Seed(), index, err, Describe(smallest))
	}
}

// MustFind returns the smallest form of the first of that many inputs that breaks the property, whatever the flags say,
// and how it does. It fails the test if there is none: a comparison that finds nothing wrong with what is wrong proves
// nothing.
func (p Property[T]) MustFind(t *testing.T, count int) (smallest T, err error) {
	t.Helper()
	for index := range count {
		if smallest, err = p.try(1, index); err != nil {
			t.Logf("input %d shows it:\n%s\n%v", index, Describe(smallest), err)
			return smallest, err
		}
	}
	t.Fatalf("not found in %d inputs", count)
	return smallest, nil
}

// try returns the smallest form of the input at an index if that breaks the property, and how.
func (p Property[T]) try(seed uint64, index int) (smallest T, err error) {
	input := p.Generate(source(seed, index))
	if err := p.check(input); err != nil {
		return p.shrink(input, err)
	}
	return input, nil
}

// shrink follows the first smaller input that still breaks the property until there is none.
func (p Property[T]) shrink(input T, err error) (T, error) {
	smaller := p.Smaller
	if smaller == nil {
		smaller = func(input T) []T { return Smaller(input, Anything) }
	}
	for _, simpler := range smaller(input) {
		if simplerErr := p.check(simpler); simplerErr != nil {
			return p.shrink(simpler, simplerErr)
		}
	}
	return input, err
}

// check takes a panic for an error, so that the input that causes it is shown, and made small like any other.
func (p Property[T]) check(input T) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return p.Check(input)
}
