// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyTimeout is generous: the machine may be busy with a build.
	readyTimeout = time.Minute
	// readyPeriod is how often taintkeeper is asked whether it is ready.
	readyPeriod = 100 * time.Millisecond
	// stopTimeout is how long taintkeeper has between SIGTERM and SIGKILL.
	stopTimeout = 10 * time.Second
	// logTail is how many lines of its log an error shows.
	logTail = 10
)

// watchdogScript kills the process $1 unless it is told, by a line, that the process has ended. Standard input is a pipe
// from this program, and is closed when the program is gone, whichever way it went.
const watchdogScript = `read -r _ || kill -KILL "$1"`

// keeper is a running taintkeeper, which does not outlive this program.
type keeper struct {
	log     string
	metrics string // address of its metrics
	health  string // address of its readiness
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// startKeeper starts the binary with a kubeconfig and returns once it is ready. Its output goes to the file log.
func startKeeper(ctx context.Context, binary, kubeconfig, log string) (*keeper, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, fmt.Errorf("find a port for the metrics of taintkeeper: %w", err)
	}
	health, err := freeAddress()
	if err != nil {
		return nil, fmt.Errorf("find a port for the health of taintkeeper: %w", err)
	}
	k := &keeper{
		log:     log,
		metrics: "http://" + metrics + "/metrics",
		health:  "http://" + health + "/readyz",
		ended:   make(chan struct{}),
		cmd: exec.Command(binary,
			"--kubeconfig="+kubeconfig,
			"--leader-elect=false",
			"--metrics-bind-address="+metrics,
			"--health-probe-bind-address="+health,
			"--v=1", // a line per eviction
		),
	}
	if err := k.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w; build it with `make build`", binary, err)
	}
	if err := k.waitReady(ctx); err != nil {
		return nil, errors.Join(err, k.stop())
	}
	return k, nil
}

func (k *keeper) start() error {
	log, err := os.OpenFile(k.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	k.cmd.Stdout, k.cmd.Stderr = log, log
	isolate(k.cmd)
	if err := k.cmd.Start(); err != nil {
		return err
	}
	release, err := guard(k.cmd.Process.Pid)
	if err != nil {
		return errors.Join(err, k.cmd.Process.Kill(), k.cmd.Wait())
	}
	go func() {
		defer close(k.ended)
		_ = k.cmd.Wait() // how it ended is in ProcessState
		release()
	}()
	return nil
}

// guard starts the watchdog of a process. The function that it returns ends the watchdog.
func guard(pid int) (release func(), err error) {
	watchdog := exec.Command("/bin/sh", "-c", watchdogScript, "taintkeeper-watchdog", strconv.Itoa(pid))
	watchdog.Dir = "/"
	isolate(watchdog)
	pipe, err := watchdog.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := watchdog.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return func() {
		_, _ = io.WriteString(pipe, "ended\n")
		_ = watchdog.Wait()
	}, nil
}

func (k *keeper) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("taintkeeper is not ready after %s; see %s", readyTimeout, k.log))
	defer cancel()
	tick := time.NewTicker(readyPeriod)
	defer tick.Stop()
	for !answers(ctx, k.health) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-k.ended:
			return k.failure()
		case <-tick.C:
		}
	}
	return nil
}

func answers(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// failure says how a taintkeeper ended that should not have.
func (k *keeper) failure() error {
	return fmt.Errorf("taintkeeper ended by itself (%s); its log %s ends with:\n%s", k.cmd.ProcessState, k.log, tail(k.log))
}

// stop ends the process and waits until it has.
func (k *keeper) stop() error {
	_ = k.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	if k.endedWithin(stopTimeout) {
		return nil
	}
	_ = k.cmd.Process.Kill()
	if k.endedWithin(stopTimeout) {
		return fmt.Errorf("taintkeeper did not end within %s after SIGTERM and was killed; see %s", stopTimeout, k.log)
	}
	return fmt.Errorf("taintkeeper (process %d) survives SIGKILL", k.cmd.Process.Pid)
}

func (k *keeper) endedWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.ended:
		return true
	case <-timer.C:
		return false
	}
}

// tail returns the last lines of a log, indented.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return indent + "(it cannot be read: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return indent + strings.Join(lines[max(0, len(lines)-logTail):], "\n"+indent)
}

// freeAddress returns an address of the loopback interface that nobody listens on at this moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
