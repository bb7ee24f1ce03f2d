// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// nodeHealthOptions are the options of node-health.
type nodeHealthOptions struct {
	readiness.Options

	monitorPeriod time.Duration
}

func (o *nodeHealthOptions) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.monitorPeriod, "node-monitor-period", 5*time.Second, "accepted for compatibility with kube-controller-manager; has no effect, because each node is checked when its grace period is over")
	o.AddFlags(flags)
}

func (o *nodeHealthOptions) validate() error {
	return errors.Join(
		require(o.monitorPeriod >= 0, "--node-monitor-period=%s: it cannot be negative; it has no effect, so leave it out", o.monitorPeriod),
		o.Validate(),
	)
}
