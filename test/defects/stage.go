// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

// stage is a cluster with one contestant in it.
type stage struct {
	*scenario.Real
	name    string // the contestant's
	out     io.Writer
	cluster *localcluster.Cluster
	surroundings
	contestant contestant
	running    launch
	canaries   atomic.Int32
}

// starter starts a cluster with a contestant.
type starter func(context.Context, options) (*localcluster.Cluster, contestant, error)

// setUp starts a stage. The caller must take down what it returns, even after an error.
func setUp(ctx context.Context, name string, start starter, o options) (*stage, error) {
	s := &stage{name: name, out: o.progress}
	var err error
	if s.cluster, s.contestant, err = start(ctx, o); err != nil {
		return s, fmt.Errorf("start a cluster with %s: %w", name, err)
	}
	if s.Real, err = scenario.NewReal(ctx, s.cluster, s.contestant.user()); err != nil {
		return s, err
	}
	access, err := s.contestant.access()
	if err != nil {
		return s, err
	}
	if err := s.serveGate(ctx, access); err != nil {
		return s, err
	}
	if s.clock, err = wallclock.New(filepath.Join(s.cluster.Dir(), "clock")); err != nil {
		return s, err
	}
	s.say("up, Kubernetes %s", s.Version)
	return s, s.startCanaries(ctx)
}

// serveGate starts a proxy that reaches the API server as the user of access, with the gate before its watches of
// nodes. It ends with ctx.
func (s *stage) serveGate(ctx context.Context, access *rest.Config) error {
	s.gate = &proxy.Gate{}
	faults := &proxy.Faults{}
	faults.Add(proxy.WatchesOfNodes, s.gate.Answer)
	p, err := proxy.Serve(proxy.Config{Access: access, Over: faults.Over})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = p.Close() }) // nothing calls it any longer
	s.through = p.Access()
	return nil
}

func (s *stage) takeDown() error {
	if s.cluster == nil {
		return nil
	}
	err := s.cluster.Stop()
	if s.clock != nil {
		err = errors.Join(err, s.clock.Close())
	}
	return err
}

func (s *stage) say(format string, args ...any) {
	// A failure to show progress is ignored.
	_, _ = fmt.Fprintf(s.out, "%s: %s\n", s.name, fmt.Sprintf(format, args...))
}

// launch makes the contestant run in the given way, and evict.
func (s *stage) launch(ctx context.Context, l launch) error {
	if s.running != l {
		if err := s.contestant.start(ctx, l, s.surroundings); err != nil {
			return err
		}
	}
	s.running = l
	return s.awaitCanary(ctx)
}

// Canaries are pods that are due when they are made, on a node that has always been tainted. The end of one says that
// the contestant does its work. Upstream can lose the eviction of one, so another is made after a while.
const (
	canaryNode      = "node"
	canaryNamespace = "canary"
	canaryEvery     = 20 * time.Second
	mostCanaries    = 6
)

func (s *stage) startCanaries(ctx context.Context) error {
	made, err := rig.New(ctx, s.Client(), canaryNamespace)
	if err != nil {
		return err
	}
	// If no node is ready, the node-lifecycle controller assumes that the problem is on its side and taints none.
	tainted := func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{rig.NoExecute("canary")} }
	_, err = made.Node(ctx, canaryNode, scenario.Ready, tainted)
	return err
}

func (s *stage) awaitCanary(ctx context.Context) error {
	canaries := rig.Scene{Admin: s.Client(), Namespace: canaryNamespace}
	for range mostCanaries {
		pod, err := canaries.Pod(ctx, fmt.Sprintf("canary-%d", s.canaries.Add(1)), canaries.NodeName(canaryNode))
		if err != nil {
			return err
		}
		if left, err := s.Seen().Await(ctx, time.Now().Add(canaryEvery), pod); err != nil || left == 0 {
			return err
		}
	}
	return fmt.Errorf("%s has evicted nothing for %s; see %s", s.name, mostCanaries*canaryEvery, s.contestant.log())
}

// play plays the stories of a row side by side. An error means that the stage failed, not the contestant.
func (s *stage) play(ctx context.Context, r row) outcome {
	findings := make([]scenario.Finding, len(r.stories))
	group, playing := errgroup.WithContext(ctx)
	for i, story := range r.stories {
		group.Go(func() (err error) {
			findings[i], err = scenario.Run(playing, s, fmt.Sprintf("row-%02d-%d", r.number, i+1), story)
			return err
		})
	}
	o := outcome{err: group.Wait()}
	if ctx.Err() != nil {
		return outcome{err: context.Cause(ctx)} // the cluster goes, and the scene with it
	}
	o.Right = true
	for i, found := range findings {
		if len(findings) > 1 {
			found.Seen = r.stories[i].Name + ": " + found.Seen
		}
		o.Finding = o.And(found)
	}
	s.say("scenario %d (%s): %s", r.number, r.scenario, o)
	return o
}

// Restart implements [scenario.Stage].
func (s *stage) Restart(ctx context.Context) error { return s.contestant.restart(ctx) }

// Lag implements [scenario.Stage].
func (s *stage) Lag() (release func()) {
	s.gate.Hold()
	return s.gate.Release
}
