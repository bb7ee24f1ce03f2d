// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Program proofs is behind make test and make proofs. It builds what is needed with make, runs everything even if some
// of it fails, and ends with a table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// options are what the command line says.
type options struct {
	test, list bool
	only       []string
	args       []string
	seed       string
	table      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return true, nil
	case err != nil:
		return false, err
	case o.list:
		return true, list(out)
	case o.test:
		return runTests(ctx, out)
	}
	return runProofs(ctx, o, out)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("proofs", flag.ContinueOnError)
	flags.BoolVar(&o.test, "test", false, "run what make test runs, instead of proofs")
	flags.BoolVar(&o.list, "l", false, "list the proofs with the minutes that each takes")
	only := flags.String("only", "", "proofs to run, separated by commas; the default is all")
	folder := flags.String("for", "", "run the proofs that a change in this folder needs")
	flags.StringVar(&o.seed, "seed", "", "seed of the proofs that have one")
	flags.StringVar(&o.table, "table", "bin/proofs.md", "file for the table of results")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.args = flags.Args(); *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if *folder != "" {
		if o.only != nil {
			return o, errors.New("choose proofs either by their names (ONLY) or by a folder (FOR)")
		}
		if _, err := os.Stat(*folder); err != nil {
			return o, fmt.Errorf("FOR wants a folder or a file of this repository: %w", err)
		}
		if o.only = forFolder(*folder); len(o.only) == 0 {
			return o, fmt.Errorf("a change in %s needs no proof besides make test", *folder)
		}
	}
	return o, o.validate()
}

func (o options) validate() error {
	for _, name := range o.only {
		if _, ok := find(name); !ok {
			return fmt.Errorf("there is no proof %q: choose from %s", name, strings.Join(names(), ", "))
		}
	}
	if len(o.args) > 0 && len(o.only) != 1 {
		return fmt.Errorf("%q would be ARGS of every proof: choose one with ONLY", o.args)
	}
	if slices.ContainsFunc(o.args, func(arg string) bool { return strings.Contains(arg, "-seed") }) {
		return errors.New("use SEED=... instead of -seed in ARGS, so that the table of results has it")
	}
	return nil
}

// chosen returns the proofs to run, in their usual order.
func (o options) chosen() []proof {
	return slices.DeleteFunc(slices.Clone(proofs), func(p proof) bool {
		if o.only == nil {
			return p.onDemand
		}
		return !slices.Contains(o.only, p.name)
	})
}

func list(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROOF\tMINUTES\tSEED\tWHAT IT PROVES")
	minutes := map[pace]int{} // computing is done before the others are
	for _, p := range proofs {
		says := p.says
		switch {
		case p.onDemand:
			says += "; only if named"
		case p.pace == waits:
			says += "; next to others that wait"
			minutes[waits] = max(minutes[waits], p.minutes)
		case p.pace == computes:
			says += "; next to all others, at the lowest priority"
		default:
			minutes[""] += p.minutes
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", p.name, p.minutes, p.describeSeed(), says)
	}
	fmt.Fprintf(table, "all\t%d\t\ton two cores, once everything is built\n", minutes[""]+minutes[waits])
	return table.Flush()
}
