// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// UsageError is a mistake on the command line.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// Usagef returns a UsageError. The sentence says what to write instead.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrNamespaces means that a command line selects one namespace and all of them.
var ErrNamespaces = Usagef("--all-namespaces and --namespace cannot be used together: use one of them")

// NoArgs is for commands that take only flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	files := ""
	if flag := cmd.Flags().Lookup("filename"); flag != nil && !flag.Hidden {
		files = "name files with -f, or "
	}
	return Usagef("%q: %s takes no arguments: %ssee %s --help", args[0], cmd.Name(), files, cmd.CommandPath())
}

// NoFiles rejects -f for a command that does not read files, and says why, because other commands do.
func NoFiles(cmd *cobra.Command, why string) {
	var files []string
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "")
	_ = cmd.Flags().MarkHidden("filename")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if len(files) == 0 {
			return nil
		}
		return Usagef("--filename=%s: %s", strings.Join(files, ","), why)
	}
}

// NoNamespace rejects a namespace for a command about nodes and all pods on them, because its output would contain pods
// of other namespaces.
func NoNamespace(config *genericclioptions.ConfigFlags) error {
	if *config.Namespace == "" {
		return nil
	}
	return Usagef("--namespace=%s: this command reports pods of all namespaces; remove --namespace", *config.Namespace)
}

// DidYouMean returns the nearest names, as the end of a sentence. It is empty if none is near.
func DidYouMean(name string, names []string) string {
	const most = 3
	near := slices.DeleteFunc(slices.Clone(names), func(other string) bool {
		return levenshtein.ComputeDistance(name, other) > max((len(name)+2)/3, 1) && !strings.HasPrefix(other, name)
	})
	if len(near) == 0 {
		return ""
	}
	slices.SortFunc(near, func(a, b string) int {
		distanceA, distanceB := levenshtein.ComputeDistance(name, a), levenshtein.ComputeDistance(name, b)
		return cmp.Or(cmp.Compare(distanceA, distanceB), cmp.Compare(a, b))
	})
	return ": did you mean " + strings.Join(near[:min(most, len(near))], ", ") + "?"
}
