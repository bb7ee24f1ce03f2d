// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/policy"
)

func TestAnAllowanceSaysWhyThereIsNoRoom(t *testing.T) {
	for name, test := range map[string]struct {
		allowed int
		begun   []types.UID
		after   time.Duration
		want    policy.Why
	}{
		"it allows none":                         {want: policy.Budget},
		"it allows none, and must be asked":      {after: policy.ProbeEvery},
		"it allows one":                          {allowed: 1},
		"it allows one, which another takes":     {allowed: 1, begun: []types.UID{"a"}, want: policy.BudgetBusy},
		"it allows many":                         {allowed: 9, begun: []types.UID{"a"}},
		"it allows many, and is asked about two": {allowed: 9, begun: []types.UID{"a", "b"}, want: policy.BudgetBusy},
	} {
		t.Run(name, func(t *testing.T) {
			allowance := policy.NewAllowance(at(0))
			allowance.Allow(test.allowed)
			for _, pod := range test.begun {
				allowance.Begin(pod, at(0))
			}
			if got := allowance.Lacks(at(0).Add(test.after)); got != test.want {
				t.Errorf("it lacks room because of %q, want %q", got, test.want)
			}
		})
	}
}
