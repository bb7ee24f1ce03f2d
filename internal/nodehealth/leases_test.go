// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// After an outage a watch is opened and ends at once, as the API server no longer has what it asks for, and
// the reflector waits before its next try. That is no time in which a node could be heard.
func TestSilenceDoesNotCountBetweenTheEndOfAWatchOfLeasesAndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases(newProbes(defaultGrace))
		watches := l.listerWatcher(fake.NewClientset())
		l.probes.renewed("a", time.Now(), time.Now())
		heard := time.Now()

		first, err := watches.Watch(metav1.ListOptions{}) //nolint:staticcheck // as the reflector does
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		first.Stop()
		pass(30 * time.Second)
		second, err := watches.Watch(metav1.ListOptions{}) //nolint:staticcheck // as the reflector does
		if err != nil {
			t.Fatal(err)
		}
		defer second.Stop()
		pass(5 * time.Second)
		if silence := time.Since(l.probes.of("a", time.Now())); silence != 15*time.Second || time.Since(heard) != 45*time.Second {
			t.Errorf("the node counts as silent for %s, want 15s", silence)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
}
