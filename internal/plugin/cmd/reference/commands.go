// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes docs/commands.md from the commands themselves: every command
// with its flags, and every kind that -o json and -o yaml print.
package reference

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

const head = `# Commands

<!-- Written by make generate from the commands themselves: do not edit. -->

` + "`kubectl taintkeeper`" + ` says what a taint would do before it is set. Only ` + "`taint`, `untaint`, `pause` and `resume`" + ` change anything, and
only ` + "`pause` and `resume`" + ` need something installed in the cluster. Every command that reads, except
` + "`board`" + `, also takes files (` + "`-f`" + `): the output of
` + "`kubectl get nodes,pods,pdb,replicasets -A -o yaml` or of `kubectl taintkeeper snapshot`" + `.

Exit codes: 0 means success, 1 failure (stderr says why), and 2 a wrong command line. Commands list any others.
`

// Commands returns the page of the commands.
func Commands() []byte {
	root := cmd.New(cmd.Env{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Clock: clock.RealClock{}})
	p := &page{takers: map[flagKey]int{}}
	p.collect(root)
	p.WriteString(head)
	for _, command := range root.Commands() {
		p.command(command, "##")
	}
	p.shared()
	return p.Bytes()
}

// page is the page of the commands while it is being written.
type page struct {
	bytes.Buffer

	flags  []*pflag.Flag   // of all commands, each once
	takers map[flagKey]int // how many commands take a flag
}

// flagKey is what a reader sees of a flag. A flag of the same name can mean something else to another command.
type flagKey struct{ name, value, usage string }

func keyOf(flag *pflag.Flag) flagKey { return flagKey{flag.Name, flag.DefValue, flag.Usage} }

// collect counts how many commands take each flag.
func (p *page) collect(command *cobra.Command) {
	for _, sub := range command.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		for _, flag := range flagsOf(sub) {
			key := keyOf(flag)
			if p.takers[key] == 0 {
				p.flags = append(p.flags, flag)
			}
			p.takers[key]++
		}
		p.collect(sub)
	}
}

// flagsOf returns the flags of a command that users see, without those of every command.
func flagsOf(command *cobra.Command) (flags []*pflag.Flag) {
	command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			flags = append(flags, flag)
		}
	})
	return flags
}

// isShared reports whether a flag is described once for all commands that take it.
func (p *page) isShared(flag *pflag.Flag) bool { return p.takers[keyOf(flag)] > 2 }

func (p *page) command(command *cobra.Command, heading string) {
	if !command.IsAvailableCommand() {
		return
	}
	fmt.Fprintf(p, "\n%s %s\n\n%s\n", heading, command.Name(), blocks(cmp.Or(command.Long, command.Short+".")))
	if command.Runnable() {
		fmt.Fprintf(p, "\n    %s\n", strings.TrimSuffix(command.UseLine(), " [flags]"))
	}
	if command.Example != "" {
		fmt.Fprintf(p, "\n```sh\n%s\n```\n", unindent(command.Example))
	}
	var own, shared []string
	for _, flag := range flagsOf(command) {
		if p.isShared(flag) {
			shared = append(shared, nameOf(flag))
			continue
		}
		own = append(own, row(flag))
	}
	if len(own) > 0 {
		fmt.Fprintf(p, "\n| flag | default | |\n| --- | --- | --- |\n%s", strings.Join(own, ""))
	}
	if len(shared) > 0 {
		fmt.Fprintf(p, "\n[Shared flags](#shared-flags): %s\n", strings.Join(shared, " · "))
	}
	for _, sub := range command.Commands() {
		p.command(sub, heading+"#")
	}
}

// shared describes the flags that several commands take.
func (p *page) shared() {
	p.WriteString("\n## Shared flags\n\nEvery command also takes kubectl's flags that select a cluster and its credentials, such as `--context` and " +
		"`-n`.\n`kubectl taintkeeper options` lists them.\n\n| flag | default | |\n| --- | --- | --- |\n")
	for _, flag := range p.flags {
		if p.isShared(flag) {
			p.WriteString(row(flag))
		}
	}
}

// blocks turns help into Markdown: lines that are indented in the help become a block, unless they continue a list
// item.
func blocks(help string) string {
	var out []string
	block, item := false, false
	for line := range strings.SplitSeq(help, "\n") {
		indented := strings.HasPrefix(line, "  ")
		item = strings.HasPrefix(line, "- ") || item && indented
		before := block
		block = indented && !item
		if block && !before {
			out = append(out, "")
		}
		if block {
			line = "  " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func unindent(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(lines, "\n")
}

func nameOf(flag *pflag.Flag) string {
	name := "`--" + flag.Name + "`"
	if flag.Shorthand != "" {
		name += ", `-" + flag.Shorthand + "`"
	}
	return name
}

func row(flag *pflag.Flag) string {
	return fmt.Sprintf("| %s | %s | %s |\n", nameOf(flag), defaultOf(flag), cell(flag.Usage))
}

// defaultOf leaves out empty defaults.
func defaultOf(flag *pflag.Flag) string {
	switch flag.DefValue {
	case "", "[]", "false", "0":
		return ""
	}
	return "`" + flag.DefValue + "`"
}

func cell(text string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) }
