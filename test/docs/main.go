// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command docs runs the commands of the README and of docs/ as they are printed: `make docs-run`. A page is a story on a
// control plane of its own, in whose order its commands run. What the page presupposes, and what its placeholders stand
// for, is in pages.go. A page says in a comment before a block which of its commands cannot run here, and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// report is what was found on pages.
type report struct{ wrong, notRun []string }

func (r *report) add(other report) {
	r.wrong, r.notRun = append(r.wrong, other.wrong...), append(r.notRun, other.notRun...)
}

func main() {
	suite.SilenceLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

// run reads some pages, or all.
func run(ctx context.Context, pages []string) error {
	var found report
	for _, s := range stories {
		if len(pages) > 0 && !slices.Contains(pages, s.page) {
			continue
		}
		fmt.Printf("%s %s\n", s.page, s.only)
		of, err := s.read(ctx)
		found.add(of)
		if err != nil {
			found.wrong = append(found.wrong, err.Error())
		}
	}
	fmt.Println("\nNot run:")
	for _, command := range found.notRun {
		fmt.Println("  " + command)
	}
	if len(found.wrong) == 0 {
		return ctx.Err()
	}
	fmt.Println("\nWrong:")
	for _, wrong := range found.wrong {
		fmt.Println(wrong)
	}
	return errors.New("the pages have commands that do not run as printed")
}
