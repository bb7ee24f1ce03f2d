// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) {
	testscript.Main(bubble.Tests{M: m}, map[string]func(){"kubectl-taintkeeper": command})
}

// command is kubectl-taintkeeper at the time in $NOW, on a terminal with $WIDTH columns.
func command() {
	now, err := time.Parse(time.RFC3339Nano, os.Getenv("NOW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cmd.ExitFailed)
	}
	var out, errOut io.Writer = os.Stdout, os.Stderr
	if width, err := strconv.Atoi(os.Getenv("WIDTH")); err == nil {
		out, errOut = show.Narrow{Writer: out, Width: width}, show.Narrow{Writer: errOut, Width: width}
	}
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: out, ErrOut: errOut},
		Clock:     clocktesting.NewFakePassiveClock(now),
		Version:   "v0.0.0",
	})
	os.Exit(cmd.Fail(errOut, root.Execute()))
}

// TestScripts plays testdata/script: every command and every error, with their output. Set UPDATE_SCRIPTS to update the
// output.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NOW", "2026-11-22T09:00:00.25Z")
			env.Setenv("KUBECONFIG", env.WorkDir+"/none")
			env.Setenv("GORACE", "atexit_sleep_ms=10") // the race detector's default lets each command sleep for a second
			complete, err := filepath.Abs("../../../cmd/kubectl-taintkeeper/kubectl_complete-taintkeeper")
			if err != nil {
				return err
			}
			env.Setenv("COMPLETE", complete)
			if err := os.WriteFile(env.WorkDir+"/many.json", many(), 0o600); err != nil {
				return err
			}
			return os.CopyFS(env.WorkDir+"/examples", os.DirFS("../../../examples"))
		},
	})
}

// many is a cluster with too many pods to read: 93 of a StatefulSet and 12 of a DaemonSet on 12 nodes, and 31
// StatefulSets with one pod and a PodDisruptionBudget each.
func many() []byte {
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	pod := func(namespace, name, node, kind, owner, tolerations string) {
		add(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": %q, "name": %q, "uid": %[2]q, "labels": {"app": %[5]q},
			"creationTimestamp": "2026-11-22T08:00:00Z",
			"ownerReferences": [{"apiVersion": "apps/v1", "kind": %[4]q, "name": %[5]q, "uid": %[5]q, "controller": true}]},
			"spec": {"nodeName": %[3]q, "tolerations": [%[6]s]},
			"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`,
			namespace, name, node, kind, owner, tolerations)
	}
	for i := range 12 {
		node := fmt.Sprintf("ip-10-0-12-%d.eu-central-1.compute.internal", i+1)
		add(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "uid": %[1]q}, "spec": {"taints": [{"key": "old", "effect": "NoExecute"}]}}`, node)
		pod("kube-system", fmt.Sprintf("agent-%02d", i), node, "DaemonSet", "agent", `{"operator": "Exists"}`)
		for j := range 8 {
			if 8*i+j < 93 {
				pod("shop", fmt.Sprintf("web-%02d", 8*i+j), node, "StatefulSet", "web",
					`{"key": "old", "operator": "Exists"}, {"key": "m", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 840}`)
			}
		}
		for j := i; j < 31; j += 12 {
			app := fmt.Sprintf("app-%02d", j)
			pod("apps", app+"-0", node, "StatefulSet", app, "")
			add(`{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "apps", "name": %q, "uid": %[1]q},
				"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": %[1]q}}}, "status": {"disruptionsAllowed": 0}}`, app)
		}
	}
	return []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + `]}`)
}
