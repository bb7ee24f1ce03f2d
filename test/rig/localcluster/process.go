// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// startTimeout is generous: the machine may be busy with a build.
	startTimeout = 2 * time.Minute
	// stopGrace is how long a component has between SIGTERM and SIGKILL.
	stopGrace = 15 * time.Second
	// healthPeriod is how often a component is asked while it starts.
	healthPeriod = 50 * time.Millisecond
	// tailLines is how much of a log an error shows.
	tailLines = 20
	// portAttempts bounds how often a component that lost its port to somebody else starts again.
	portAttempts = 3
)

// process is a component that this package starts itself, that is all but etcd and kube-apiserver.
type process struct {
	component Component
	lifeline  *lifeline
	cmd       *exec.Cmd
	ended     chan struct{}
}

// command builds the command line of a component that serves on the given port.
type command func(port int) (args []string, health string)

// startProcess starts a binary as a component and waits until it is healthy. It has this program's environment and env.
func (c *Cluster) startProcess(ctx context.Context, component Component, binary string, build command,
	env ...string,
) (*process, error) {
	var err error
	for range portAttempts {
		var p *process
		if p, err = c.tryProcess(ctx, component, binary, build, env); err == nil {
			return p, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
	return nil, err
}

func (c *Cluster) tryProcess(ctx context.Context, component Component, binary string, build command,
	env []string,
) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a port for %s: %w", component, err)
	}
	args, health := build(port)
	p, err := c.processes.add(component, func() (*process, error) { return c.launch(component, binary, args, env) })
	if err != nil {
		return nil, err
	}
	if err := p.waitHealthy(ctx, health); err != nil {
		defer c.processes.forget(p)
		return nil, errors.Join(c.failure(component, err), p.stop())
	}
	return p, nil
}

func (c *Cluster) launch(component Component, binary string, args, env []string) (*process, error) {
	launcher, err := c.lifeline.launcher(component, binary)
	if err != nil {
		return nil, err
	}
	log, err := c.openLog(component)
	if err != nil {
		return nil, err
	}
	// The process keeps the file open, this program need not.
	defer log.Close()

	p := &process{component: component, lifeline: c.lifeline, ended: make(chan struct{})}
	p.cmd = exec.Command(launcher, args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	isolate(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", component, err)
	}
	go func() {
		defer close(p.ended)
		// How it ended is read from the lifeline, as with the components that envtest starts.
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// waitHealthy returns once the address answers 200.
func (p *process) waitHealthy(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := loopbackClient()
	defer client.CloseIdleConnections()
	tick := time.NewTicker(healthPeriod)
	defer tick.Stop()
	for {
		if healthy(ctx, client, address) {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it ended before it was healthy")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer at %s: %w", address, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func healthy(ctx context.Context, client *http.Client, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// loopbackClient returns a client for health checks. The components sign their serving certificates themselves and keep
// them in memory, so there is nothing to check them against.
func loopbackClient() *http.Client {
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
}

// stop ends the process and waits until it has: SIGTERM first, SIGKILL after stopGrace.
func (p *process) stop() error {
	select {
	case <-p.ended: // its process id may be another's by now
		return nil
	default:
	}
	if err := terminateGroup(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("stop %s: %w", p.component, err)
	}
	if p.endedWithin(stopGrace) {
		return nil
	}
	return p.kill()
}

// kill ends the process by SIGKILL and waits until it has ended.
func (p *process) kill() error {
	if err := p.lifeline.kill(p.component); err != nil {
		return err
	}
	if p.endedWithin(stopGrace) {
		return nil
	}
	return fmt.Errorf("%s (process %d) survives SIGKILL", p.component, p.cmd.Process.Pid)
}

func (p *process) endedWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// freePort returns a TCP port of the loopback interface that nobody listens on at this moment.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// loopback returns the address of a port of the loopback interface.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (c *Cluster) binary(component Component) string {
	return filepath.Join(c.cfg.Binaries, string(component))
}

// openLog opens the log of a component, which goes on after a restart.
func (c *Cluster) openLog(component Component) (*os.File, error) {
	log, err := os.OpenFile(c.LogPath(component), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", component, err)
	}
	return log, nil
}

// failure says everything there is to know about a component that failed because of cause. It must be called before the
// component is stopped, which would hide how it ended by itself.
func (c *Cluster) failure(component Component, cause error) error {
	path := c.LogPath(component)
	state := c.lifeline.exitStatus(component)
	if state == "" {
		state = "still running"
	}
	return fmt.Errorf("%s failed (%s): %w; its log %s ends with:\n%s", component, state, cause, path, tail(path))
}

// tail returns the last lines of a log, indented.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "\t(it cannot be read: " + err.Error() + ")"
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		return "\t(nothing)"
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "\t" + strings.Join(lines, "\n\t")
}
