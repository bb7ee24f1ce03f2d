// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kubectl-taintkeeper": command})
}

// command is kubectl-taintkeeper at the instant that $NOW says.
func command() {
	now, err := time.Parse(time.RFC3339Nano, os.Getenv("NOW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitFailed)
	}
	root := cli.New(cli.Env{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:     clocktesting.NewFakePassiveClock(now),
		Version:   "v0.0.0",
	})
	os.Exit(cli.Fail(os.Stderr, root.Execute()))
}

// TestScripts plays testdata/script: every command and every error, with what is printed. Run with -update to write it
// anew.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NOW", "2026-11-22T09:00:00.25Z")
			env.Setenv("KUBECONFIG", env.WorkDir+"/none")
			complete, err := filepath.Abs("../../../cmd/kubectl-taintkeeper/kubectl_complete-taintkeeper")
			if err != nil {
				return err
			}
			env.Setenv("COMPLETE", complete)
			return os.CopyFS(env.WorkDir+"/examples", os.DirFS("../../../examples"))
		},
	})
}
