// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// evictions is the game of the taint-eviction controllers.
var evictions = game{
	generate: generateEvictions, ours: ours, upstream: upstream,
	outcome: func(w *world) outcome { return w.pods },
	rule:    func(h *history, _ outcome) outcome { return predictDeletes(h, none) },
	model:   func(h *history, _ []time.Duration, has quirks) outcome { return predictDeletes(h, has) },
	agree:   func(rule, upstream []look) bool { return equal(rule, upstream, roughly) },
	quirks: []string{
		"4: frozen countdown", "6: overflow", "7: keyed by name", "8: terminating pod deleted again", "9: mirror pod deleted",
		"10: countdown from sight", "node gone: countdown goes on",
	},
	needFirst: byName | fromSight | orphans,
	enough:    2000,
}

func init() { evictions.timers = predictByTimers } // which asks for all quirks

// The defects of upstream's taint-eviction controller. The numbers refer to docs/defects.md.
const (
	// frozen (4): once a countdown runs for a pod, other taints and other tolerationSeconds do not change it; only the
	// end of all taints or of the pod, or a toleration without a limit, ends it; a taint that is not tolerated makes
	// the pod leave at once.
	frozen quirks = 1 << iota
	// overflow (6): tolerationSeconds are counted in 64-bit nanoseconds.
	overflow
	// byName (7): what is known about a pod is kept under its name, and the name is deleted.
	byName
	// terminatingAgain (8): a pod that terminates already is deleted like any other.
	terminatingAgain
	// mirrorPods (9): mirror pods are deleted.
	mirrorPods
	// fromSight (10): a countdown starts when the process first sees that the pod must leave. So not-ready and unreachable
	// each count from when they came.
	fromSight
	// orphans (no number there; in docs/differences.md): a countdown continues when its node is gone.
	orphans
)

// TestEvictions plays random histories to upstream's taint-eviction controller and to ours, and explains every
// difference.
func TestEvictions(t *testing.T) { evictions.play(t, seed.Count(3000)) }

// The operators Gt and Lt are behind a feature gate of their own.
func TestEvictionsWithComparisonOperators(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, true)
	evictions.play(t, max(1, seed.Count(3000)/10))
}
