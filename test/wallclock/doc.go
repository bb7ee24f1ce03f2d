// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wallclock sets the wall clock of a running process, and of no other.
//
// A program is built for it with a package time of its own, whose Now adds an offset to the wall clock. The monotonic
// clock stays as it is, and so does every timer, timeout and measured duration, as when somebody sets the clock of a
// machine. Nothing in the program itself changes.
package wallclock
