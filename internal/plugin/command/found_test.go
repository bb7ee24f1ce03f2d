// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

func TestBudgetsThatAreNotKnownFailThoseWhoAskForThem(t *testing.T) {
	for name, test := range map[string]struct {
		asks    command.FailOn
		unknown bool
		fails   bool
	}{
		"they are known":          {command.FailOn{command.Budget}, false, false},
		"they are not known":      {command.FailOn{command.LostWorkload, command.Budget}, true, true},
		"nobody asks for budgets": {command.FailOn{command.LostWorkload}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.asks.CheckBudgets(test.unknown); (err != nil) != test.fails {
				t.Errorf("the error is %v, want one: %t", err, test.fails)
			}
		})
	}
}
