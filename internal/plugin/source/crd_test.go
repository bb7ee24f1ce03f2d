// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"
)

func TestAPolicyOfAFileIsRefusedAsTheAPIServerRefusesIt(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want string // empty if it is accepted
	}{
		"a good one": {spec: map[string]any{"action": "Hold", "deadline": "5m"}},
		"two rules that are broken": {
			spec: map[string]any{"action": "Delete", "deadline": "5m", "unready": "Ask"},
			want: "spec: a deadline ends the action Evict or Hold, and the action Delete needs none: remove the deadline, or choose another action; " +
				"spec: unready says what happens to pods that the action Evict asks about: remove it, or set the action to Evict; " +
				"spec: the policy does nothing: set the action to Evict or Hold, or add a pace, a breaker, paused, finished: Keep, or ifDown: Hold",
		},
		"a value that is not known": {
			spec: map[string]any{"action": "Dance"},
			want: `spec.action: Unsupported value: "Dance": supported values: "Delete", "Evict", "Hold"`,
		},
		"no action": {spec: map[string]any{}, want: "spec.action: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validatePolicy(map[string]any{
				"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy", "metadata": map[string]any{"name": "p"}, "spec": test.spec,
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
		})
	}
}
