// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package localcluster

import (
	"errors"
	"os/exec"
)

var errNotUnix = errors.New("a local cluster needs a Unix: use Linux, macOS or WSL")

func isolate(*exec.Cmd) {}

func terminateGroup(int) error { return errNotUnix }

func killProcess(int) error { return errNotUnix }

func freezeProcess(int) error { return errNotUnix }

func thawProcess(int) error { return errNotUnix }

func processExists(int) bool { return false }
