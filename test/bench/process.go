// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/prometheus/procfs"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/process"
)

// stopGrace is how long a contestant has between SIGTERM and SIGKILL.
const stopGrace = 20 * time.Second

// process is a contestant that runs.
type process struct {
	*rig.Process
	contestant

	stdin   io.WriteCloser
	stdout  *bufio.Reader
	started time.Time
	mark    int64         // of the audit log, before the process started
	startup time.Duration // from the start of the process to its first delete
	rival   *process      // that runs at the same time, if any
}

// start starts a contestant. Its log goes to the state folder of the cluster, so that failures can be examined.
func (b *bench) start(c contestant) (p *process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", c.name, err)
		}
	}()
	log, err := os.OpenFile(b.cluster.LogPath(localcluster.Component(c.name)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process keeps it open; this program need not

	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stderr = log
	p = &process{contestant: c}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout, p.started = bufio.NewReader(stdout), time.Now()
	p.Process, err = rig.Start(cmd, "")
	return p, err
}

// expectLine waits until the process has written a line.
func (p *process) expectLine() error {
	if _, err := p.stdout.ReadString('\n'); err != nil {
		return fmt.Errorf("%s ended before it was ready: %w", p.name, err)
	}
	return nil
}

// sendLine tells the process to continue.
func (p *process) sendLine() error {
	_, err := io.WriteString(p.stdin, "\n")
	return err
}

// running returns a context that ends when the process does, so that nobody waits for one that has failed.
func (p *process) running(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-p.Ended():
			cancel(fmt.Errorf("%s has ended, %s: see its log", p.name, p.Status()))
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stop ends the process and waits until it has.
func (p *process) stop() {
	_ = p.stdin.Close()
	p.Stop(stopGrace)
	if p.rival != nil {
		p.rival.stop() // after ours, which hands back
	}
}

// memory is what a process occupies, in bytes.
type memory struct {
	Peak     int64 `json:"peak"`     // VmHWM
	Resident int64 `json:"resident"` // VmRSS
}

// memory reads what the process occupies now, and the most that it has occupied since its start.
func (p *process) memory() (memory, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return memory{}, p.unread("memory", err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return memory{}, p.unread("memory", err)
	}
	return memory{Peak: int64(status.VmHWM), Resident: int64(status.VmRSS)}, nil
}

// cpu returns the CPU time that the process has used.
func (p *process) cpu() (time.Duration, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0, p.unread("CPU time", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, p.unread("CPU time", err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

func (p *process) unread(what string, err error) error {
	return fmt.Errorf("read the %s of %s, which is %s (this works on Linux only): %w", what, p.name, p.Status(), err)
}

// loadAverage returns the machine's load over the last minute, which shows whether other processes interfered. It is
// empty if unknown.
func loadAverage() string {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.2f", load.Load1)
}
