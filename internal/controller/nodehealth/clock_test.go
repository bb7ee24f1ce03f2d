// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// This machine's clock is behind. The next leader's may be right: pods would then leave too early because of a
// timeAdded that is too early.
func TestTimeAddedIsTheAPIServersTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const behind = 5 * time.Minute
		clock := &timeline.Clock{}
		clock.Heard(time.Now().Add(behind), time.Now())
		w.addZone("a", 3)
		w.run(func(c *Config) { c.Clock = clock })
		w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
		for _, taint := range w.Node("a-0").Spec.Taints {
			if early := time.Now().Add(behind).Truncate(time.Second).Sub(taint.TimeAdded.Time); early > 0 {
				t.Errorf("timeAdded of %s is %s before the API server's clock", taint.ToString(), early)
			}
		}
		if len(w.Node("a-0").Spec.Taints) == 0 {
			t.Error("the node has no taint")
		}
	})
}

// Zones and echoes know this process's clock only.
func TestAClockOfTheAPIServerThatDiffersChangesNothingForSilentNodes(t *testing.T) {
	for _, ahead := range []time.Duration{0, 4 * time.Second, time.Minute, -time.Minute, -10 * time.Minute} {
		play(t, func(t *testing.T, w *world) {
			clock := &timeline.Clock{}
			w.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				clock.Heard(time.Now().Add(ahead).Truncate(time.Second), time.Now())
				return false, nil, nil
			})
			w.addZone("a", 10)
			w.run(func(c *Config) { c.Clock = clock })
			w.Until(2 * time.Minute)
			w.falls("a-0", "a-1", "a-2")
			w.Until(3 * time.Minute)
			if got := w.tainted("a-0", "a-1", "a-2"); len(got) == 0 || len(got) == 3 {
				t.Errorf("with a server %v ahead, a minute after three nodes fell silent %v are tainted, want some of them", ahead, got)
			}
			w.Until(4 * time.Minute)
			w.wantTainted(3, "a-0", "a-1", "a-2")
		})
	}
}
