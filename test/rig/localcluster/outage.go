// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
)

// StopAPIServer ends the API server, so that tests can play an outage. The other components go on and find that they
// cannot reach it. It returns once the process has ended, which ctx does not cut short. Stopping a server that does
// not run does nothing.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.takeDown(ctx, APIServer, c.plane.APIServer.Stop)
}

// KillAPIServer is StopAPIServer by SIGKILL.
func (c *Cluster) KillAPIServer(ctx context.Context) error {
	return c.takeDown(ctx, APIServer, func() error {
		if err := c.lifeline.kill(APIServer); err != nil {
			return err
		}
		return c.plane.APIServer.Stop()
	})
}

// StartAPIServer starts the API server after [Cluster.StopAPIServer], on the same port and with the same certificates
// and data, and returns once it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	return c.bringBack(ctx, APIServer, c.startAPIServer)
}

// StopEtcd ends etcd, as [Cluster.StopAPIServer] does with the API server, which goes on and finds that it cannot reach
// its data.
func (c *Cluster) StopEtcd(ctx context.Context) error {
	return c.takeDown(ctx, Etcd, c.plane.Etcd.Stop)
}

// StartEtcd starts etcd after [Cluster.StopEtcd], on the same port and with the same data, and returns once it is
// healthy. An API server that ran all the time takes some seconds to find it again.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	return c.bringBack(ctx, Etcd, c.startEtcd)
}

// Freeze makes running components stand still, as on a machine that is paused: their connections stay open, and the
// clock runs on. One that stands still is killed by whoever stops it.
func (c *Cluster) Freeze(components ...Component) error {
	return c.signal("freeze", freezeProcess, components)
}

// Thaw lets components go on that [Cluster.Freeze] made stand still.
func (c *Cluster) Thaw(components ...Component) error {
	return c.signal("thaw", thawProcess, components)
}

func (c *Cluster) signal(what string, send func(pid int) error, components []Component) error {
	for _, component := range components {
		pid := c.lifeline.pid(component)
		if pid == 0 {
			return fmt.Errorf("%s %s: it does not run", what, component)
		}
		if err := send(pid); err != nil {
			return fmt.Errorf("%s %s (process %d): %w", what, component, pid, err)
		}
	}
	return nil
}

func (c *Cluster) takeDown(ctx context.Context, component Component, stop func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	c.down.Insert(component)
	return c.endEnvtest(component, stop)
}

func (c *Cluster) bringBack(ctx context.Context, component Component, start func(context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	if !c.down.Has(component) {
		return fmt.Errorf("%s runs already: stop it first", component)
	}
	if err := start(ctx); err != nil {
		return err
	}
	c.down.Delete(component)
	c.logf("%s is back", component)
	return nil
}

// endEnvtest ends a process of envtest, and kills it when it does not end in time: envtest sends the signal but does
// not wait for its effect.
func (c *Cluster) endEnvtest(component Component, stop func() error) error {
	stopErr := stop()
	if c.lifeline.pid(component) == 0 {
		return nil
	}
	if stopErr == nil {
		stopErr = errors.New("it did not end")
	}
	if err := c.lifeline.kill(component); err != nil {
		return errors.Join(stopErr, err)
	}
	return c.lifeline.waitGone(component)
}
