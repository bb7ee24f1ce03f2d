// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/taintkeeper/taintkeeper/internal/nodehealth"
)

// nodeHealthOptions are those of node-health. The names and defaults are kube-controller-manager's, but for
// --zone-full-disruption-eviction-rate, which it has not.
type nodeHealthOptions struct {
	monitorPeriod      time.Duration
	monitorGrace       time.Duration
	startupGrace       time.Duration
	rate               float32
	secondaryRate      float32
	fullDisruptionRate float32
	largeZone          int32
	unhealthyShare     float32
}

// likeNodeEvictionRate is the default of --zone-full-disruption-eviction-rate.
const likeNodeEvictionRate = -1

func (o *nodeHealthOptions) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.monitorPeriod, "node-monitor-period", 5*time.Second, "taken for kube-controller-manager's sake, and without effect: nodes are looked at when their grace period is over, not in turns")
	flags.DurationVar(&o.monitorGrace, "node-monitor-grace-period", nodehealth.DefaultMonitorGrace, "how long a node may give no sign of life before its conditions become Unknown")
	flags.DurationVar(&o.startupGrace, "node-startup-grace-period", nodehealth.DefaultStartupGrace, "the same for a node that has never posted its status, from its creation")
	flags.Float32Var(&o.rate, "node-eviction-rate", nodehealth.DefaultRate, "nodes per second and zone that are tainted NoExecute for not being ready while the zone is healthy")
	flags.Float32Var(&o.secondaryRate, "secondary-node-eviction-rate", nodehealth.DefaultSecondaryRate, "the same for a zone in partial disruption; 0 if it has no more nodes than --large-cluster-size-threshold")
	flags.Float32Var(&o.fullDisruptionRate, "zone-full-disruption-eviction-rate", likeNodeEvictionRate, "the same for a zone without a ready node, while another zone has some; -1: as --node-eviction-rate")
	flags.Int32Var(&o.largeZone, "large-cluster-size-threshold", nodehealth.DefaultLargeZone, "number of nodes above which a zone is large")
	flags.Float32Var(&o.unhealthyShare, "unhealthy-zone-threshold", nodehealth.DefaultUnhealthyShare, "share of nodes that are not ready, and at least 3 of them, at which a zone is in partial disruption")
}

func (o *nodeHealthOptions) validate() error {
	return errors.Join(
		require(o.monitorPeriod >= 0, "--node-monitor-period=%s: it cannot be negative; it has no effect, so leave it out", o.monitorPeriod),
		require(o.monitorGrace > 0, "--node-monitor-grace-period=%s: it must be more than zero", o.monitorGrace),
		require(o.startupGrace > 0, "--node-startup-grace-period=%s: it must be more than zero", o.startupGrace),
		require(isRate(o.rate), "--node-eviction-rate=%g: it is a number and cannot be negative; 0 means that no node is tainted", o.rate),
		require(isRate(o.secondaryRate), "--secondary-node-eviction-rate=%g: it is a number and cannot be negative; 0 means that no node is tainted", o.secondaryRate),
		require(isRate(o.fullDisruptionRate) || o.fullDisruptionRate == likeNodeEvictionRate, "--zone-full-disruption-eviction-rate=%g: it is a number and cannot be negative, but for -1, which means --node-eviction-rate; 0 means that no node is tainted", o.fullDisruptionRate),
		require(o.largeZone >= 0, "--large-cluster-size-threshold=%d: it cannot be negative", o.largeZone),
		require(o.unhealthyShare > 0 && o.unhealthyShare <= 1, "--unhealthy-zone-threshold=%g: it is a share, more than 0 and at most 1", o.unhealthyShare),
	)
}

func isRate(rate float32) bool { return rate >= 0 && !math.IsInf(float64(rate), 0) }

func (o *nodeHealthOptions) grace() nodehealth.Grace {
	return nodehealth.Grace{Monitor: o.monitorGrace, Startup: o.startupGrace}
}

func (o *nodeHealthOptions) policy() nodehealth.Policy {
	policy := nodehealth.Policy{
		Rate: o.rate, SecondaryRate: o.secondaryRate, FullDisruptionRate: o.fullDisruptionRate,
		LargeZone: int(o.largeZone), UnhealthyShare: o.unhealthyShare,
	}
	if policy.FullDisruptionRate == likeNodeEvictionRate {
		policy.FullDisruptionRate = policy.Rate
	}
	return policy
}
