// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
)

// watchdogScript kills the process group $1 unless it is told, by a line, that the process has ended. Standard input is
// a pipe from this program, and is closed when the program is gone, whichever way it went.
const watchdogScript = `read -r _ || kill -KILL "-$1"`

// guard starts the watchdog of an isolated process. The function that it returns ends the watchdog.
func guard(pid int) (release func(), err error) {
	watchdog := exec.Command("/bin/sh", "-c", watchdogScript, "conformance-watchdog", strconv.Itoa(pid))
	watchdog.Dir = "/"
	isolate(watchdog)
	pipe, err := watchdog.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open the pipe to the watchdog: %w", err)
	}
	if err := watchdog.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return func() {
		_, _ = io.WriteString(pipe, "ended\n")
		_ = watchdog.Wait()
	}, nil
}
