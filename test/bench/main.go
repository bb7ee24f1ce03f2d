// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures Taintkeeper, kube-controller-manager and the minimal cost of an eviction, one after the other,
// on one real API server: `make bench`.
//
// It prints what it measured next to the targets, and writes the same as JSON. It asserts nothing, because every figure
// is worse on a shared or slow machine. The ratios are what counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	log.SetLogger(logr.Discard()) // controller-runtime's, whose client warns without one
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if len(os.Args) == 3 && os.Args[1] == floorCommand {
		return runFloor(ctx, os.Args[2])
	}
	o, err := parseFlags()
	if err != nil {
		return err
	}
	return measure(ctx, o)
}

// options are the flags.
type options struct {
	only, without   names
	rounds          int
	nodes, slimPods int
	renewEvery      time.Duration
	settle          time.Duration
	previous        string // an older build of taintkeeper; empty for none
}

// names is a flag with several values, separated by commas.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

// Set implements flag.Value.
func (n *names) Set(value string) error {
	*n = strings.Split(value, ",")
	return nil
}

func parseFlags() (options, error) {
	var o options
	flag.Var(&o.only, "only", "scenes to play, separated by commas: "+strings.Join(sceneNames(), ", ")+
		"; by default all but million, which needs much memory, and kubelets, which needs root")
	flag.Var(&o.without, "without", "contestants to leave out, separated by commas: "+strings.Join(allContestants, ", "))
	flag.IntVar(&o.rounds, "rounds", 3, "how often contestants take turns in most scenes; the median counts")
	flag.IntVar(&o.nodes, "nodes", 5000, "nodes of the scene scale, and nodes that renew a lease in the scene heartbeats")
	flag.IntVar(&o.slimPods, "slim-pods", 1_000_000, "pods of the scene million; with 500,000, the API server and etcd need 16 GB of memory")
	flag.DurationVar(&o.renewEvery, "renew-every", 10*time.Second, "how often each node of the scene heartbeats renews its lease; the default of a kubelet is 10 s")
	flag.DurationVar(&o.settle, "settle", 130*time.Second, "time for a process to return memory before it is measured; Go collects garbage at least every two minutes")
	flag.StringVar(&o.previous, "previous", "", "an older build of taintkeeper, to be measured as well; none by default")
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("%q: only flags are accepted; see -help", flag.Args())
	}
	return o, o.validate()
}

func (o *options) validate() error {
	if min(o.rounds, o.nodes, o.slimPods) < 1 {
		return fmt.Errorf("-rounds=%d -nodes=%d -slim-pods=%d: each needs at least 1", o.rounds, o.nodes, o.slimPods)
	}
	if o.renewEvery <= 0 {
		return fmt.Errorf("-renew-every=%s: it must be longer than 0, for example 10s", o.renewEvery)
	}
	if err := known("-only", o.only, sceneNames()); err != nil {
		return err
	}
	return known("-without", o.without, allContestants)
}

func known(flag string, given, all []string) error {
	for _, name := range given {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s=%s: choose from %s", flag, name, strings.Join(all, ", "))
		}
	}
	return nil
}
