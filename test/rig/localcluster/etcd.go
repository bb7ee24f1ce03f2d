// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// firstEtcd configures and starts etcd.
func (c *Cluster) firstEtcd(ctx context.Context) error {
	launcher, err := c.lifeline.launcher(Etcd, c.binary(Etcd))
	if err != nil {
		return err
	}
	dataDir := filepath.Join(c.dir, "etcd")
	if err := os.Mkdir(dataDir, 0o700); err != nil {
		return err
	}
	c.plane.Etcd = &envtest.Etcd{Path: launcher, DataDir: dataDir, StartTimeout: startTimeout, StopTimeout: stopGrace}
	args := c.plane.Etcd.Configure()
	// The data live no longer than the cluster.
	args.Set("unsafe-no-fsync", "true")
	// The default of 2 GiB is less than what a benchmark with 150,000 pods and their history needs.
	args.Set("quota-backend-bytes", "8589934592")
	return c.startEtcd(ctx)
}

// startEtcd starts etcd, for the first time or again, and waits until it is healthy.
func (c *Cluster) startEtcd(context.Context) error {
	log, err := c.openLog(Etcd)
	if err != nil {
		return err
	}
	defer log.Close()
	etcd := c.plane.Etcd
	etcd.Out, etcd.Err = log, log
	if err := etcd.Start(); err != nil {
		return c.failure(Etcd, err)
	}
	return nil
}
