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

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

// upstream is kube-controller-manager.
type upstream struct {
	cluster *localcluster.Cluster
	options options
	config  localcluster.ControllerManagerConfig // with which it runs
}

// startUpstream starts a cluster in which kube-controller-manager evicts.
func startUpstream(ctx context.Context, o options) (*localcluster.Cluster, contestant, error) {
	config := clusterConfig(o.plane)
	config.TaintEviction = localcluster.BuiltInOn
	cluster, err := localcluster.Start(ctx, config)
	running := localcluster.ControllerManagerConfig{Args: config.ControllerManagerArgs}
	return cluster, &upstream{cluster: cluster, options: o, config: running}, err
}

func (*upstream) user() string { return "system:serviceaccount:kube-system:node-controller" }

// access is the administrator's: behind a gate, which has one identity, the controllers cannot have one each.
func (u *upstream) access() (*rest.Config, error) { return u.cluster.AdminConfig(), nil }

func (u *upstream) canRun(l launch) error {
	if l != settable {
		return nil
	}
	return wallclock.Check(u.options.settablePlane)
}

// start does nothing when two ways are the same for it: limited is its default.
func (u *upstream) start(ctx context.Context, l launch, in surroundings) error {
	config, err := u.configFor(l, in)
	if err != nil || config.Binary == u.config.Binary && slices.Equal(config.Args, u.config.Args) {
		return err
	}
	u.config = config
	return u.restart(ctx)
}

func (u *upstream) configFor(l launch, in surroundings) (localcluster.ControllerManagerConfig, error) {
	config := localcluster.ControllerManagerConfig{Args: managerArgs()}
	switch l {
	case unlimited:
		config.Args = managerArgs("--kube-api-qps=10000", "--kube-api-burst=10000")
	case alone:
		config.Args = managerArgs(withoutIndex)
	case lagging:
		kubeconfig, err := u.cluster.Kubeconfig("gate", in.through)
		if err != nil {
			return config, err
		}
		config.Args = managerArgs("--use-service-account-credentials=false", "--kubeconfig="+kubeconfig)
	case watching:
		config.Args = managerArgs(monitorGrace(), "--node-monitor-period="+passEach.String())
	case settable:
		config.Binary, config.Env = u.options.settablePlane, []string{in.clock.Env()}
	}
	return config, nil
}

func (u *upstream) restart(ctx context.Context) error {
	return u.cluster.RestartControllerManager(ctx, u.config)
}

// scrape asks as the administrator. The serving certificate of kube-controller-manager is self-signed.
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
	return filepath.Join(u.options.plane, string(localcluster.ControllerManager))
}

// ours is taintkeeper, next to a kube-controller-manager that does not evict.
type ours struct {
	cluster *localcluster.Cluster
	options options
	config  localcluster.TaintkeeperConfig // with which it runs
	process *localcluster.Taintkeeper
}

// startOurs starts a cluster in which taintkeeper evicts. With -coexist, kube-controller-manager would, too.
func startOurs(ctx context.Context, o options) (*localcluster.Cluster, contestant, error) {
	config := clusterConfig(o.plane)
	if o.coexist {
		config.TaintEviction = localcluster.BuiltInOn
	}
	cluster, err := localcluster.Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	c := &ours{cluster: cluster, options: o}
	c.config = c.usual()
	c.process, err = cluster.StartTaintkeeper(ctx, c.config)
	return cluster, c, err
}

func (c *ours) usual() localcluster.TaintkeeperConfig {
	return localcluster.TaintkeeperConfig{
		Binary: c.options.ours, Coexist: c.options.coexist, Args: []string{comparisonOperators},
	}
}

func (*ours) user() string { return localcluster.TaintkeeperUser }

func (c *ours) access() (*rest.Config, error) { return c.cluster.TaintkeeperAccess() }

func (c *ours) canRun(l launch) error {
	if l != settable {
		return nil
	}
	return wallclock.Check(c.options.settableOurs)
}

func (c *ours) start(ctx context.Context, l launch, in surroundings) error {
	c.config = c.usual()
	switch l {
	case limited:
		c.config.Args = append(c.config.Args, "--kube-api-qps=20", "--kube-api-burst=30")
	case lagging:
		c.config.Access = in.through
	case alone:
		withoutIndex := localcluster.ControllerManagerConfig{Args: managerArgs(withoutIndex)}
		if err := c.cluster.RestartControllerManager(ctx, withoutIndex); err != nil {
			return err
		}
	case watching:
		without := localcluster.ControllerManagerConfig{Args: managerArgs("--controllers=-node-lifecycle-controller")}
		if err := c.cluster.RestartControllerManager(ctx, without); err != nil {
			return err
		}
		c.config.Args = append(c.config.Args, "--controllers=*", monitorGrace())
	case settable:
		c.config.Binary, c.config.Env = c.options.settableOurs, []string{in.clock.Env()}
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

func (c *ours) program() string { return c.options.ours }
