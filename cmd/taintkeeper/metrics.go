// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsServer describes the server of /metrics. On the loopback interface it is open to all; beyond,
// it is for those whom the API server knows and lets get the URL /metrics, by TLS.
func (o *options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.guardsMetrics() {
		server.SecureServing = true
		server.FilterProvider = filters.WithAuthenticationAndAuthorization
		server.CertDir = o.metricsCertDir
	}
	return server
}

// guardsMetrics reports whether metrics leave the loopback interface, or may: a name other than localhost is not looked
// up, as it could stand for something else later.
func (o *options) guardsMetrics() bool {
	if o.metricsAddress == "0" {
		return false
	}
	host, _, err := net.SplitHostPort(o.metricsAddress)
	if err != nil || host == "localhost" {
		return false // what cannot be split is refused
	}
	address, err := netip.ParseAddr(host)
	return err != nil || !address.Unmap().IsLoopback()
}

// validateMetricsCertDir looks for the certificate: without one the server would make one of its own, and say nothing.
func (o *options) validateMetricsCertDir() error {
	if o.metricsCertDir == "" {
		return nil
	}
	if !o.guardsMetrics() {
		return fmt.Errorf("--metrics-cert-dir=%s: --metrics-bind-address=%s is on the loopback interface, where metrics are served without TLS; leave one of the two out", o.metricsCertDir, o.metricsAddress)
	}
	var missing []error
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if _, err := os.Stat(filepath.Join(o.metricsCertDir, name)); err != nil {
			missing = append(missing, fmt.Errorf("--metrics-cert-dir=%s: %w", o.metricsCertDir, err))
		}
	}
	return errors.Join(missing...)
}
