// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

func TestBudgetsThatAreNotKnownFailThoseWhoAskForThem(t *testing.T) {
	for name, test := range map[string]struct {
		asks    failOnFlag
		unknown bool
		fails   bool
	}{
		"they are known":          {failOnFlag{command.Budget}, false, false},
		"they are not known":      {failOnFlag{command.LostWorkload, command.Budget}, true, true},
		"nobody asks for budgets": {failOnFlag{command.LostWorkload}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.asks.CheckBudgets(test.unknown); (err != nil) != test.fails {
				t.Errorf("the error is %v, want one: %t", err, test.fails)
			}
		})
	}
}
