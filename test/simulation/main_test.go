// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation proves that simulations come true: on a real control plane nodes of kwok fall silent and come back,
// and taints are set and removed. What Taintkeeper makes of it is compared with a simulation of the same steps from the
// cluster as it was before the first of them.
package simulation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// This many rounds of this seed must have taints, evictions, and what follows from them, to compare.
const (
	defaultRounds = 3
	defaultSeed   = 11
)

var (
	rounds = flag.Int("rounds", defaultRounds, "random clusters and scenarios to play")
	seed   = flag.Uint64("seed", defaultSeed, "what chance draws")
)

// How Taintkeeper and the simulation are configured.
const (
	grace = 5 * time.Second
	rate  = 2 // nodes of a zone that are tainted in a second
	// leaseSeconds lets kwok renew each lease once a second.
	leaseSeconds = 4
)

var (
	graces = readiness.Grace{Monitor: grace, Startup: readiness.DefaultStartupGrace}
	rates  = readiness.Policy{
		Rate: rate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: rate,
		LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
	}
)

// What all rounds share, set once by TestMain.
var (
	cluster    *localcluster.Cluster
	admin      kubernetes.Interface
	objects    client.Client
	audit      *auditlog.Log
	kubeconfig string
	settled    time.Time // Taintkeeper gives silent nodes more time before
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start builds Taintkeeper from these sources, and starts a cluster in which nobody else taints or evicts.
func start(ctx context.Context, shared *suite.Suite) (err error) {
	config := localcluster.Config{
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
		NodeLeaseSeconds:      leaseSeconds,
		Audit:                 auditlog.Changes,
	}
	cluster, admin, objects, kubeconfig, err = workloads.Start(ctx, shared, config, nil,
		"--controllers=*", "--node-monitor-grace-period="+grace.String(), fmt.Sprintf("--node-eviction-rate=%d", rate))
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), localcluster.NotByKwok)
	settled = time.Now().Add(readiness.ExtraGrace)
	return nil
}
