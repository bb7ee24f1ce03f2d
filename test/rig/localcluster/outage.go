// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"syscall"
)

// StopAPIServer ends the API server, so that tests can play an outage. The other components continue and cannot reach
// it. It returns once the process has ended, even if ctx ends first. Stopping a server that is not running does
// nothing.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.takeDown(ctx, APIServer, (*component).stop)
}

// KillAPIServer is StopAPIServer with SIGKILL.
func (c *Cluster) KillAPIServer(ctx context.Context) error {
	return c.takeDown(ctx, APIServer, func(server *component) { server.Kill() })
}

// StartAPIServer starts the API server after [Cluster.StopAPIServer], on the same port and with the same certificates
// and data, and returns once it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	return c.bringBack(ctx, APIServer, c.startAPIServer)
}

// StopEtcd ends etcd, as [Cluster.StopAPIServer] ends the API server, which continues and cannot reach its data.
func (c *Cluster) StopEtcd(ctx context.Context) error {
	return c.takeDown(ctx, Etcd, (*component).stop)
}

// StartEtcd starts etcd after [Cluster.StopEtcd], on the same port and with the same data, and returns once it is
// healthy. An API server that ran all the time takes some seconds to find it again.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	return c.bringBack(ctx, Etcd, c.startEtcd)
}

// Freeze suspends running components as if their machine were paused: their connections stay open, and the clock
// continues. Stopping a frozen component kills it.
func (c *Cluster) Freeze(components ...Component) error {
	return c.signal(syscall.SIGSTOP, components)
}

// Thaw resumes components that [Cluster.Freeze] suspended.
func (c *Cluster) Thaw(components ...Component) error {
	return c.signal(syscall.SIGCONT, components)
}

func (c *Cluster) signal(signal syscall.Signal, components []Component) error {
	for _, name := range components {
		running := c.components.get(name)
		if running == nil || running.hasEnded() {
			return fmt.Errorf("send %s the signal %q: it is not running", name, signal)
		}
		if err := running.Signal(signal); err != nil {
			return fmt.Errorf("send %s the signal %q: %w", name, signal, err)
		}
	}
	return nil
}

func (c *Cluster) takeDown(ctx context.Context, name Component, end func(*component)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	if running := c.components.get(name); running != nil {
		end(running)
		c.components.forget(running)
	}
	return nil
}

func (c *Cluster) bringBack(ctx context.Context, name Component, start func(context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	if c.components.get(name) != nil {
		return fmt.Errorf("%s is already running: stop it first", name)
	}
	if err := start(ctx); err != nil {
		return err
	}
	c.logf("%s is back", name)
	return nil
}
