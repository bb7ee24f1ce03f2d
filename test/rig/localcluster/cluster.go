// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	errStopped       = errors.New("the cluster is stopped: start a new one")
	errEndedByItself = errors.New("it ended by itself")
)

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	cfg      Config
	dir      string
	leftover string // dir if it is temporary, else empty
	lifeline *lifeline
	began    time.Time

	// certs serialises envtest's certificate authority, which counts serial numbers without a lock.
	certs sync.Mutex
	plane envtest.ControlPlane
	admin *rest.Config

	// detach makes the end of Start's context mean nothing to the cluster any more.
	detach func() bool

	// logging serialises writes to Config.Log.
	logging sync.Mutex

	processes registry
	// granted is set once config/rbac.yaml is applied.
	granted atomic.Bool

	// mu is held while the control plane starts and stops, or a part of it. It guards what follows.
	mu      sync.Mutex
	manager ControllerManagerConfig
	down    sets.Set[Component] // those of envtest that were stopped on purpose
	stopped bool
	stopErr error
}

// Start starts the cluster and returns once all its components are healthy. When ctx ends, so does the cluster, as by
// [Cluster.Stop]. On an error nothing keeps running; the error names the component, how it ended and its log, and the
// state folder is kept.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c, err := newCluster(cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare a local cluster: %w", err)
	}
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	// envtest knows no context: what it waits for has to end.
	release := context.AfterFunc(starting, c.abort)
	err = c.start(starting)
	release()
	if err != nil {
		return nil, c.abandon(errors.Join(err, ctx.Err()))
	}
	c.detach = context.AfterFunc(ctx, c.stopAndLog)
	return c, nil
}

func newCluster(cfg Config) (*Cluster, error) {
	c := &Cluster{
		cfg: cfg, began: time.Now(),
		manager: ControllerManagerConfig{Args: cfg.ControllerManagerArgs}, down: sets.New[Component](),
	}
	dir, temporary, err := stateFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c.dir = dir
	if temporary {
		c.leftover = dir
	}
	c.lifeline, err = newLifeline(c.dir, c.leftover)
	return c, err
}

func (c *Cluster) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := []struct {
		component Component
		start     func(context.Context) error
	}{
		{Etcd, c.firstEtcd},
		{APIServer, c.firstAPIServer},
		{ControllerManager, c.startControllerManager},
		{Scheduler, c.startScheduler},
		{Kwok, c.startKwok},
	}
	for _, step := range steps {
		if !c.cfg.has(step.component) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step.start(ctx); err != nil {
			return err
		}
		c.logf("%s is up", step.component)
	}
	return nil
}

// abort makes a start that waits for envtest return: without etcd and the API server there is nothing to wait for.
func (c *Cluster) abort() {
	_ = c.lifeline.kill(APIServer)
	_ = c.lifeline.kill(Etcd)
}

// abandon ends what a failed start has started, and returns why it failed. The state folder stays, with the logs.
func (c *Cluster) abandon(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return errors.Join(fmt.Errorf("start a local cluster (its files are kept in %s): %w", c.dir, cause), c.endAll())
}

// Stop ends every process, waits until all have ended, and removes the state folder if it is a temporary one. A
// component that had ended by itself is an error, and the folder is kept then. Stop may be called more than once, and
// returns the same each time.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return c.stopErr
	}
	c.detach()
	c.stopped = true
	c.stopErr = c.stop()
	return c.stopErr
}

func (c *Cluster) stop() error {
	if err := errors.Join(c.crashes(), c.endAll()); err != nil {
		return fmt.Errorf("stop the local cluster (its files are kept in %s): %w", c.dir, err)
	}
	c.logf("stopped")
	if c.leftover == "" {
		return nil
	}
	return os.RemoveAll(c.leftover)
}

// stopAndLog is for the end of a context, where nobody takes an error.
func (c *Cluster) stopAndLog() {
	if err := c.Stop(); err != nil {
		c.logf("%v", err)
	}
}

// crashes returns an error for every component that should run and does not.
func (c *Cluster) crashes() error {
	var all []error
	for _, component := range slices.Concat([]Component{Etcd, APIServer}, c.processes.names()) {
		if c.down.Has(component) {
			continue
		}
		if c.lifeline.exitStatus(component) != "" {
			all = append(all, c.failure(component, errEndedByItself))
		}
	}
	return errors.Join(all...)
}

// endAll ends all processes, those first that would complain about the others' absence.
func (c *Cluster) endAll() error {
	all := c.processes.end()
	if c.plane.APIServer != nil {
		all = append(all, c.endEnvtest(APIServer, c.plane.APIServer.Stop))
	}
	if c.plane.Etcd != nil {
		all = append(all, c.endEnvtest(Etcd, c.plane.Etcd.Stop))
	}
	return errors.Join(append(all, c.lifeline.close())...)
}

// Dir returns the state folder, absolute.
func (c *Cluster) Dir() string {
	return c.dir
}

// LogPath returns the file with the output of a component.
func (c *Cluster) LogPath(component Component) string {
	return filepath.Join(c.dir, string(component)+".log")
}

// EtcdURL returns where etcd is, which wants no credentials.
func (c *Cluster) EtcdURL() string {
	return c.plane.Etcd.URL.String()
}

// AuditLog returns the file with the audit log; it exists with [Config.Audit] only.
func (c *Cluster) AuditLog() string {
	return filepath.Join(c.dir, auditLogName)
}

func (c *Cluster) logf(format string, args ...any) {
	c.logging.Lock()
	defer c.logging.Unlock()
	// Progress that cannot be shown is no reason to fail.
	_, _ = fmt.Fprintf(c.cfg.Log, "local cluster, %.1f s: %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}
