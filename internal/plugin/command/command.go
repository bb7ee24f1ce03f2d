// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has what package cmd and the packages below it share: what every command gets from the program, and
// errors that are mistakes on the command line, or findings.
package command

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
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
