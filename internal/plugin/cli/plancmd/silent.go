// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plancmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/completion"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// silence is --unreachable, and the flags of the controller that determine the outcome.
type silence struct {
	is    bool
	flags readiness.Options
	names []string // names of these flags
}

func (s *silence) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.is, "unreachable", false,
		"Say what would happen if the nodes became unreachable now. Accepts no taints.")
	cmd.Flags().BoolVar(&s.is, "silent", false, "The former name of --unreachable.")
	_ = cmd.Flags().MarkHidden("silent")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.flags.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		s.names = append(s.names, flag.Name)
		flag.Usage = "With --unreachable, as set on the controller: " + flag.Usage + "."
		cmd.Flags().AddFlag(flag)
	})
}

// completion completes nodes, and taints unless --unreachable is given.
func (s *silence) completion(from *source.Source) completion.Func {
	nodes, taints := completion.Nodes(from), completion.Taints(from)
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if s.is {
			return nodes(cmd, args, word)
		}
		return taints(cmd, args, word)
	}
}

// validate refuses flags that would have no effect.
func (s *silence) validate(cmd *cobra.Command) error {
	if s.is {
		if cmd.Flags().Changed("overwrite") {
			return command.Usagef("--overwrite applies to taints, and --unreachable takes none: remove one of the two")
		}
		if err := s.flags.Validate(); err != nil {
			return command.Usagef("%w", err)
		}
		return nil
	}
	for _, name := range s.names {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s requires --unreachable", name)
		}
	}
	return nil
}

// noTaints refuses taints together with --unreachable.
func noTaints(specs []string) error {
	if len(specs) == 0 {
		return nil
	}
	return command.Usagef("--unreachable takes no taints: remove %s, or --unreachable",
		strings.Join(specs, " "))
}
