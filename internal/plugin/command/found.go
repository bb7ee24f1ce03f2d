// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// FoundError does not mean that a command failed: it found something that --fail-on names.
type FoundError struct{ error }

func (e FoundError) Unwrap() error { return e.error }

// Foundf returns a FoundError.
func Foundf(format string, args ...any) error { return FoundError{fmt.Errorf(format, args...)} }

// FailOn is the flag --fail-on of commands that predict what may happen.
type FailOn []string

// Values of --fail-on.
const (
	LostPod      = "lost-pod"
	LostWorkload = "lost-workload"
	Budget       = "budget"
	Nowhere      = "nowhere"
)

// FailOns are all values.
var FailOns = []string{LostPod, LostWorkload, Budget, Nowhere}

// AddFlag adds the flag.
func (f *FailOn) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar((*[]string)(f), "fail-on", nil,
		"What makes the exit code 3: "+strings.Join(FailOns, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(FailOns, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects unknown values.
func (f FailOn) Validate() error {
	for _, value := range f {
		if !slices.Contains(FailOns, value) {
			return Usagef("--fail-on=%s: choose from %s", value, strings.Join(FailOns, ", "))
		}
	}
	return nil
}

// Asks reports whether the flag has a value.
func (f FailOn) Asks(value string) bool { return slices.Contains(f, value) }

// CheckBudgets returns an error if the flag names budgets but they are not known.
func (f FailOn) CheckBudgets(unknown bool) error {
	if !unknown || !f.Asks(Budget) {
		return nil
	}
	return fmt.Errorf("--fail-on=%s cannot be checked because you may not list poddisruptionbudgets: ask for the right to list them in all namespaces", Budget)
}

// Check returns a FoundError if something that the flag names was found, such as "2 workloads without a ready replica".
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
