// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/process"
)

const (
	// startTimeout is generous: the machine may be busy with a build.
	startTimeout = 2 * time.Minute
	// stopGrace is how long a component has between SIGTERM and SIGKILL.
	stopGrace = 15 * time.Second
	// apiServerGrace is short, because the API server waits for watches to end, and the clients of tests and benchmarks
	// keep watching. Nothing is lost: etcd has acknowledged every write, and the audit log is not buffered.
	apiServerGrace = 2 * time.Second
	// healthPeriod is how often a component is asked while it starts.
	healthPeriod = 50 * time.Millisecond
	// tailLines is how much of a log an error shows.
	tailLines = 20
	// portAttempts bounds how often a component that lost its port to another client starts again.
	portAttempts = 3
)

// program says how to run a component.
type program struct {
	component Component
	// binary is its path; by default it is the one in [Config.Binaries].
	binary string
	// port is where it serves; 0 chooses a free port.
	port int
	args func(port int) []string
	// health is where it says that it is healthy, with %d for the port.
	health string
	env    []string
}

// component is a process of the cluster.
type component struct {
	*process.Process

	name   Component
	port   int
	health string
}

func (c *component) stop() {
	grace := stopGrace
	if c.name == APIServer {
		grace = apiServerGrace
	}
	c.Stop(grace)
}

func (c *component) hasEnded() bool { return c.PID() == 0 }

// run starts a component and waits until it is healthy. It has this program's environment, but not its HOME, so that no
// component finds its user's settings.
func (c *Cluster) run(ctx context.Context, p program) (*component, error) {
	for attempt := 1; ; attempt++ {
		started, err := c.tryToRun(ctx, p)
		if err == nil || attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return started, err
		}
	}
}

func (c *Cluster) tryToRun(ctx context.Context, p program) (*component, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a port for %s: %w", p.component, err)
	}
	port = cmp.Or(p.port, port)
	started := &component{name: p.component, port: port, health: fmt.Sprintf(p.health, port)}
	if err := c.components.add(started, func() error { return c.launch(started, p) }); err != nil {
		return nil, err
	}
	if err := c.waitHealthy(ctx, started); err != nil {
		defer c.components.forget(started)
		err = c.failure(started, err)
		started.stop()
		return nil, err
	}
	return started, nil
}

func (c *Cluster) launch(started *component, p program) error {
	log, err := os.OpenFile(c.LogPath(p.component), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.component, err)
	}
	defer log.Close() // the process keeps the file open; this program need not
	binary := cmp.Or(p.binary, filepath.Join(c.cfg.Binaries, string(p.component)))
	cmd := exec.Command(binary, p.args(started.port)...)
	cmd.Dir = c.dir
	cmd.Env = slices.Concat(os.Environ(), []string{"HOME=" + c.dir}, p.env)
	cmd.Stdout, cmd.Stderr = log, log
	if started.Process, err = process.Start(cmd, c.leftover); err != nil {
		return fmt.Errorf("start %s: %w", p.component, err)
	}
	return nil
}

// waitHealthy returns once the component says that it is healthy.
func (c *Cluster) waitHealthy(ctx context.Context, started *component) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := loopbackClient()
	defer client.CloseIdleConnections()
	tick := time.NewTicker(healthPeriod)
	defer tick.Stop()
	for {
		if healthy(ctx, client, started.health) {
			return nil
		}
		select {
		case <-started.Ended():
			return errors.New("it ended before it was healthy")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer at %s: %w", started.health, context.Cause(ctx))
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

// loopbackClient returns a client for health checks. The components sign their serving certificates themselves, so
// there is nothing to check them against.
func loopbackClient() *http.Client {
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
}

// freePort returns a TCP port of the loopback interface that is free at this moment.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// failure describes a component that failed because of cause. Call it before stopping the component, which would hide
// how it ended by itself.
func (c *Cluster) failure(failed *component, cause error) error {
	path := c.LogPath(failed.name)
	return fmt.Errorf("%s failed (%s): %w; its log %s ends with:\n%s",
		failed.name, failed.Status(), cause, path, tail(path))
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

// registry has the components that should run. It is safe for concurrent use.
type registry struct {
	mu     sync.Mutex
	all    map[Component]*component
	closed bool
}

// add starts a component and keeps it, instead of one of the same name that has ended. After end it refuses, because
// nothing would end a new component.
func (r *registry) add(c *component, start func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errStopped
	}
	if err := start(); err != nil {
		return err
	}
	if r.all == nil {
		r.all = map[Component]*component{}
	}
	r.all[c.name] = c
	return nil
}

// isClosed reports whether nothing can be added any longer.
func (r *registry) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// get returns the component with a name, or nil if none should run.
func (r *registry) get(name Component) *component {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[name]
}

// forget drops a component, unless another has its name already.
func (r *registry) forget(c *component) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[c.name] == c {
		delete(r.all, c.name)
	}
}

// end ends all components, and no more can be added. It returns those that had ended by themselves.
func (r *registry) end() (crashed []*component) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		if r.all[name].hasEnded() {
			crashed = append(crashed, r.all[name])
		}
	}
	// The components that would complain about the absence of others come first.
	var group sync.WaitGroup
	for name, c := range r.all {
		if name != Etcd && name != APIServer {
			group.Go(c.stop)
		}
	}
	group.Wait()
	for _, name := range []Component{APIServer, Etcd} {
		if c := r.all[name]; c != nil {
			c.stop()
		}
	}
	return crashed
}
