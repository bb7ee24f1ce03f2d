// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"
)

// The defaults of kube-controller-manager's flags (pkg/controller/nodelifecycle/config, cmd/kube-controller-manager).
const (
	DefaultMonitorGrace   = 50 * time.Second
	DefaultStartupGrace   = 60 * time.Second
	DefaultRate           = 0.1
	DefaultSecondaryRate  = 0.01
	DefaultLargeZone      = 50
	DefaultUnhealthyShare = 0.55
)

// Options are the flags that say when nodes are silent and how fast they are tainted, for the controller and for a
// forecast. The names and defaults are kube-controller-manager's, except for --zone-full-disruption-eviction-rate,
// which is our own.
type Options struct {
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

// AddFlags adds the flags with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.monitorGrace, "node-monitor-grace-period", DefaultMonitorGrace,
		"how long a node may be silent before its conditions become Unknown")
	flags.DurationVar(&o.startupGrace, "node-startup-grace-period", DefaultStartupGrace,
		"how long after its creation a node that never posted its status may be silent")
	flags.Float32Var(&o.rate, "node-eviction-rate", DefaultRate,
		"nodes per second that are tainted NoExecute for not being ready, in each healthy zone")
	flags.Float32Var(&o.secondaryRate, "secondary-node-eviction-rate", DefaultSecondaryRate,
		"like --node-eviction-rate, for each zone in partial disruption; 0 for zones with at most --large-cluster-size-threshold nodes")
	flags.Float32Var(&o.fullDisruptionRate, "zone-full-disruption-eviction-rate", likeNodeEvictionRate,
		"like --node-eviction-rate, for each zone without a ready node while another zone has one; -1 means the same rate")
	flags.Int32Var(&o.largeZone, "large-cluster-size-threshold", DefaultLargeZone,
		"number of nodes above which a zone is large")
	flags.Float32Var(&o.unhealthyShare, "unhealthy-zone-threshold", DefaultUnhealthyShare,
		"a zone is in partial disruption if at least this share of its nodes, and at least 3 nodes, are not ready")
}

// Validate returns an error that names every flag with an invalid value, and says what is valid.
func (o *Options) Validate() error {
	const (
		allowed = "it must be a number, 0 or at least %g"
		none    = "; 0 means that no node is tainted"
	)
	return errors.Join(
		require(o.monitorGrace > 0, "--node-monitor-grace-period=%s: it must be more than zero", o.monitorGrace),
		require(o.startupGrace > 0, "--node-startup-grace-period=%s: it must be more than zero", o.startupGrace),
		require(isRate(o.rate), "--node-eviction-rate=%g: "+allowed+none, o.rate, leastRate),
		require(isRate(o.secondaryRate),
			"--secondary-node-eviction-rate=%g: "+allowed+none, o.secondaryRate, leastRate),
		require(isRate(o.fullDisruptionRate) || o.fullDisruptionRate == likeNodeEvictionRate,
			"--zone-full-disruption-eviction-rate=%g: "+allowed+", "+
				"or -1, which means --node-eviction-rate"+none, o.fullDisruptionRate, leastRate),
		require(o.largeZone >= 0, "--large-cluster-size-threshold=%d: it cannot be negative", o.largeZone),
		require(o.unhealthyShare > 0 && o.unhealthyShare <= 1,
			"--unhealthy-zone-threshold=%g: it must be more than 0 and at most 1", o.unhealthyShare),
	)
}

func require(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// leastRate is the lowest rate above zero: a node in about 30 years. For lower rates, the time between tokens can be
// too long for a time.Duration.
const leastRate = 1e-9

func isRate(rate float32) bool {
	return rate == 0 || rate >= leastRate && !math.IsInf(float64(rate), 0)
}

// MonitorGraceFlag is the flag that says how long a node may be silent.
const MonitorGraceFlag = "--node-monitor-grace-period"

// Warning says in a sentence what makes nodes that live look silent. It is empty if nothing does.
func (g Grace) Warning() string {
	if g.Monitor >= LeastGrace {
		return ""
	}
	return fmt.Sprintf("%s=%s is less than %s, two renewals of a kubelet's Lease and a second, so one late renewal makes a live node NotReady",
		MonitorGraceFlag, g.Monitor, LeastGrace)
}

// Grace returns how long a node may be silent.
func (o *Options) Grace() Grace { return Grace{Monitor: o.monitorGrace, Startup: o.startupGrace} }

// Policy returns how fast nodes are tainted.
func (o *Options) Policy() Policy {
	policy := Policy{
		Rate: o.rate, SecondaryRate: o.secondaryRate, FullDisruptionRate: o.fullDisruptionRate,
		LargeZone: int(o.largeZone), UnhealthyShare: o.unhealthyShare,
	}
	if policy.FullDisruptionRate == likeNodeEvictionRate {
		policy.FullDisruptionRate = policy.Rate
	}
	return policy
}
