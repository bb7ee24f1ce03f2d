// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/timeline"
)

// This machine's clock is behind. The next leader's may be right: by a timeAdded that is too early, pods would leave too
// early then.
func TestTimeAddedIsTheAPIServersTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const behind = 5 * time.Minute
		clock := &timeline.Clock{}
		clock.Heard(time.Now().Add(behind), time.Now())
		w.addZone("a", 3)
		w.run(func(c *Config) { c.Clock = clock })
		w.report("a-0", corev1.NodeReady, corev1.ConditionFalse)
		for _, taint := range w.node("a-0").Spec.Taints {
			if early := time.Now().Add(behind).Truncate(time.Second).Sub(taint.TimeAdded.Time); early > 0 {
				t.Errorf("timeAdded of %s is %s before the API server's clock", taint.ToString(), early)
			}
		}
		if len(w.node("a-0").Spec.Taints) == 0 {
			t.Error("the node has no taint")
		}
	})
}
