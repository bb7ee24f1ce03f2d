// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// tokens says how often a node of a zone may be tainted NoExecute.
type tokens struct {
	rate    float32 // 0: never
	limiter *rate.Limiter
}

func newTokens() tokens { return tokens{policy.Rate, rate.NewLimiter(rate.Limit(policy.Rate), 1)} }

// wholeToken is the amount at which a token has accrued: the limiter adds up fractions, and ten tenths are less than
// one.
const wholeToken = 1 - 1e-6

// take takes a token if there is one.
func (t *tokens) take(at time.Duration) bool {
	now := arena.Epoch.Add(at)
	if t.rate == 0 || t.limiter.TokensAt(now) < wholeToken {
		return false
	}
	t.limiter.ReserveN(now, 1)
	return true
}

// setRate changes the rate, and keeps what has accrued of a token; but a whole one that nobody took before a time
// without tokens is lost.
func (t *tokens) setRate(next float32, at time.Duration) {
	if t.rate == next {
		return
	}
	unused := t.rate == 0 && t.limiter.TokensAt(arena.Epoch.Add(at)) >= wholeToken
	t.rate = next
	t.limiter.SetLimitAt(arena.Epoch.Add(at), rate.Limit(next))
	if unused {
		t.take(at)
	}
}

// goOn makes the latest token the one that the taints of a zone show: it was taken before a restart.
func (t *tokens) goOn(c *cluster, zone string) {
	var latest time.Time
	for _, node := range c.nodes {
		for _, taint := range node.Spec.Taints {
			if zoneOf(node) == zone && taint.Effect == corev1.TaintEffectNoExecute && slices.Contains(noExecuteKeys, taint.Key) && taint.TimeAdded != nil && taint.TimeAdded.After(latest) {
				latest = taint.TimeAdded.Time
			}
		}
	}
	if !latest.IsZero() {
		t.limiter.AllowN(latest, 1)
	}
}
