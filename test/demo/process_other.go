// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os/exec"

// isolate does nothing: the local cluster, and so the demo, needs a Unix.
func isolate(*exec.Cmd) {}
