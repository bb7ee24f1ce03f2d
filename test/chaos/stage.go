// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

// config is what a run is made of.
type config struct {
	duration    time.Duration // of the chaos, without start and recovery
	seed        uint64
	taintkeeper string // the binary
	coexist     bool   // the built-in taint-eviction-controller runs, too
	out         io.Writer
}

const (
	nodeCount = 8
	zoneCount = 3
)

var replicaNames = []string{"taintkeeper-a", "taintkeeper-b"}

// stage is a cluster with two replicas of taintkeeper in it, each behind a proxy, and an observer.
type stage struct {
	config

	began    time.Time
	dir      string
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	ledger   *ledger
	observer *observer
	replicas []*replica
	webhook  *webhook
	nodes    []string
	elect    election

	saying sync.Mutex
}

// run sets everything up, lets chaos reign, judges, and takes everything down. It reports whether nothing went wrong.
// The state folder is kept when something did.
func run(ctx context.Context, cfg config) (clean bool, err error) {
	if err := wallclock.Check(cfg.taintkeeper); err != nil {
		return false, fmt.Errorf("%w; build it with `make bin/chaos-taintkeeper`", err)
	}
	dir, err := os.MkdirTemp("", "taintkeeper-chaos-")
	if err != nil {
		return false, fmt.Errorf("make a state folder: %w", err)
	}
	s := &stage{config: cfg, began: time.Now(), dir: dir, ledger: newLedger()}
	s.elect = elections[s.source(electionSource).IntN(len(elections))]
	s.say("seed %d, %s of chaos, leases of %s", cfg.seed, cfg.duration, s.elect.lease)
	clean, err = s.play(ctx)
	s.stopCluster()
	if ctx.Err() != nil { // whatever failed then failed because of the interrupt
		return false, errors.Join(ctx.Err(), os.RemoveAll(dir))
	}
	if err != nil || !clean {
		s.say("the logs are in %s", dir)
		return false, err
	}
	return true, os.RemoveAll(dir)
}

// stopCluster stops the control plane. A component that did not survive the run is worth a line, and no more: it is not
// what is judged.
func (s *stage) stopCluster() {
	if s.cluster == nil {
		return
	}
	if err := s.cluster.Stop(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "; its log")
		s.say("not all of the control plane has survived: %s", first)
	}
}

// say tells what happens, with the time since the start.
func (s *stage) say(format string, args ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	_, _ = fmt.Fprintf(s.out, "%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *stage) play(ctx context.Context) (clean bool, err error) {
	if err := s.startCluster(ctx); err != nil {
		return false, err
	}
	if s.webhook, err = newWebhook(s.source(webhookSource), s.ledger); err != nil {
		return false, err
	}
	defer func() { _ = s.webhook.close() }() // nothing asks it any longer
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	var observer sync.WaitGroup
	observer.Go(func() { s.observer.run(observing) })

	calm, end, err := s.playWithReplicas(ctx)
	if err != nil {
		return false, err
	}
	stopObserving()
	observer.Wait()
	known, err := s.observer.readAudit(s.cluster.AuditLog())
	if err != nil {
		return false, err
	}
	return s.observer.history(known, calm, end).report(s.out), nil
}

func (s *stage) startCluster(ctx context.Context) error {
	builtIn := localcluster.BuiltInOff
	if s.coexist {
		builtIn = localcluster.BuiltInOn
	}
	s.say("starting etcd, kube-apiserver, kube-controller-manager and kwok; the built-in evicts: %t", s.coexist)
	var err error
	s.cluster, err = localcluster.Start(ctx, localcluster.Config{
		Dir: filepath.Join(s.dir, "cluster"), Audit: auditlog.Changes,
		APIServerArgs: []string{
			"--default-not-ready-toleration-seconds=" + conditionSeconds,
			"--default-unreachable-toleration-seconds=" + conditionSeconds,
		},
		Without:               []localcluster.Component{localcluster.Scheduler}, // see bindPods
		TaintEviction:         builtIn,
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
	})
	if err != nil {
		return err
	}
	s.ledger.stalled = s.cluster.Stalls().In
	if s.coexist {
		if err := s.cluster.InstallCoexistence(ctx); err != nil {
			return err
		}
	}
	if s.client, err = kubernetes.NewForConfig(s.cluster.AdminConfig()); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	s.observer = newObserver(s.client, s.ledger)
	var specs []localcluster.NodeSpec
	for i := range nodeCount {
		s.nodes = append(s.nodes, fmt.Sprintf("node-%d", i+1))
		specs = append(specs, localcluster.NodeSpec{Name: s.nodes[i], Zone: fmt.Sprintf("zone-%d", i%zoneCount+1)})
	}
	if err := s.cluster.AddNodes(ctx, specs...); err != nil {
		return err
	}
	_, err = s.client.AppsV1().StatefulSets(namespace).Create(ctx, statefulSet(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a StatefulSet: %w", err)
	}
	return nil
}

// playWithReplicas runs the replicas from before the chaos until after the recovery. It returns when the last fault and
// when the play ended.
func (s *stage) playWithReplicas(ctx context.Context) (calmed, end time.Time, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	for i, name := range replicaNames {
		access, err := s.cluster.TaintkeeperAccess()
		if err != nil {
			return calmed, end, err
		}
		behind, err := newProxy(name, access, newWeather(s.source(uint64(i))), s.ledger)
		if err != nil {
			return calmed, end, err
		}
		defer func() { _ = behind.Close() }() // it serves nothing any longer
		clock, err := wallclock.New(filepath.Join(s.dir, name+".clock"))
		if err != nil {
			return calmed, end, err
		}
		defer func() { _ = clock.Close() }() // nothing sets it any longer
		r := &replica{
			name: name, binary: s.taintkeeper, elect: s.elect, cluster: s.cluster,
			proxy: behind, clock: clock, ledger: s.ledger,
		}
		if s.coexist {
			r.flags = []string{"--coexist"}
		}
		s.replicas = append(s.replicas, r)
		group.Go(func() error { return r.keep(running) })
	}
	if err = s.awaitLeader(running); err == nil {
		err = s.chaos(running)
	}
	if err == nil {
		calmed = s.calmDown()
		s.awaitRecovery(running)
		end = time.Now()
	}
	stop()
	return calmed, end, errors.Join(err, group.Wait())
}

// source returns a separate source of randomness for each user, so that the draws of one do not depend on how fast
// another is.
func (s *stage) source(number uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, number)) }

