// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/taint"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/taintkeeper/taintkeeper/test/rig/suite"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// opened is a playground as make playground opens it.
type opened struct {
	*playground

	board string
}

func open(t *testing.T) opened {
	t.Helper()
	suite.SilenceLogs()
	binary, err := suite.Build(t.Context(), t.TempDir(), "taintkeeper")
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	p := opened{playground: &playground{screen: plainScreen{in}, binary: binary}}
	go func() {
		err := p.keep(ctx)
		ended <- err
		_ = in.CloseWithError(err) // it never fails
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	for printed := ""; p.board == "" || !strings.HasPrefix(printed, "export KUBECONFIG="); {
		if !lines.Scan() {
			t.Fatalf("the playground has not opened: %v", lines.Err())
		}
		if printed = strings.TrimSpace(lines.Text()); strings.HasPrefix(printed, "http://127.0.0.1:") {
			p.board = printed
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // what else it prints is for people
	return p
}

// kubectlTaint runs kubectl's own command, and returns when that is done.
func (p opened) kubectlTaint(t *testing.T, args ...string) time.Time {
	t.Helper()
	cmdutil.BehaviorOnFatal(func(message string, _ int) { t.Fatal(message) })
	defer cmdutil.DefaultBehaviorOnFatal()
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig = &p.kubeconfig
	command := taint.NewCmdTaint(cmdutil.NewFactory(flags), genericiooptions.NewTestIOStreamsDiscard())
	command.SetArgs(args)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// instant is when something was seen in a page.
type instant struct {
	at  time.Time
	err error
}

// when looks at a page until an expression is true.
func when(tab *web.Tab, expression string) <-chan instant {
	seen := make(chan instant, 1)
	go func() {
		at, err := tab.When(expression)
		seen <- instant{at, err}
	}()
	return seen
}

func TestTheBoardOfThePlayground(t *testing.T) {
	p := open(t)
	browser, stop, err := web.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	tab, err := browser.OpenAddress(p.board, web.View{Width: 1120, Height: 900, Scheme: "light"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Until(fmt.Sprintf(`%s === %d`, web.Rows("nodes"), len(fleet))); err != nil {
		t.Fatal(err)
	}

	// It takes a while until the nodes are considered silent, and the second of them waits for seconds only.
	if err := p.cluster.SilenceNodes(t.Context(), north1, north2); err != nil {
		t.Fatal(err)
	}
	waits := when(tab, fmt.Sprintf(`[%s, %s].some((text) => text.includes('is held back: zone'))`,
		web.RowOf("nodes", north1), web.RowOf("nodes", north2)))

	// The page is told of each change.
	t.Run("follows kubectl taint", func(t *testing.T) {
		p.cluster.Stalls() // from now on
		for round := range 3 {
			value := fmt.Sprintf("%s=v%d:NoExecute", "maintenance", round)
			there := fmt.Sprintf(`[%s, document.querySelector('#pods').textContent].every((text) => text.includes(%q))`,
				web.RowOf("nodes", west1), value)
			for _, change := range []struct{ taint, seen string }{
				{value, there}, {"maintenance-", `!` + there},
			} {
				seen := when(tab, change.seen)
				set := p.kubectlTaint(t, "node", west1, change.taint)
				shown := <-seen
				if shown.err != nil {
					t.Fatal(shown.err)
				}
				took := shown.at.Sub(set)
				t.Logf("kubectl taint node %s %s is shown after %v", west1, change.taint, took.Round(time.Millisecond))
				if took > p.cluster.Stalls().Allowed(set, shown.at) {
					t.Errorf("the page follows kubectl taint node %s %s after %v", west1, change.taint, took)
				}
			}
		}
	})

	t.Run("lists Taintkeeper's eviction of a pod that tolerates nothing, with its lateness", func(t *testing.T) {
		row := web.RowOf("evictions", "fragile")
		if err := tab.Until(fmt.Sprintf(`%[1]s.includes('Taintkeeper') && !%[1]s.includes('not known')`, row)); err != nil {
			t.Error(err)
		}
	})

	t.Run("says why a silent zone and its node wait", func(t *testing.T) {
		if seen := <-waits; seen.err != nil {
			t.Error(seen.err)
		}
		if err := tab.Until(web.RowOf("zones", "north") + `.includes('2 of 2 nodes not ready')`); err != nil {
			t.Error(err)
		}
	})
}
