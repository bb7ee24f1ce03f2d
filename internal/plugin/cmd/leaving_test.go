// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"io"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

var quiet = command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}

// newReader returns a reader of a cluster with some policies.
func newReader(clients kubernetes.Interface, policies ...runtime.Object) *source.Reader {
	kinds := map[schema.GroupVersionResource]string{source.EvictionPolicies: "EvictionPolicyList"}
	custom := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, policies...)
	return source.NewReader("https://example.com", clients, custom, nil, show.NewProgress(quiet))
}

func TestOnlyThePodsThatCanBePendingAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		options leavingOptions
		want    string
	}{
		"of one namespace": {leavingOptions{namespace: "shop"}, "shop spec.nodeName!="},
		"of all":           {leavingOptions{}, " spec.nodeName!="},
		"of one node":      {leavingOptions{nodes: nodeSelection{Names: []string{"n-1"}}}, " spec.nodeName=n-1"},
		"of two nodes":     {leavingOptions{nodes: nodeSelection{Names: []string{"n-1", "n-2"}}}, " spec.nodeName!="},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset()
			o := test.options
			o.source = source.New(quiet, genericclioptions.NewConfigFlags(true))
			if err := newReader(clients).Read(t.Context(), o.wants()); err != nil {
				t.Fatal(err)
			}
			calls := clients.Actions()
			if len(calls) < 2 || !calls[0].Matches("list", "nodes") || !calls[1].Matches("list", "pods") {
				t.Fatalf("the calls are %v, want nodes to be listed, and then pods", calls)
			}
			list := calls[1].(clienttesting.ListAction)
			if got := list.GetNamespace() + " " + list.GetListRestrictions().Fields.String(); got != test.want {
				t.Errorf("the pods that are listed are %q, want %q", got, test.want)
			}
		})
	}
}

func TestWithoutTheRightToListNodesNothingIsPendingForSure(t *testing.T) {
	clients := fake.NewClientset()
	clients.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	})
	reader := newReader(clients)
	if err := reader.Read(t.Context(), (&leavingOptions{nodes: nodeSelection{All: true}}).wants()); err != nil {
		t.Fatal(err)
	}
	const want = "You may not list nodes, so this lists only the pods that were evicted and still exist."
	if notes := reader.Cluster.Notes(); !slices.Contains(notes, want) {
		t.Errorf("the notes are %q, want %q", notes, want)
	}
}
