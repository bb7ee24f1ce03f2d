// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// side is a control plane of its own, and what evicts there.
type side struct {
	*Real

	name    string
	cluster *localcluster.Cluster
	stop    context.CancelFunc // of everything that watches it
	config  localcluster.TaintkeeperConfig
	keeper  *localcluster.Taintkeeper // nil on the side of Kubernetes alone
	objects client.Client             // the administrator's, for our resources, on the other side

	// Of the act that is played:
	cues   *cues
	status func(*Play, time.Time) string

	mu   sync.Mutex
	play *Play // nil until something was typed
}

// managerArgs are kube-controller-manager's, on both sides. It does not miss kubelets, which there are none of.
var managerArgs = []string{"--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"}

// startSides starts both. What it returns must be stopped, even after an error.
func startSides(ctx context.Context, binary string) (sides [2]*side, err error) {
	progress("starting etcd, kube-apiserver and kube-controller-manager, twice ...")
	sides = [2]*side{{name: "Kubernetes alone"}, {name: "with Taintkeeper"}}
	group, starting := errgroup.WithContext(ctx)
	for i, s := range sides {
		group.Go(func() error {
			if err := s.start(starting); err != nil || i == 0 {
				return err
			}
			return s.startKeeper(starting, binary)
		})
	}
	return sides, group.Wait()
}

// start starts the control plane, which outlives ctx so that it ends in order.
func (s *side) start(ctx context.Context) (err error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	s.stop = cancel
	s.cluster, err = localcluster.Start(lasting, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn, Audit: auditlog.Changes, ControllerManagerArgs: managerArgs,
		Without: []localcluster.Component{localcluster.Scheduler, localcluster.Kwok},
	})
	if err == nil {
		s.Real, err = NewReal(lasting, s.cluster, auditlog.BuiltInAsServiceAccount)
	}
	return err
}

func (s *side) startKeeper(ctx context.Context, binary string) error {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("find taintkeeper: %w; build it with `make build`", err)
	}
	err := s.cluster.InstallResources(ctx)
	if err == nil {
		s.objects, err = s.cluster.Client()
	}
	if err != nil {
		return err
	}
	s.User = localcluster.TaintkeeperUser
	s.config = localcluster.TaintkeeperConfig{
		Binary: binary, Coexist: true, Args: []string{"--kube-api-qps=20", "--kube-api-burst=30"},
	}
	return s.restartKeeper(ctx)
}

func (s *side) restartKeeper(ctx context.Context) (err error) {
	if s.keeper != nil {
		err = s.keeper.Stop()
	}
	if err == nil {
		s.keeper, err = s.cluster.StartTaintkeeper(ctx, s.config)
	}
	return err
}

// stopSides ends everything.
func stopSides(sides [2]*side) error {
	var all []error
	for _, s := range sides {
		if s.keeper != nil {
			all = append(all, s.keeper.Stop())
		}
		if s.cluster != nil {
			all = append(all, s.cluster.Stop())
		}
		if s.stop != nil {
			s.stop()
		}
	}
	return errors.Join(all...)
}

// sideOf is the side on which something is played.
func sideOf(p *Play) *side { return p.Stage.(*side) }

// Restart implements [Stage].
func (s *side) Restart(ctx context.Context) error {
	if s.keeper != nil {
		return s.restartKeeper(ctx)
	}
	return s.cluster.RestartControllerManager(ctx, localcluster.ControllerManagerConfig{Args: managerArgs})
}

// Objects implements what the steps about policies want.
func (s *side) Objects() client.Client { return s.objects }

// types waits until the other side is as far, and says once what is typed.
func (s *side) types(ctx context.Context, p *Play, command string) error {
	s.mu.Lock()
	s.play = p
	s.mu.Unlock()
	return s.cues.give(ctx, command)
}

// now says how the act goes.
func (s *side) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.play == nil {
		return ""
	}
	return s.status(s.play, s.cues.first())
}

// cues lets both sides begin each step of an act at the same time.
type cues struct {
	say func(format string, args ...any)

	mu    sync.Mutex
	given map[string]*cue
	began time.Time
}

// cue is a step that both sides take.
type cue struct {
	waits int
	met   chan struct{}
}

func (c *cues) give(ctx context.Context, command string) error {
	c.mu.Lock()
	if c.given == nil {
		c.given = map[string]*cue{}
	}
	is := c.given[command]
	if is == nil {
		is = &cue{met: make(chan struct{})}
		c.given[command] = is
	}
	if is.waits++; is.waits == 2 {
		if c.began.IsZero() {
			c.began = time.Now()
		}
		c.say("%s%5.1f s  $ %s", indent, time.Since(c.began).Seconds(), command)
		close(is.met)
	}
	c.mu.Unlock()
	select {
	case <-is.met:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// first is when the first step was taken.
func (c *cues) first() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began
}
