// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a contestant that runs.
type process struct {
	contestant
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	started time.Time
	mark    int64         // of the audit log, before the process started
	startup time.Duration // from the start of the process to its first delete
	rival   *process      // that runs beside it, if any
}

// start starts a contestant. Its log goes to the state folder of the cluster, for whoever looks into a failure.
func (b *bench) start(c contestant) (*process, error) {
	log, err := os.OpenFile(filepath.Join(b.cluster.Dir(), c.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.name, err)
	}
	defer log.Close() // the process keeps it open, this program need not

	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stderr = log
	p := &process{contestant: c, cmd: cmd}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p.stdout = bufio.NewReader(stdout)
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// expectLine waits until the process has written a line.
func (p *process) expectLine() error {
	if _, err := p.stdout.ReadString('\n'); err != nil {
		return fmt.Errorf("%s ended before it was ready: %w", p.name, err)
	}
	return nil
}

// sendLine tells the process to go on.
func (p *process) sendLine() error {
	_, err := io.WriteString(p.stdin, "\n")
	return err
}

// stop ends the process and waits until it has.
func (p *process) stop() error {
	const grace = 20 * time.Second
	if p.rival != nil {
		defer func() { _ = p.rival.stop() }() // after ours, which hands back
	}
	_ = p.stdin.Close()
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	kill := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // ended by a signal: its status says nothing
	return nil
}

// memory is what a process occupies, in bytes.
type memory struct {
	Peak     int64 `json:"peak"`     // VmHWM
	Resident int64 `json:"resident"` // VmRSS
}

// memory reads what the process occupies now, and has at most since its start.
func (p *process) memory() (memory, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return memory{}, fmt.Errorf("weigh %s (this works on Linux only): %w", p.name, err)
	}
	m := parseMemory(string(content))
	if m.Peak == 0 {
		return memory{}, fmt.Errorf("weigh %s: it has ended; see its log", p.name)
	}
	return m, nil
}

func parseMemory(status string) memory {
	var m memory
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		kibibytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch key {
		case "VmHWM":
			m.Peak = kibibytes << 10
		case "VmRSS":
			m.Resident = kibibytes << 10
		}
	}
	return m
}

// cpu returns the processor time that the process has used.
func (p *process) cpu() (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s (this works on Linux only): %w", p.name, err)
	}
	return parseCPU(string(content)), nil
}

// parseCPU adds user and system time of proc_pid_stat(5), which are the 14th and 15th field. The second, the name in
// parentheses, may have blanks in it.
func parseCPU(stat string) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	_, rest, _ := strings.Cut(stat, ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// loadAverage returns the machine's load over the last minute, to judge whether others disturbed; empty where unknown.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	load, _, _ := strings.Cut(string(content), " ")
	return load
}
