// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

// election is how replicas elect their leader, as arguments.
type election struct {
	lease string // how long it lasts
	args  []string
}

// elections are the two kinds. With the quick one another replica leads within seconds, but a leader does not outlive
// an outage of the API server, and the next one decides everything again. With the patient one it does, and must
// remember what it could not do.
var elections = []election{
	{lease: "4 s", args: []string{
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s",
	}},
	{lease: "15 s", args: []string{
		"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=13s", "--leader-elect-retry-period=1s",
	}},
}

// restartAfter is how long a process that ended by itself is down.
const restartAfter = time.Second

// How a run of a replica can end.
const (
	endedKilled  = "killed"
	endedItself  = "exited on its own"
	endedUnready = "ended before it was ready"
	endedStopped = "stopped"
)

// replica is one of several taintkeepers behind a proxy of its own. Its process is started again whenever it has ended,
// as a Deployment would. Safe for concurrent use.
type replica struct {
	name    string
	binary  string
	elect   election
	flags   []string // its other flags
	cluster *localcluster.Cluster
	proxy   *replicaProxy
	clock   *wallclock.Clock
	ledger  *ledger

	mu      sync.Mutex
	process *localcluster.Taintkeeper // nil while none is ready
	down    time.Duration             // how long the killed or stopped process stays down; zero if it was neither
	how     string                    // it was
}

// keep keeps a process running until the context ends.
func (r *replica) keep(ctx context.Context) error {
	for run := 1; ctx.Err() == nil; run++ {
		r.proxy.run.Store(int64(run))
		started := &life{process: process{r.name, run}, began: time.Now()}
		r.ledger.write(func(p *page) { p.lives = append(p.lives, started) })
		down, err := r.live(ctx, started)
		if err != nil {
			return err
		}
		pause(ctx, down)
	}
	return nil
}

// live runs one process to its end, and returns how long the replica is down afterwards.
func (r *replica) live(ctx context.Context, life *life) (time.Duration, error) {
	process, err := r.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: r.binary, Name: r.name, Access: r.proxy.Access(), Env: []string{r.clock.Env()},
		Args: slices.Concat([]string{"--leader-elect=true", "--v=1"}, r.elect.args, r.flags), // --v=1: a line per failed try
	})
	if err != nil {
		r.ended(life, endedUnready)
		// With these faults a start may fail.
		return restartAfter, nil //nolint:nilerr // the next one is tried
	}
	r.ready(process)
	select {
	case <-process.Ended():
	case <-ctx.Done():
		return 0, r.stop(process, life)
	}
	down, how := r.buried()
	r.ended(life, how)
	// It has ended; this makes its name free again.
	return down, process.Kill()
}

// stop ends a process that is not needed any longer, unless it has just ended by itself.
func (r *replica) stop(process *localcluster.Taintkeeper, life *life) error {
	r.ready(nil)
	r.ledger.stop(r.name, time.Now())
	defer func() { r.ended(life, endedStopped) }()
	select {
	case <-process.Ended():
		return process.Kill() // which makes its name free again
	default:
		return process.Stop()
	}
}

// ended notes that a process has ended.
func (r *replica) ended(of *life, how string) {
	ended := time.Now()
	r.ledger.write(func(*page) { of.ended, of.how = ended, how })
}

func (r *replica) ready(process *localcluster.Taintkeeper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
}

// buried forgets the process that has ended, and returns for how long the replica stays down and how it ended.
func (r *replica) buried() (down time.Duration, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	down, how = r.down, r.how
	if down == 0 {
		down, how = restartAfter, endedItself
	}
	r.process, r.down, r.how = nil, 0, ""
	return down, how
}

var errNotRunning = errors.New("the replica is not running")

// kill kills the replica's process, which then stays down for a while.
func (r *replica) kill(down time.Duration) error {
	return r.end(endedKilled, down, (*localcluster.Taintkeeper).Kill)
}

// stopFor stops the replica's process, which then stays down for a while.
func (r *replica) stopFor(down time.Duration) error {
	r.ledger.stop(r.name, time.Now())
	return r.end(endedStopped, down, (*localcluster.Taintkeeper).Stop)
}

func (r *replica) end(how string, down time.Duration, end func(*localcluster.Taintkeeper) error) error {
	r.mu.Lock()
	process := r.process
	if process != nil {
		r.down, r.how = down, how
	}
	r.mu.Unlock()
	if process == nil {
		return errNotRunning
	}
	if err := end(process); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

func (r *replica) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process != nil
}
