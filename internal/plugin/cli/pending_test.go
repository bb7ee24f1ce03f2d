// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

func TestOnlyThePodsThatCanBePendingAreRead(t *testing.T) {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}
	for name, test := range map[string]struct {
		options pendingOptions
		want    string
	}{
		"of one namespace": {pendingOptions{namespace: "shop"}, "shop spec.nodeName!="},
		"of all":           {pendingOptions{}, " spec.nodeName!="},
		"of one node":      {pendingOptions{nodes: nodeSelection{names: []string{"n-1"}}}, " spec.nodeName=n-1"},
		"of two nodes":     {pendingOptions{nodes: nodeSelection{names: []string{"n-1", "n-2"}}}, " spec.nodeName!="},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			o := test.options
			o.source = newSource(env, genericclioptions.NewConfigFlags(true))
			if _, err := o.readFrom(t.Context(), newAPIReader("https://example.com", c.core, output.NewProgress(env))); err != nil {
				t.Fatal(err)
			}
			if want := []string{"list nodes", "list pods"}; !slices.Equal(c.calls(), want) {
				t.Fatalf("the calls are %v, want %v", c.calls(), want)
			}
			list := c.core.Actions()[1].(clienttesting.ListAction)
			if got := list.GetNamespace() + " " + list.GetListRestrictions().Fields.String(); got != test.want {
				t.Errorf("the pods that are listed are %q, want %q", got, test.want)
			}
		})
	}
}

func TestWithoutTheRightToListNodesNothingIsPendingForSure(t *testing.T) {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}
	c := newCluster()
	c.forbid("list", "nodes")
	_, err := (&pendingOptions{}).readFrom(t.Context(), newAPIReader("https://example.com", c.core, output.NewProgress(env)))
	if err == nil || !strings.Contains(err.Error(), "ask for the right to list them") {
		t.Errorf("the error is %v", err)
	}
}
