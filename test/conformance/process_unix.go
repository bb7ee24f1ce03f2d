// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os/exec"
	"syscall"
)

// isolate gives the process of cmd a process group of its own: Ctrl-C on a terminal then reaches this program only, and
// a signal to the group reaches everything that the process started.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup ends the process group of an isolated process. That it has ended already is no error.
func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
