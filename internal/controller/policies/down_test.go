// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"slices"
	"testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

func TestHeldPodsStayWhileTaintkeeperIsDownOnlyIfNothingEvictsThem(t *testing.T) {
	const binding = "taintkeeper-held"
	var (
		evicts = policy.Policy{IfDown: v1alpha1.IfDownEvict}
		holds  = policy.Policy{IfDown: v1alpha1.IfDownHold}
		tries  = policy.Policy{IfDown: v1alpha1.IfDownHold, DryRun: true}
	)
	for name, test := range map[string]struct {
		down   down
		policy policy.Policy
		held   bool
		reason string
	}{
		"the built-in is off":                    {down{}, evicts, true, "BuiltInOff"},
		"the built-in may evict them":            {down{binding: binding, exists: true}, evicts, false, "BuiltInWouldEvict"},
		"the admission policy holds them":        {down{binding: binding, exists: true}, holds, true, "AdmissionPolicy"},
		"the admission policy does not exist":    {down{binding: binding}, holds, false, "NoAdmissionPolicy"},
		"the admission policy exempts a dry run": {down{binding: binding, exists: true}, tries, false, "DryRun"},
	} {
		t.Run(name, func(t *testing.T) {
			cases := test.down.cases(followed{Policy: &test.policy})
			got := cases[slices.IndexFunc(cases, func(c conditionCase) bool { return c.when })]
			if got.holds != test.held || got.reason != test.reason {
				t.Errorf("it says %t, %s: %s; want %t, %s", got.holds, got.reason, got.message, test.held, test.reason)
			}
		})
	}
}
