// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/chart/helm"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

const (
	namespace = "taintkeeper" // of its own, as docs/security.md advises
	name      = "taintkeeper"

	us      = "system:serviceaccount:" + namespace + ":" + name
	builtIn = auditlog.BuiltInAsServiceAccount
)

// stage is the cluster, and what is installed in it.
type stage struct {
	*scenario.Real
	helm   helm.Client
	keeper *localcluster.Taintkeeper
}

// stageOf is the stage with what is particular to this program.
func stageOf(p *scenario.Play) *stage { return p.Stage.(*stage) }

func newStage(ctx context.Context) (*stage, error) {
	say("Starting a control plane with the built-in taint-eviction-controller on, as in every cluster by default")
	cluster, err := localcluster.Start(context.WithoutCancel(ctx), localcluster.Config{
		Binaries:      "bin/controlplane",
		TaintEviction: localcluster.BuiltInOn,
		Without:       []localcluster.Component{localcluster.Scheduler},
		Audit:         auditlog.Calls,
	})
	if err != nil {
		return nil, err
	}
	on, err := scenario.NewReal(ctx, cluster, builtIn)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	kubeconfig, err := cluster.Kubeconfig("helm", cluster.AdminConfig())
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return &stage{Real: on, helm: helm.Client{Root: ".", Program: "helm", Kubeconfig: kubeconfig, Namespace: namespace}}, nil
}

// Restart implements [scenario.Stage].
func (s *stage) Restart(ctx context.Context) error {
	return s.Cluster().RestartControllerManager(ctx, localcluster.ControllerManagerConfig{})
}

// install is the step that installs the chart as it is.
func install(ctx context.Context, p *scenario.Play) error {
	s := stageOf(p)
	command("helm install %s ./charts/taintkeeper --namespace %s --create-namespace", name, namespace)
	_, err := s.helm.Run(ctx, nil, "install", name, s.helm.Chart(), "--create-namespace")
	return err
}

// upgrade sets values.
func upgrade(values ...string) scenario.Step {
	return func(ctx context.Context, p *scenario.Play) error {
		s, args := stageOf(p), []string{"--reset-then-reuse-values"}
		for _, value := range values {
			args = append(args, "--set", value)
		}
		command("helm upgrade %s ./charts/taintkeeper --namespace %s %s", name, namespace, strings.Join(args, " "))
		_, err := s.helm.Run(ctx, nil, append([]string{"upgrade", name, s.helm.Chart()}, args...)...)
		return err
	}
}

// run runs the program as the kubelet would run the Deployment's pod, except for the addresses.
func run(ctx context.Context, p *scenario.Play) error {
	s := stageOf(p)
	if s.keeper != nil {
		if err := s.keeper.Stop(); err != nil {
			return err
		}
	}
	access, err := s.Cluster().ConfigOf(ctx, namespace, name)
	if err != nil {
		return err
	}
	deployment, err := p.Admin.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	args := localcluster.ArgsOf(deployment.Spec.Template.Spec)
	say("Running bin/taintkeeper as the pod of the Deployment would: %s", strings.Join(args, " "))
	s.keeper, err = s.Cluster().StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: "bin/taintkeeper", Access: access, Granted: true, Args: args,
	})
	return err
}

// stop ends the program, which hands the evictions back.
func stop(_ context.Context, p *scenario.Play) error {
	s := stageOf(p)
	err := errors.Join(s.keeper.Stop(), s.showLog("Handed the evictions back", "still has a backlog"))
	s.keeper = nil
	return err
}

// showLog shows the first line of the program's log with each of some words in it.
func (s *stage) showLog(words ...string) error {
	log, err := os.ReadFile(s.keeper.LogPath())
	if err != nil {
		return err
	}
	lines := strings.Split(string(log), "\n")
	for _, wanted := range words {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, wanted) })
		if i < 0 {
			return fmt.Errorf("no line of %s has %q", s.keeper.LogPath(), wanted)
		}
		say("  %s", lines[i])
	}
	return nil
}
