// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is what every command of the plugin starts with: the environment that it gets from the program, and
// errors that say what to write instead of a wrong command line.
package command

import (
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
