// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakerules "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }

// fakeClients are clients of an API server that does not exist.
func fakeClients(t *testing.T, api *fake.Clientset) *clients {
	t.Helper()
	known, err := v1alpha1.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return &clients{
		api: api, events: api, pods: api, leases: api, echo: api, whole: api, reconnect: func() {}, clock: &timeline.Clock{}, labels: &podwire.Labels{},
		custom: plainLister{fakerules.NewClientBuilder().WithScheme(known).Build()},
		rivals: rivalsAmong(t),
	}
}

// plainLister tells client-go that the fake client cannot send a list through a watch.
type plainLister struct{ client.WithWatch }

func (plainLister) IsWatchListSemanticsUnSupported() bool { return true }

func TestTheProcessHasOneWatchOfNodesAndOneOfPods(t *testing.T) {
	for name, args := range map[string][]string{
		"all controllers": {"--controllers=*"},
		"the default":     nil,
		"a shadow":        {"--shadow"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := fake.NewClientset()
				parts, err := fakeClients(t, api).parts(logr.Discard(), prometheus.NewRegistry(), parse(t, args...))
				if err != nil {
					t.Fatal(err)
				}
				for _, part := range parts {
					bubble.Run(t, "a part of the process", part.Run)
				}
				for _, part := range parts {
					if part.synced != nil && !part.synced() {
						t.Errorf("%T has not synced", part.runs)
					}
				}
				asked := map[string]int{}
				for _, action := range api.Actions() {
					asked[action.GetVerb()+" "+action.GetResource().Resource]++
				}
				for _, call := range []string{"list nodes", "watch nodes", "list pods", "watch pods"} {
					if asked[call] != 1 {
						t.Errorf("%d times %s, want once", asked[call], call)
					}
				}
			})
		})
	}
}
