// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

var (
	errStopped       = errors.New("the cluster is stopped: start a new one")
	errEndedByItself = errors.New("it exited on its own")
)

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	cfg      Config
	dir      string
	leftover string // dir if it is temporary, else empty
	began    time.Time

	authority     *authority
	etcdPort      int
	apiServerPort int
	serving       []byte // whom clients trust
	admin         *rest.Config
	client        kubernetes.Interface // the administrator's
	components    registry

	// detach makes the cluster ignore the end of Start's context.
	detach func() bool

	// logging serializes writes to Config.Log.
	logging sync.Mutex

	stalls   func() *stall.Meter
	endMeter func()

	// granted is set once config/rbac.yaml is applied.
	granted atomic.Bool

	// mu is held while the control plane, or a part of it, starts or stops. It guards the fields below.
	mu      sync.Mutex
	manager ControllerManagerConfig
	stopped bool
	stopErr error
}

// Start starts the cluster and returns once all its components are healthy. When ctx ends, so does the cluster, as with
// [Cluster.Stop]. On an error nothing keeps running; the error names the component, how it ended and its log, and the
// state folder is kept.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, began: time.Now(), manager: ControllerManagerConfig{Args: cfg.ControllerManagerArgs}}
	c.prepareMeter(ctx)
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare a local cluster: %w", err)
	}
	if err := c.start(ctx); err != nil {
		c.components.end()
		return nil, fmt.Errorf("start a local cluster (its files are kept in %s): %w", c.dir, errors.Join(err, ctx.Err()))
	}
	c.detach = context.AfterFunc(ctx, c.stopAndLog)
	return c, nil
}

// prepare makes the state folder, and what must be in it before the first component starts.
func (c *Cluster) prepare() error {
	dir, temporary, err := stateFolder(c.cfg.Dir)
	if err != nil {
		return err
	}
	c.dir = dir
	if temporary {
		c.leftover = dir
	}
	for path, content := range map[string][]byte{auditPolicyName: []byte(c.cfg.Audit), stagesName: stages} {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o600); err != nil {
			return err
		}
	}
	c.authority, err = newAuthority(dir)
	return err
}

func (c *Cluster) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := []struct {
		component Component
		start     func(context.Context) error
	}{
		{Etcd, c.startEtcd},
		{APIServer, c.startAPIServer},
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
	c.endMeter()
	var crashes []error
	for _, crashed := range c.components.end() {
		crashes = append(crashes, c.failure(crashed, errEndedByItself))
	}
	if err := errors.Join(crashes...); err != nil {
		return fmt.Errorf("stop the local cluster (its files are kept in %s): %w", c.dir, err)
	}
	c.logf("stopped")
	if c.leftover == "" {
		return nil
	}
	return os.RemoveAll(c.leftover)
}

// stopAndLog is for the end of a context, when there is no caller to return an error to.
func (c *Cluster) stopAndLog() {
	if err := c.Stop(); err != nil {
		c.logf("%v", err)
	}
}

// Dir returns the state folder, absolute.
func (c *Cluster) Dir() string {
	return c.dir
}

// Binaries returns the folder with the binaries, absolute.
func (c *Cluster) Binaries() string { return c.cfg.Binaries }

// LogPath returns the file with the output of a component.
func (c *Cluster) LogPath(component Component) string {
	return c.file(string(component) + ".log")
}

// etcdURL returns the address of etcd, which needs no credentials.
func (c *Cluster) etcdURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort)
}

// AuditLog returns the file with the audit log; it exists with [Config.Audit] only.
func (c *Cluster) AuditLog() string {
	return c.file(auditLogName)
}

func (c *Cluster) logf(format string, args ...any) {
	c.logging.Lock()
	defer c.logging.Unlock()
	// A failure to show progress is ignored.
	_, _ = fmt.Fprintf(c.cfg.Log, "local cluster, %.1f s: %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}
