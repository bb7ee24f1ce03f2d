// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli proves what kubectl taintkeeper changes on a real control plane, whose kube-controller-manager evicts
// with its built-in taint-eviction-controller: no part of Taintkeeper needs to be installed for it.
//
// All tests share one cluster, and each has a node for itself.
package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once.
var (
	cluster    *localcluster.Cluster
	admin      kubernetes.Interface
	kubeconfig string // of the administrator
)

// TestMain runs kubectl-taintkeeper when a script calls it, and the tests otherwise.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"kubectl-taintkeeper": plugin})
}

func plugin() {
	root := cmd.New(env(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	os.Exit(cmd.Fail(os.Stderr, root.Execute()))
}

func env(streams genericiooptions.IOStreams) cmd.Env {
	return cmd.Env{IOStreams: streams, Clock: clock.RealClock{}}
}

// tests are the tests with the cluster around them.
type tests struct{ *testing.M }

// Run implements testscript.TestingM.
func (m tests) Run() int { return suite.Run(m.M, start) }

func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		Without:       []localcluster.Component{localcluster.Scheduler},
	})
	if err != nil {
		return err
	}
	kubeconfig, err = cluster.Kubeconfig("person", cluster.AdminConfig())
	return err
}

// said is what a command has written.
type said struct{ out, err bytes.Buffer }

// command is a command in this process. It runs as the user in the kubeconfig.
func command(kubeconfig string, args ...string) (*cobra.Command, *said) {
	said := &said{}
	root := cmd.New(env(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &said.out, ErrOut: &said.err}))
	root.SetArgs(append(args, "--kubeconfig="+kubeconfig))
	return root, said
}

// run runs a command to its end.
func run(t *testing.T, kubeconfig string, args ...string) (out, errOut string, err error) {
	t.Helper()
	root, said := command(kubeconfig, args...)
	err = root.ExecuteContext(t.Context())
	return said.out.String(), said.err.String(), err
}
