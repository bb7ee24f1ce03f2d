// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/localcluster"
)

// upstream is kube-controller-manager.
type upstream struct {
	cluster  *localcluster.Cluster
	binaries string
	args     []string // with which it runs
}

// startUpstream starts a cluster in which kube-controller-manager evicts.
func startUpstream(ctx context.Context, o options) (*localcluster.Cluster, contestant, error) {
	config := clusterConfig(o.plane)
	config.TaintEviction = localcluster.BuiltInOn
	cluster, err := localcluster.Start(ctx, config)
	return cluster, &upstream{cluster: cluster, binaries: o.plane, args: config.ControllerManagerArgs}, err
}

func (*upstream) user() string { return "system:serviceaccount:kube-system:node-controller" }

// access is the administrator's: behind a gate, which has one identity, the controllers cannot have one each.
func (u *upstream) access() (*rest.Config, error) { return u.cluster.AdminConfig(), nil }

// start does nothing when two ways are the same for it: limited is its default.
func (u *upstream) start(ctx context.Context, l launch, through *gate) error {
	args, err := u.command(l, through)
	if err != nil || slices.Equal(args, u.args) {
		return err
	}
	u.args = args
	return u.restart(ctx)
}

func (u *upstream) command(l launch, through *gate) ([]string, error) {
	switch l {
	case alone:
		return managerArgs(withoutIndex), nil
	case lagging:
		kubeconfig, err := u.cluster.Kubeconfig("gate", through.access())
		return managerArgs("--use-service-account-credentials=false", "--kubeconfig="+kubeconfig), err
	default:
		return managerArgs(), nil
	}
}

func (u *upstream) restart(ctx context.Context) error {
	return u.cluster.RestartControllerManager(ctx, u.args...)
}

// scrape asks as the administrator. The serving certificate is kube-controller-manager's own and vouched for by nobody.
func (u *upstream) scrape(ctx context.Context) (metrics, error) {
	config := u.cluster.AdminConfig()
	config.CAData, config.Insecure = nil, true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the metrics of kube-controller-manager: %w", err)
	}
	defer client.CloseIdleConnections()
	return scrape(ctx, client, u.cluster.ControllerManagerURL()+"/metrics")
}

func (u *upstream) log() string { return u.cluster.LogPath(localcluster.ControllerManager) }

func (u *upstream) program() string {
	return filepath.Join(u.binaries, string(localcluster.ControllerManager))
}

// ours is taintkeeper, beside a kube-controller-manager that does not evict.
type ours struct {
	cluster *localcluster.Cluster
	config  localcluster.TaintkeeperConfig // with which it runs
	process *localcluster.Taintkeeper
}

// startOurs starts a cluster in which taintkeeper evicts.
func startOurs(ctx context.Context, o options) (*localcluster.Cluster, contestant, error) {
	cluster, err := localcluster.Start(ctx, clusterConfig(o.plane))
	if err != nil {
		return nil, nil, err
	}
	c := &ours{cluster: cluster, config: localcluster.TaintkeeperConfig{Binary: o.ours, Args: []string{comparisonOperators}}}
	c.process, err = cluster.StartTaintkeeper(ctx, c.config)
	return cluster, c, err
}

func (*ours) user() string { return localcluster.TaintkeeperUser }

func (c *ours) access() (*rest.Config, error) { return c.cluster.TaintkeeperAccess() }

func (c *ours) start(ctx context.Context, l launch, through *gate) error {
	c.config.Args, c.config.Access = []string{comparisonOperators}, nil
	switch l {
	case limited:
		c.config.Args = append(c.config.Args, "--kube-api-qps=20", "--kube-api-burst=30")
	case lagging:
		c.config.Access = through.access()
	case alone:
		if err := c.cluster.RestartControllerManager(ctx, managerArgs(withoutIndex)...); err != nil {
			return err
		}
	}
	return c.restart(ctx)
}

func (c *ours) restart(ctx context.Context) error {
	if err := c.process.Stop(); err != nil {
		return err
	}
	var err error
	c.process, err = c.cluster.StartTaintkeeper(ctx, c.config)
	return err
}

func (c *ours) scrape(ctx context.Context) (metrics, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	return scrape(ctx, client, c.process.MetricsURL())
}

func (c *ours) log() string { return c.process.LogPath() }

func (c *ours) program() string { return c.config.Binary }
