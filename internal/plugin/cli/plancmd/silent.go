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

// silence is --unreachable, with the flags of the controller that say what follows.
type silence struct {
	is    bool
	flags readiness.Options
	names []string // of these flags
}

func (s *silence) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.is, "unreachable", false,
		"Say what would happen if the nodes became unreachable now. No taint is given then.")
	cmd.Flags().BoolVar(&s.is, "silent", false, "The same as --unreachable, by its former name.")
	_ = cmd.Flags().MarkHidden("silent")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.flags.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		s.names = append(s.names, flag.Name)
		flag.Usage = "With --unreachable, as the controller has it: " + flag.Usage + "."
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

// validate refuses flags that would change nothing.
func (s *silence) validate(cmd *cobra.Command) error {
	if s.is {
		if cmd.Flags().Changed("overwrite") {
			return command.Usagef("--overwrite is for taints that are given: leave it out with --unreachable")
		}
		if err := s.flags.Validate(); err != nil {
			return command.Usagef("%w", err)
		}
		return nil
	}
	for _, name := range s.names {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s is for nodes that become unreachable: add --unreachable, or leave it out", name)
		}
	}
	return nil
}

// noTaints refuses taints together with --unreachable.
func noTaints(specs []string) error {
	if len(specs) == 0 {
		return nil
	}
	return command.Usagef("--unreachable says which taints the nodes get: leave out %s, or --unreachable",
		strings.Join(specs, " "))
}
