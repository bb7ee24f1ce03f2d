// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DryRun is the value of --dry-run, as in kubectl.
type DryRun string

// Values of DryRun.
const (
	DryRunNone   DryRun = "none"
	DryRunClient DryRun = "client"
	DryRunServer DryRun = "server"
)

var dryRuns = []string{string(DryRunNone), string(DryRunClient), string(DryRunServer)}

// AddFlag adds --dry-run.
func (d *DryRun) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "dry-run", string(DryRunNone), "Change nothing: client prints what the command would send, and server what the API server would answer. With none, the change is made.")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = string(DryRunClient)
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(dryRuns, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects other values.
func (d DryRun) Validate() error {
	if !slices.Contains(dryRuns, string(d)) {
		return Usagef("--dry-run=%s: choose one of %s", d, strings.Join(dryRuns, ", "))
	}
	return nil
}

// Option returns the field DryRun of a call's options.
func (d DryRun) Option() []string {
	if d == DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Done says what was done, or would be, in kubectl's words.
func (d DryRun) Done(done string) string {
	switch d {
	case DryRunClient:
		return done + " (dry run)"
	case DryRunServer:
		return done + " (server dry run)"
	}
	return done
}
