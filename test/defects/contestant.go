// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

// launch is a way to start a contestant.
type launch int

const (
	// usual is with its defaults.
	usual launch = iota
	// limited is with at most 20 calls per second and bursts of 30, which are kube-controller-manager's defaults.
	limited
	// unlimited is with as many calls per second as it wants, which is taintkeeper's default.
	unlimited
	// alone is without the controllers that make an index of pods by node, in its process or in another one.
	alone
	// lagging is behind a gate.
	lagging
	// settable is with a wall clock that can be set.
	settable
	// watching is with node health, which calls nodes Unknown that are silent for nodeGrace.
	watching
)

// surroundings is what a contestant may run with: a gate in front of it, and a clock that can be set.
type surroundings struct {
	gate    *proxy.Gate  // for what watches of nodes bring
	through *rest.Config // how to reach the API server behind the gate
	clock   *wallclock.Clock
}

// contestant is a program that evicts.
type contestant interface {
	// user is its name in the audit log.
	user() string
	// access is how it reaches the API server through a gate.
	access() (*rest.Config, error)
	// canRun returns why it cannot run in the given way, if it cannot.
	canRun(l launch) error
	// start makes it run in the given way and returns when it serves. It may not evict yet.
	start(ctx context.Context, l launch, in surroundings) error
	// restart ends it by SIGTERM and starts it again as it was.
	restart(ctx context.Context) error
	// scrape reads its metrics.
	scrape(ctx context.Context) (metrics, error)
	// log is the file with its output.
	log() string
	// program is its binary.
	program() string
}

// The feature gate of the operators Gt and Lt (KEP-5471). It is on everywhere, for the scenario that is about it; it
// changes nothing else.
const comparisonOperators = "--feature-gates=TaintTolerationComparisonOperators=true"

// withoutIndex switches off the controllers that make an index of pods by node. The flag adds to itself when it is
// repeated.
const withoutIndex = "--controllers=-node-lifecycle-controller,-daemonset-controller"

// clusterConfig is the cluster that both contestants get. There is no kubelet, real or simulated: what happens to pods
// is the contestant's doing or the scenario's.
func clusterConfig(binaries string) localcluster.Config {
	return localcluster.Config{
		Binaries:              binaries,
		Without:               []localcluster.Component{localcluster.Scheduler, localcluster.Kwok},
		Audit:                 auditlog.Calls,
		APIServerArgs:         []string{comparisonOperators},
		ControllerManagerArgs: managerArgs(),
	}
}

// managerArgs are for kube-controller-manager, evicting or not. The node-lifecycle controller must not miss the
// kubelets, and must taint a node soon after its Ready condition becomes False.
func managerArgs(more ...string) []string {
	return append([]string{
		comparisonOperators, "--node-monitor-grace-period=24h", "--node-startup-grace-period=24h", "--node-monitor-period=1s",
	}, more...)
}

// monitorGrace is the flag of both for how long a node may be silent. If kube-controller-manager has it twice, the last
// one counts.
func monitorGrace() string { return "--node-monitor-grace-period=" + nodeGrace.String() }
