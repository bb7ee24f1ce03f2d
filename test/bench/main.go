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

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
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
	if len(os.Args) > 1 && os.Args[1] == floorCommand {
		return runFloor(ctx, os.Args[2:])
	}
	o, err := parseFlags()
	if err != nil {
		return err
	}
	return measure(ctx, o)
}

// options are the flags.
type options struct {
	only       names
	without    names
	rounds     int
	pods       int
	nodes      int
	slimPods   int
	renewEvery time.Duration
	settle     time.Duration
	workers    int
	args       string
	ours       string
	// previous is an older build of taintkeeper; empty for none.
	previous string
	plane    string
	file     string
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
	flag.Var(&o.only, "only", fmt.Sprintf("parts to run, separated by commas: %s; by default all but %s",
		strings.Join(allParts, ", "), strings.Join(onRequest, ", ")))
	flag.Var(&o.without, "without", "contestants to leave out, separated by commas: "+strings.Join(allContestants, ", "))
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of the storms, and of the parts changes, rest, scale, million and kubelets; the median counts")
	flag.IntVar(&o.pods, "pods", 150_000, "pods in the cluster of the scale part")
	flag.IntVar(&o.nodes, "nodes", 5000, "nodes in the cluster of the scale part, and nodes that renew a lease in the heartbeats part")
	flag.IntVar(&o.slimPods, "slim-pods", 1_000_000, "pods in the cluster of the million part; with 500,000, the API server and etcd need 16 GB of memory")
	flag.DurationVar(&o.renewEvery, "renew-every", 10*time.Second, "how often each node of the heartbeats part renews its lease; the default of a kubelet is 10 s")
	flag.DurationVar(&o.settle, "settle", 130*time.Second, "time for a process to return memory before it is measured; Go collects garbage at least every two minutes")
	flag.IntVar(&o.workers, "workers", eviction.DefaultConcurrentEvictions, "workers of the floor")
	flag.StringVar(&o.args, "taintkeeper-args", "", "extra arguments for taintkeeper, separated by spaces, to try values other than the defaults")
	flag.StringVar(&o.ours, "taintkeeper", "bin/taintkeeper", "the program to measure")
	flag.StringVar(&o.previous, "previous", "", "an older build, to be measured as well; none by default")
	flag.StringVar(&o.plane, "controlplane", localcluster.DefaultBinaries(),
		"folder with the binaries of the control plane")
	flag.StringVar(&o.file, "out", "bin/bench.json", "file for the figures as JSON")
	flag.Parse()
	return o, o.validate()
}

func (o *options) validate() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: only flags are accepted; see -help", flag.Args())
	}
	if min(o.rounds, o.pods, o.nodes, o.slimPods, o.workers) < 1 {
		return fmt.Errorf("-rounds=%d -pods=%d -nodes=%d -slim-pods=%d -workers=%d: each needs at least 1",
			o.rounds, o.pods, o.nodes, o.slimPods, o.workers)
	}
	if o.renewEvery <= 0 {
		return fmt.Errorf("-renew-every=%s: it must be longer than 0, for example 10s", o.renewEvery)
	}
	if err := known("-only", o.only, allParts); err != nil {
		return err
	}
	return known("-without", o.without, allContestants)
}

func known(flag string, given names, all []string) error {
	for _, name := range given {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s=%s: choose from %s", flag, name, strings.Join(all, ", "))
		}
	}
	return nil
}
