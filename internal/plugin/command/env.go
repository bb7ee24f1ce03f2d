// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is how every command of the plugin begins: with an environment that the program gives it, and with an
// error that says what to write instead if its command line is wrong.
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
