// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
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

	stdin        io.WriteCloser
	stdout       *bufio.Reader
	started      time.Time
	mark         int64         // of the audit log, before the process started
	serverBefore float64       // the CPU time of the API server until then
	startup      time.Duration // from the start of the process to its first delete
	rival        *process      // that runs at the same time, if any
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

// memory reads the most that the process has occupied since its start (VmHWM), and what it occupies now (VmRSS).
func (p *process) memory() (figures, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return nil, p.unread("memory", err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return nil, p.unread("memory", err)
	}
	return figures{
		{"peak memory, MiB", float64(status.VmHWM) / (1 << 20)}, {"memory, MiB", float64(status.VmRSS) / (1 << 20)},
	}, nil
}

// cpu returns the CPU time that the process has used, in seconds.
func (p *process) cpu() (float64, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0, p.unread("CPU time", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, p.unread("CPU time", err)
	}
	return stat.CPUTime(), nil
}

func (p *process) unread(what string, err error) error {
	return fmt.Errorf("read the %s of %s, which is %s (this works on Linux only): %w", what, p.name, p.Status(), err)
}

// loadAverage returns the machine's load over the last minute, which shows whether other processes interfered. It is
// zero if unknown.
func loadAverage() float64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return 0
	}
	return load.Load1
}

// serverCPU returns the CPU time that the API server has used, in seconds. Unlike the time that an eviction takes, what
// it costs the API server does not depend on what else the machine does.
func (b *bench) serverCPU(ctx context.Context) (float64, error) {
	request := b.admin.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain")
	metrics, err := request.Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return parseServerCPU(string(metrics))
}

func parseServerCPU(metrics string) (float64, error) {
	const name = "process_cpu_seconds_total "
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the API server has no metric " + name)
}

// The CPU times, by their names in the report.
const (
	ownCPU    = "CPU time, s"
	serverCPU = "CPU time of the API server, s"
)

// measured does something while the process runs, and returns what CPU time it took.
func (b *bench) measured(ctx context.Context, p *process, do func(context.Context) error) (figures, error) {
	own, server, err := b.usage(ctx, p)
	if err != nil {
		return nil, err
	}
	running, cancel := p.running(ctx)
	defer cancel()
	if err := do(running); err != nil {
		return nil, err
	}
	ownAfter, serverAfter, err := b.usage(ctx, p)
	return figures{{ownCPU, ownAfter - own}, {serverCPU, serverAfter - server}}, err
}

func (b *bench) usage(ctx context.Context, p *process) (own, server float64, err error) {
	if own, err = p.cpu(); err != nil {
		return 0, 0, err
	}
	server, err = b.serverCPU(ctx)
	return own, server, err
}
