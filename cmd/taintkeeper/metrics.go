// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsServer describes the server of /metrics. On the loopback interface it is open to everyone. On any other
// interface it uses TLS, and serves only clients that the API server authenticates and allows to get /metrics.
func (o *options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.guardsMetrics() {
		server.SecureServing = true
		server.FilterProvider = guardMetrics
		server.CertDir = o.metricsCertDir
	}
	return server
}

// guardsMetrics reports whether metrics are, or could be, served beyond the loopback interface. Names other than
// localhost are not looked up, because they could resolve to another address later.
func (o *options) guardsMetrics() bool {
	if o.metricsAddress == "0" {
		return false
	}
	host, _, err := net.SplitHostPort(o.metricsAddress)
	if err != nil || host == "localhost" {
		return false // validate refuses such an address
	}
	address, err := netip.ParseAddr(host)
	return err != nil || !address.Unmap().IsLoopback()
}

// standing exports whether this process leads or stands by.
type standing struct{ leading, holderUnknown prometheus.Gauge }

// newStanding makes the metrics about the process as a whole, and registers them.
func newStanding(registerer prometheus.Registerer, o *options) (standing, error) {
	leading := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "taintkeeper_leading",
		Help: "1 while this process leads or runs without leader election, 0 while it is a standby. " +
			"The mode is enforce, shadow or dry_run.",
	}, []string{"mode"})
	leftOut := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "taintkeeper_node_health_left_out",
		Help: "1 if node health is enabled but left out because a built-in node-lifecycle-controller was detected.",
	})
	if o.nodeHealthLeftOut {
		leftOut.Set(1)
	}
	holderUnknown := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "taintkeeper_lease_holder_unknown",
		Help: "1 while this process is a standby and the holder of the Lease has not been a live replica for more than " +
			"twice the lease duration.",
	})
	err := errors.Join(registerer.Register(leading), registerer.Register(leftOut), registerer.Register(holderUnknown))
	return standing{leading: leading.WithLabelValues(o.modeName()), holderUnknown: holderUnknown}, err
}

// modeName returns the mode of the process, as metrics name it.
func (o *options) modeName() string {
	switch {
	case o.shadow:
		return "shadow"
	case o.dryRun:
		return "dry_run"
	}
	return "enforce"
}

// Run reports, until the context ends, that this process leads.
func (s standing) Run(ctx context.Context) error {
	s.leading.Set(1)
	defer s.leading.Set(0)
	<-ctx.Done()
	return nil
}

// AddTo adds it to a manager, which runs it only in the leader. A process that loses the lead exits.
func (s standing) AddTo(mgr manager.Manager) error { return mgr.Add(manager.RunnableFunc(s.Run)) }
