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

// Counterexample is an input that breaks a property.
type Counterexample[T any] struct {
	// Index is where the generated input stands, Input is this input.
	Index int
	Input T
	// Smallest is what is left of it after removing everything that is not needed to break the property.
	Smallest T
	// Err is what Check says about the smallest one.
	Err error
}

// Hold tries the inputs that the flags ask for and fails the test with the first counterexample: the input, what is
// wrong, and the arguments that play it again.
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
	if found := p.try(Seed(), index); found != nil {
		t.Fatalf("-seed=%d -only=%d: %v\nthe smallest input that shows it:\n%s", Seed(), index, found.Err, Describe(found.Smallest))
	}
}

// MustFind fails the test unless there is a counterexample among that many inputs, whatever the flags say, and returns
// it: a comparison that finds nothing wrong with what is wrong proves nothing.
func (p Property[T]) MustFind(t *testing.T, count int) *Counterexample[T] {
	t.Helper()
	for index := range count {
		if found := p.try(1, index); found != nil {
			t.Logf("input %d shows it:\n%s\n%v", index, Describe(found.Smallest), found.Err)
			return found
		}
	}
	t.Fatalf("not found in %d inputs", count)
	return nil
}

func (p Property[T]) try(seed uint64, index int) *Counterexample[T] {
	input := p.Generate(source(seed, index))
	err := p.check(input)
	if err == nil {
		return nil
	}
	smallest, err := p.shrink(input, err)
	return &Counterexample[T]{Index: index, Input: input, Smallest: smallest, Err: err}
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
