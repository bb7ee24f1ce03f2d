// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has what package cmd and the packages below it share: what every command gets from the program, and
// errors that are mistakes on the command line, or findings.
package command

import (
	"fmt"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Env is what the program gives to every command.
type Env struct {
	genericiooptions.IOStreams

	Clock clock.PassiveClock
	// Version is the version of this build.
	Version string
}

// UsageError is a mistake on the command line.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// Usagef returns a UsageError. The sentence says what to write instead.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// aboutError is an error about one of several things, such as a node.
type aboutError struct {
	about sentence.About
	err   error
}

// ErrorAbout returns an error about one of several things. If the same happens to others, people read it once.
func ErrorAbout(what, name string, err error) error {
	return aboutError{sentence.About{What: what, Name: name, Says: err.Error()}, err}
}

func (e aboutError) Error() string { return e.about.String() }

// Unwrap returns what happened to the thing.
func (e aboutError) Unwrap() error { return e.err }

// Sentences returns what is wrong: a sentence for each error that was joined, or for all things to which the same happened.
func Sentences(err error) []string { return sentence.Grouped(abouts(err)) }

func abouts(err error) (all []sentence.About) {
	switch is := err.(type) { //nolint:errorlint // every error in the tree has its turn
	case aboutError:
		return []sentence.About{is.about}
	case interface{ Unwrap() []error }:
		for _, one := range is.Unwrap() {
			all = append(all, abouts(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := is.Unwrap(); inner != nil && inner.Error() == err.Error() {
			return abouts(inner)
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		all = append(all, sentence.About{Says: line})
	}
	return all
}

// FoundError does not mean that a command failed: it found something that --fail-on names.
type FoundError struct{ error }

// Unwrap returns what was found.
func (e FoundError) Unwrap() error { return e.error }

// Foundf returns a FoundError.
func Foundf(format string, args ...any) error { return FoundError{fmt.Errorf(format, args...)} }

// Values of --fail-on of commands that predict what may happen.
const (
	LostPod      = "lost-pod"
	LostWorkload = "lost-workload"
	Budget       = "budget"
	Nowhere      = "nowhere"
)
