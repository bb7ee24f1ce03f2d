// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAGracePeriodShorterThanTwoRenewalsIsWarnedOfAtTheStart(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  bool
	}{
		{[]string{"--controllers=*", "--node-monitor-grace-period=10s"}, true},
		{[]string{"--controllers=*", "--node-monitor-grace-period=20s"}, true},
		{[]string{"--controllers=*", "--node-monitor-grace-period=21s"}, false},
		{[]string{"--controllers=*"}, false},
		{[]string{"--controllers=eviction", "--node-monitor-grace-period=10s"}, false},
	} {
		var said []string
		log := funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
		if _, err := fakeClients(t, fake.NewClientset()).parts(log, prometheus.NewRegistry(), parse(t, test.flags...)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(said, "\n"), "two renewals of a kubelet's Lease"); got != test.want {
			t.Errorf("%v: the log warns of the grace period: %t, want %t; it says %q", test.flags, got, test.want, said)
		}
	}
}
