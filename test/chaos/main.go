// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chaos runs two replicas of Taintkeeper in a real control plane on this machine while everything goes wrong.
// Taints come and go, and pods are created, replaced and given other tolerations. Calls between the replicas and the
// API server are delayed, dropped and refused, and watches are cut and held up. A webhook that guards some pods is
// slow, hangs and refuses. The replicas' clocks are set, the API server and etcd are restarted, and the leader is
// killed.
//
// An observer with a watch of its own records what should have happened, according only to the rule of
// docs/concepts.md, and compares it with what the API server accepted. No eviction may be lost, early, of the wrong
// pod, or carried out twice, nor come much later than the faults that touched it explain. Evictions that are a little
// later are reported.
//
// With -coexist the built-in taint-eviction-controller runs, too, and the replicas keep it from evicting with the
// eviction clock. Now and then all replicas are killed for longer than the clock is fresh, and the built-in evicts. Its
// evictions while the clock is fresh are reported as foreign.
//
// It needs bin/chaos-taintkeeper (make bin/chaos-taintkeeper) and the control plane (make controlplane); make chaos
// builds both. It exits with 0 if nothing went wrong, with 130 if it was interrupted, and with 1 otherwise. The seed
// decides what is done and which faults are drawn, but not how processes are scheduled: two runs with the same seed are
// similar, but not the same.
//
//	disturbances               the tables of all that happens: taints, pods, webhook and wrecks do it, to calls proxy
//	stage, replica             the cluster, and one of the two replicas in it
//	ledger, observer           what was done to the replicas, and what was seen of pods, nodes and calls
//	history                    all of that after the run
//	judge, delays              what went wrong, according to test/rig/oracle
//	knowledge, excuses         what a replica can have known when it called; what faults excuse
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	cfg := config{out: os.Stdout}
	flag.DurationVar(&cfg.duration, "duration", 3*time.Minute, "how long to break things; start and recovery take another minute or two")
	flag.Uint64Var(&cfg.seed, "seed", rand.Uint64(), "random seed; a new one each time by default")
	flag.StringVar(&cfg.taintkeeper, "taintkeeper", "bin/chaos-taintkeeper", "the binary to run, with a wall clock that can be set")
	flag.BoolVar(&cfg.coexist, "coexist", false, "run next to a kube-controller-manager that also evicts")
	flag.Parse()
	if cfg.duration <= 0 {
		fmt.Fprintf(os.Stderr, "chaos: -duration=%s: it must be more than zero, for example 3m\n", cfg.duration)
		os.Exit(exitFailed)
	}
	os.Exit(runUntilSignal(cfg))
}

func runUntilSignal(cfg config) int {
	silenceLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done := context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once; the watchdogs then end the rest
	defer done()

	clean, err := run(ctx, cfg)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		return exitFailed
	case !clean:
		return exitFailed
	}
	return 0
}

// silenceLogs discards client-go's logs, because a client logs each loss of its server, and here it loses it often.
func silenceLogs() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}