// startTimeout is generous: the machine may be busy with a build.
const startTimeout = 2 * time.Minute

func (s *stage) awaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no replica is leading after %s, or one is not running; their logs say why", startTimeout))
	defer cancel()
	for {
		_, led := s.ledger.leader()
		if led && !slices.ContainsFunc(s.replicas, func(r *replica) bool { return !r.running() }) {
			s.say("two replicas are running, and one of them is leading")
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// Numbers of the sources of randomness: those of the proxies come before, those of the lanes after these.
const (
	electionSource = iota + 100
	webhookSource
	finaleSource
	firstLane
)

// chaos lets everything happen at once for the duration of the run, and then plays the finale.
func (s *stage) chaos(ctx context.Context) error {
	lasting, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	group, lasting := errgroup.WithContext(lasting)
	for _, r := range s.replicas {
		group.Go(func() error { r.proxy.disturb(lasting); return nil })
	}
	for i, lane := range s.lanes() {
		a := s.actor(firstLane+uint64(i), string(rune('a'+i)))
		group.Go(func() error { return a.run(lasting, lane) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.finale(ctx)
}

// finale lets pods become due while the API server is down. Nothing happens afterwards that could draw attention to
// them, so a pod that is forgotten then stays forgotten.
func (s *stage) finale(ctx context.Context) error {
	s.say("the finale: half of the nodes are tainted, and the API server goes down")
	for _, r := range s.replicas {
		r.proxy.weather.set(storm)
	}
	a := s.actor(finaleSource, "z")
	for _, name := range s.nodes[:len(s.nodes)/2] {
		if err := a.changeNode(ctx, name, setTaints(a.finalTaints()...)); err != nil {
			return err
		}
	}
	return a.restartServer(ctx)
}

// calmDown ends all faults, and returns the instant.
func (s *stage) calmDown() time.Time {
	for _, r := range s.replicas {
		r.proxy.weather.set(calm)
		r.proxy.release()
	}
	s.say("the faults have ended; waiting for recovery")
	return time.Now()
}

const (
	// longestRecovery is longer than what the faults can still cause: a watch whose reflector waits a minute before it
	// lists again, then an eviction that waits for 30 s, and some more until it counts as lost.
	longestRecovery = 150 * time.Second
	// calmFor is how long no pod must have been overdue before the recovery counts as complete.
	calmFor = 6 * time.Second
)

// awaitRecovery waits until no pod is overdue, or for the longest that this can take.
func (s *stage) awaitRecovery(ctx context.Context) {
	const look = time.Second
	ctx, cancel := context.WithTimeout(ctx, longestRecovery)
	defer cancel()
	quiet := time.Now()
	for ctx.Err() == nil && time.Since(quiet) < calmFor {
		pause(ctx, look)
		if s.overdue() > 0 {
			quiet = time.Now()
		}
	}
}

// overdue counts the pods that must leave now, according to what the watch has brought.
func (s *stage) overdue() int {
	now := time.Now()
	overdue := 0
	for _, stretch := range s.observer.history(audited{}, now, now).stretches() {
		if stretch.open && now.Sub(stretch.due) > haste {
			overdue++
		}
	}
	return overdue
}
