// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// run is a cluster with a certain evictor. The same specs run in each.
type run struct {
	name    string
	about   string
	builtIn localcluster.TaintEviction
	evictor evictor // next to the control plane, or nil
	allOurs bool    // every eviction must be the evictor's, according to the audit log
	off     string  // what else is switched off in kube-controller-manager, as in --controllers
}

// evictor starts what evicts next to the control plane, and returns a function that ends it. It is an error if it had
// already ended.
type evictor func(context.Context, *localcluster.Cluster) (stop func() error, err error)

var runs = []run{
	{name: "built-in", about: "kube-controller-manager evicts", builtIn: localcluster.BuiltInOn},
	{name: "nobody", about: "nobody evicts: the specs that wait for an eviction must fail"},
	{name: "taintkeeper", about: "bin/taintkeeper evicts", evictor: ours(localcluster.TaintkeeperConfig{})},
	{
		name: "taintkeeper-coexist", about: "bin/taintkeeper evicts, next to a kube-controller-manager that runs with its defaults",
		builtIn: localcluster.BuiltInOn, evictor: ours(localcluster.TaintkeeperConfig{Coexist: true}), allOurs: true,
	},
	{
		name: "taintkeeper-all", about: "bin/taintkeeper evicts, and taints nodes in the node-lifecycle-controller's place",
		evictor: ours(localcluster.TaintkeeperConfig{Args: []string{"--controllers=*"}}), off: "-node-lifecycle-controller",
	},
}

// evicts reports whether anything evicts in the run.
func (r run) evicts() bool { return r.builtIn == localcluster.BuiltInOn || r.evictor != nil }

// start starts the evictor, if there is one, and returns a function that ends it.
func (r run) start(ctx context.Context, cluster *localcluster.Cluster) (stop func() error, err error) {
	if r.evictor == nil {
		return func() error { return nil }, nil
	}
	return r.evictor(ctx, cluster)
}

// ours starts Taintkeeper, with a line in its log per failed try.
func ours(config localcluster.TaintkeeperConfig) evictor {
	return func(ctx context.Context, cluster *localcluster.Cluster) (func() error, error) {
		config.Args = append([]string{"--v=1"}, config.Args...)
		keeper, err := cluster.StartTaintkeeper(ctx, config)
		if err != nil {
			return nil, err
		}
		return keeper.Stop, nil
	}
}

// managerArgs are kube-controller-manager's.
func (r run) managerArgs() []string {
	if r.off == "" {
		return nil
	}
	return []string{"--controllers=" + r.off}
}

func runNames() []string {
	var names []string
	for _, r := range runs {
		names = append(names, r.name)
	}
	return names
}

// chooseRuns returns the runs of the flag's value, in their own order, or all when it is empty.
func chooseRuns(names string, rest []string) ([]run, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q: only flags are accepted; see -help", rest)
	}
	if names == "" {
		return runs, nil
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(runNames(), name) {
			return nil, fmt.Errorf("-runs=%s: there is no run %q; choose from %s, separated by commas", names, name, strings.Join(runNames(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return !slices.Contains(wanted, r.name) }), nil
}
