// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// silence is --silent, with the flags of the controller that say what follows.
type silence struct {
	is    bool
	flags readiness.Options
	names []string // of these flags
}

func (s *silence) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.is, "silent", false,
		"Say what would happen if the nodes fell silent now. No taint is given then.")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.flags.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		s.names = append(s.names, flag.Name)
		flag.Usage = "With --silent, as the controller has it: " + flag.Usage + "."
		cmd.Flags().AddFlag(flag)
	})
}

// completion completes nodes, and taints unless --silent is given.
func (s *silence) completion(from *source.Source) completeFunc {
	nodes, taints := completeNodes(from), completeTaints(from)
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
			return command.Usagef("--overwrite is for taints that are given: leave it out with --silent")
		}
		if err := s.flags.Validate(); err != nil {
			return command.Usagef("%w", err)
		}
		return nil
	}
	for _, name := range s.names {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s is for nodes that fall silent: give --silent, or leave it out", name)
		}
	}
	return nil
}

// noTaints refuses taints beside --silent.
func noTaints(specs []string) error {
	if len(specs) == 0 {
		return nil
	}
	return command.Usagef("--silent says which taints silent nodes get: leave out %s, or --silent",
		strings.Join(specs, " "))
}

// silenceLines say when the nodes of a plan fall silent, when they are tainted NoExecute, and which are held back.
func silenceLines(plan *cliv1alpha1.TaintPlan) []string {
	if !plan.Silent {
		return nil
	}
	silent := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.SilentAt }
	tainted := func(node cliv1alpha1.PlannedNode) *metav1.MicroTime { return node.TaintedAt }
	var falls, turns, held lines
	for _, node := range byInstant(plan.Nodes, silent) {
		if node.SilentAt == nil {
			falls.add("Unknown already", node.Name)
		} else {
			falls.add("Silent "+in(plan, node.SilentAt), node.Name)
		}
		if node.Held != "" {
			held.add("Held back, as "+node.Held, node.Name)
		}
	}
	for _, node := range byInstant(plan.Nodes, tainted) {
		if node.TaintedAt != nil {
			turns.add("Tainted NoExecute, zone "+cmp.Or(node.Zone, "(none)"), node.Name+" "+in(plan, node.TaintedAt))
		}
	}
	return slices.Concat(falls, turns, held).all()
}

// byInstant orders nodes by an instant. Those that have none come first.
func byInstant(
	nodes []cliv1alpha1.PlannedNode, of func(cliv1alpha1.PlannedNode) *metav1.MicroTime,
) []cliv1alpha1.PlannedNode {
	at := func(node cliv1alpha1.PlannedNode) time.Time { return ptr.Deref(of(node), metav1.MicroTime{}).Time }
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b cliv1alpha1.PlannedNode) int {
		return at(a).Compare(at(b))
	})
}

// in says how long it is to an instant of a plan.
func in(plan *cliv1alpha1.TaintPlan, at *metav1.MicroTime) string {
	if text := output.Relative(plan.At.Time, at.Time); text != "now" {
		return "in " + text
	}
	return "now"
}

// line is names, or what there is to say of each, of nodes that have something in common.
type line struct {
	what  string
	names []string
}

type lines []line

func (l *lines) add(what, name string) {
	i := slices.IndexFunc(*l, func(known line) bool { return known.what == what })
	if i < 0 {
		*l, i = append(*l, line{what: what}), len(*l)
	}
	(*l)[i].names = append((*l)[i].names, name)
}

func (l lines) all() []string {
	var all []string
	for _, line := range l {
		all = append(all, fmt.Sprintf("%s: %s.", line.what, sentence.Enumerate(line.names)))
	}
	return all
}
