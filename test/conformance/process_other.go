// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

// isolate does nothing: the local cluster needs a Unix.
func isolate(*exec.Cmd) {}

func killGroup(int) error { return errors.New("this needs a Unix: use Linux, macOS or WSL") }
