// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process runs programs that do not outlive this one, whether it returns, panics, is interrupted or is killed.
//
// A parent-death signal would be shorter, but only Linux has it, and it follows the thread that started the program.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// script becomes the program $1. Its watchdog stays in the background and reads a pipe whose other end only this
// program holds. If the pipe ends without a line, this program is gone: the watchdog kills $1, removes the folder $0
// unless it is empty, and kills the rest of the process group, which includes itself. Both of its pipes end with it.
const script = `
{
	cd /
	read -r _ && exit
	kill -KILL $$
	[ -z "$0" ] || rm -rf "$0" || rm -rf "$0"
	kill -KILL -$$
} <&3 >/dev/null 2>&1 &
exec "$@" 3<&- 4>&-`

// Process is a program that was started. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the wait
}

// Start starts a command in a process group of its own, so that Ctrl-C on a terminal does not reach it. If this program
// is killed, the folder leftover is removed, too, unless it is empty.
func Start(cmd *exec.Cmd, leftover string) (*Process, error) {
	if _, err := exec.LookPath(cmd.Path); err != nil {
		return nil, err
	}
	heard, held, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open the pipe to the watchdog: %w", err)
	}
	gone, open, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the pipe from the watchdog: %w", err), heard.Close(), held.Close())
	}
	cmd.Args = slices.Concat([]string{"/bin/sh", "-c", script, leftover, cmd.Path}, cmd.Args[1:])
	cmd.Path = "/bin/sh"
	cmd.ExtraFiles = []*os.File{heard, open}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = errors.Join(cmd.Start(), heard.Close(), open.Close())
	if err != nil {
		return nil, errors.Join(err, held.Close(), gone.Close())
	}
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
		// The watchdog may have been killed with the process group: an error changes nothing.
		_, _ = held.WriteString("ended\n")
		_, _ = io.Copy(io.Discard, gone)
		_, _ = held.Close(), gone.Close()
	}()
	return p, nil
}

// Ended returns a channel that is closed when the process and its watchdog have ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait returns once the process has ended, with the error of [exec.Cmd.Wait].
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Status says how the process ended, or that it is still running.
func (p *Process) Status() string {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.String()
	default:
		return "still running"
	}
}

// PID returns the process id while the process runs, and 0 afterwards.
func (p *Process) PID() int {
	select {
	case <-p.ended:
		return 0
	default:
		return p.cmd.Process.Pid
	}
}

// Signal sends a signal. A process that has ended is an error.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop ends the process with SIGTERM, and with SIGKILL if it takes longer than grace. It returns once the process has
// ended, which may have been before.
func (p *Process) Stop(grace time.Duration) {
	_ = p.Signal(syscall.SIGTERM) // the only error is that it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.Kill()
	}
}

// Kill ends the process and everything it has started with SIGKILL, and returns once it has ended.
func (p *Process) Kill() {
	if pid := p.PID(); pid != 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // the only error is that it has ended
	}
	<-p.ended
}
