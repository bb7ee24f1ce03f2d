// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// FoundError is no failure of a command: it found what --fail-on asks for.
type FoundError struct{ error }

func (e FoundError) Unwrap() error { return e.error }

// Foundf returns a FoundError.
func Foundf(format string, args ...any) error { return FoundError{fmt.Errorf(format, args...)} }

// FailOn is the flag --fail-on of commands that foresee what may happen.
type FailOn []string

// What --fail-on can ask for.
const (
	LostWorkload = "lost-workload"
	Budget       = "budget"
	Nowhere      = "nowhere"
)

// FailOns are its values.
var FailOns = []string{LostWorkload, Budget, Nowhere}

// AddFlag adds the flag.
func (f *FailOn) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar((*[]string)(f), "fail-on", nil,
		"What makes the exit code 3: "+strings.Join(FailOns, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(FailOns, cobra.ShellCompDirectiveNoFileComp))
}

// Validate refuses a value that is not known.
func (f FailOn) Validate() error {
	for _, value := range f {
		if !slices.Contains(FailOns, value) {
			return Usagef("--fail-on=%s: choose among %s", value, strings.Join(FailOns, ", "))
		}
	}
	return nil
}

// Asks reports whether it has a value.
func (f FailOn) Asks(value string) bool { return slices.Contains(f, value) }

// CheckBudgets returns an error if budgets are asked for and not known.
func (f FailOn) CheckBudgets(unknown bool) error {
	if !unknown || !f.Asks(Budget) {
		return nil
	}
	return fmt.Errorf("--fail-on=%s cannot be checked because you may not list poddisruptionbudgets: ask for the right to list them in all namespaces", Budget)
}

// Check returns a FoundError if something that is asked for was found, such as "2 workloads without a ready replica".
func (f FailOn) Check(found map[string]string) error {
	var all []string
	for _, value := range FailOns {
		if f.Asks(value) && found[value] != "" {
			all = append(all, found[value])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return Foundf("%s (--fail-on=%s)", strings.Join(all, ", "), strings.Join(f, ","))
}
