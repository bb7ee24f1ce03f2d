// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
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
}

// Counterexample is an input that breaks a property.
type Counterexample[T any] struct {
	// Index is where the generated input stands.
	Index int
	// Smallest is what is left of it after removing everything that is not needed to break the property.
	Smallest T
	// Err is what Check says about the smallest one.
	Err error
}

// Hold tries the inputs that the flags ask for and fails the test with the first counterexample: the input as Go
// values, what is wrong, and the arguments that play it again.
func (p Property[T]) Hold(t *testing.T) {
	t.Helper()
	if index, ok := Only(); ok {
		report(t, p.try(Seed(), index))
		return
	}
	count := Count(p.Usual)
	if count <= 0 {
		t.Fatalf("-n=%d: ask for at least one input", count)
	}
	report(t, p.Search(Seed(), count))
	t.Logf("holds for %d inputs from seed %d", count, Seed())
}

// Search tries that many inputs from a seed, whatever the flags say, up to the first counterexample. It is nil when
// there is none.
func (p Property[T]) Search(seed uint64, count int) *Counterexample[T] {
	for index := range count {
		if found := p.try(seed, index); found != nil {
			return found
		}
	}
	return nil
}

func (p Property[T]) try(seed uint64, index int) *Counterexample[T] {
	input := p.Generate(source(seed, index))
	err := p.check(input)
	if err == nil {
		return nil
	}
	smallest, err := p.shrink(input, err)
	return &Counterexample[T]{Index: index, Smallest: smallest, Err: err}
}

func report[T any](t *testing.T, found *Counterexample[T]) {
	t.Helper()
	if found != nil {
		t.Fatalf("-seed=%d -only=%d: %v\nthe smallest input that shows it: %s", Seed(), found.Index, found.Err, describe(found.Smallest))
	}
}

// shrink follows the first smaller input that still breaks the property until there is none.
func (p Property[T]) shrink(input T, err error) (T, error) {
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

func describe(input any) string {
	if stringer, ok := input.(fmt.Stringer); ok {
		return stringer.String()
	}
	// A nil *metav1.Time prints itself in a way that is not Go.
	return strings.ReplaceAll(fmt.Sprintf("%#v", input), "<nil>", "nil")
}

// MustFind fails the test unless a counterexample is found, and returns it: a comparison that finds nothing wrong with
// what is wrong proves nothing.
func (p Property[T]) MustFind(t *testing.T, count int) *Counterexample[T] {
	t.Helper()
	found := p.Search(1, count) // whatever the flags say
	if found == nil {
		t.Fatalf("not found in %d inputs", count)
	}
	t.Logf("input %d shows it: %s: %v", found.Index, describe(found.Smallest), found.Err)
	return found
}
