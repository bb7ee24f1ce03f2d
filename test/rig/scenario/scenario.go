// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario plays stories about taints and compares what happens with what is promised. A story is written once
// and played to every contestant: in virtual time, on a real control plane, to the built-in controller, to ours, and to
// both in one cluster.
package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// Scenario is a story: what there is, what happens then, and what is promised.
type Scenario struct {
	Name  string
	Given []Step
	When  []Step
	// Promised is checked in this order. Without it [ByRule] is promised.
	Promised []Check
	// Watched is how long due pods may take to leave, and how long others are watched; [watched] by default.
	Watched time.Duration
	// Alone says that it holds up or restarts the contestant, so that no other scenario can be played meanwhile.
	Alone bool
	// Long says that it takes longer than a short run of tests may. Who plays it decides what that means.
	Long bool
}

// watched is long enough to see a countdown that began again with a restart.
const watched = 10 * time.Second

// Step does something in the cluster. An error means that the stage failed: the scenario could not be played.
type Step func(ctx context.Context, p *Play) error

// Check says what was seen, and whether that is what was promised.
type Check func(ctx context.Context, p *Play) (Finding, error)

// Stage is where scenarios are played: a cluster with a contestant, which is a program that evicts.
type Stage interface {
	Client() kubernetes.Interface
	// Seen is what a bystander saw of all pods.
	Seen() *observer.Pods
	// Calls returns what the contestant has called so far.
	Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error)
	// Restart ends the contestant as an upgrade does, and starts it again.
	Restart(ctx context.Context) error
	// Lag holds back what the contestant's watches of nodes bring, until the function that it returns is called.
	Lag() (release func())
	// Refuse makes the API server refuse the deletes of the scene's pods until the function that it returns is called.
	// Both return when it has noticed, as one of the pods shows.
	Refuse(ctx context.Context, s scene.Scene, probe *corev1.Pod) (allow func() error, err error)
	// Patience is how late an eviction may be on this stage, plus the stalls. Every known defect causes a longer delay.
	Patience() time.Duration
	// Stalled returns for how long the machine stalled between two instants.
	Stalled(from, to time.Time) time.Duration
}

// Play is a scenario that is being played.
type Play struct {
	mu sync.Mutex // for the stories of nodes and pods: held to change or read them

	Stage
	scene.Scene

	watched   time.Duration
	started   time.Time // latest instant at which the contestant may have been started
	restarted bool
	excused   time.Time // until then evictions may be late
	nodes     map[string][]oracle.Version
	pods      []*Pod
	kubelets  map[string]*kubelet
	back      map[string]oracle.Span // when a machine that was away was back
	undo      []func(context.Context) error
	stalled   atomic.Int64 // the longest stall of an interval that was judged
	certain   bool         // something is wrong that no stall explains
}

// replays is how often a scenario is played again that the machine spoiled.
const replays = 2

// Run plays a scenario in a namespace of its own, and clears up after it. What the contestant did wrong is in the
// finding, or is the error of a step such as [Then]; other errors mean that the stage failed. If the machine stalled
// for too long in an interval that was judged, the scenario is played again, at most twice, and the finding says so.
// What no stall explains, such as an early eviction, is believed at once.
func Run(ctx context.Context, stage Stage, namespace string, s Scenario) (Finding, error) {
	var again string
	for try := 0; ; try++ {
		p := &Play{
			Stage: stage, watched: cmp.Or(s.Watched, watched), started: startedBefore(stage),
			nodes: map[string][]oracle.Version{}, kubelets: map[string]*kubelet{}, back: map[string]oracle.Span{},
		}
		found, err := p.play(ctx, namespace+strings.Repeat("-again", try), s)
		stalled := time.Duration(p.stalled.Load())
		if stalled <= stall.TooLong || p.certain || try == replays || ctx.Err() != nil {
			found.Seen += again
			return found, err
		}
		again += fmt.Sprintf("; played again, as the machine stalled for %s: %s, %v", Seconds(stalled), found, err)
	}
}

// startedBefore is the latest instant at which the contestant may have been started. Some stages know when it was.
func startedBefore(stage Stage) time.Time {
	if knows, ok := stage.(interface{ Started() time.Time }); ok {
		return knows.Started()
	}
	return time.Now()
}

// judged returns how late something may be that was due at an instant and happened, or did not happen, until another.
func (p *Play) judged(due, seen time.Time) time.Duration {
	stalled := p.Stalled(due, seen)
	for {
		longest := p.stalled.Load()
		if int64(stalled) <= longest || p.stalled.CompareAndSwap(longest, int64(stalled)) {
			return p.Patience() + stalled
		}
	}
}

func (p *Play) play(ctx context.Context, namespace string, s Scenario) (found Finding, err error) {
	if p.Scene, err = scene.New(ctx, p.Client(), namespace); err != nil {
		return Finding{}, err
	}
	defer func() { err = errors.Join(err, p.clear(context.WithoutCancel(ctx))) }()
	for i, step := range slices.Concat(s.Given, s.When) {
		began := time.Now()
		if err := step(ctx, p); err != nil {
			p.judged(began, time.Now())
			return Finding{}, fmt.Errorf("step %d of %q: %w", i+1, s.Name, err)
		}
	}
	promised := s.Promised
	if promised == nil {
		promised = []Check{ByRule}
	}
	found.Right = true
	for _, check := range promised {
		seen, err := check(ctx, p)
		if err != nil {
			return found, fmt.Errorf("look at %q: %w", s.Name, err)
		}
		found = found.And(seen)
	}
	return found, nil
}

// Excuse lets evictions be late until an instant, before which they could not happen.
func (p *Play) Excuse(until time.Time) { p.excused = oracle.Later(p.excused, until) }

// Finally lets something happen when the scenario is over, also after an error; what was added last comes first.
func (p *Play) Finally(undo func(context.Context) error) { p.undo = append(p.undo, undo) }

func (p *Play) clear(ctx context.Context) error {
	var all []error
	for _, undo := range slices.Backward(p.undo) {
		all = append(all, undo(ctx))
	}
	return errors.Join(append(all, p.Clear(ctx))...)
}
