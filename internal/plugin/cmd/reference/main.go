// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command reference prints docs/commands.md, which cobra writes from the commands. It is a program of its own because
// the plugin does not need cobra's generator.
package main

import (
	"bytes"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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

Exit codes: 0 means success, 1 failure (stderr says why), and 2 an invalid command line. Commands list any others.

Every command also takes kubectl's flags that select a cluster and its credentials, such as
` + "`--context` and `-n`" + `.
` + "`kubectl taintkeeper options`" + ` lists them. Commands that take files have these:

`

// shared are the flags that are not repeated for each command.
var shared = []string{"filename", "recursive", "at"}

func main() {
	if _, err := os.Stdout.Write(page()); err != nil {
		os.Exit(1)
	}
}

// page returns all commands as one page. Flags of many commands are there once.
func page() []byte {
	root := cmd.New(cmd.Env{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Clock: clock.RealClock{}})
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	once := pflag.NewFlagSet("", pflag.ContinueOnError)
	commands := slices.DeleteFunc(root.Commands(), func(c *cobra.Command) bool { return !c.IsAvailableCommand() })
	for _, command := range commands {
		for _, name := range shared {
			flag := command.Flags().Lookup(name)
			if flag == nil || flag.Hidden {
				continue
			}
			if once.Lookup(name) == nil {
				shown := *flag
				once.AddFlag(&shown)
			}
			flag.Hidden = true
		}
	}
	all := bytes.NewBufferString(head + "```\n" + once.FlagUsages() + "```\n\n")
	for _, command := range commands {
		command.InitDefaultHelpFlag()
		command.Flags().Lookup("help").Hidden = true
		var one bytes.Buffer
		_ = doc.GenMarkdown(command, &one) // a buffer takes everything
		text, _, _ := bytes.Cut(one.Bytes(), []byte("### SEE ALSO"))
		all.Write(bytes.ReplaceAll(text, []byte("## "+root.CommandPath()+" "), []byte("## ")))
	}
	return append(bytes.TrimRight(all.Bytes(), "\n"), '\n')
}
