// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package localcluster

import (
	"errors"
	"os/exec"
	"syscall"
)

// isolate gives the process of cmd a process group of its own: Ctrl-C on a terminal then reaches this program only,
// and a signal to the group reaches everything that the process started.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// terminateGroup asks the process group of an isolated process to end. That it has ended already is no error.
func terminateGroup(pid int) error {
	return ignoreGone(syscall.Kill(-pid, syscall.SIGTERM))
}

func killProcess(pid int) error {
	return ignoreGone(syscall.Kill(pid, syscall.SIGKILL))
}

func freezeProcess(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thawProcess(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// processExists also counts a process that has ended and that its parent has not asked after yet.
func processExists(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
