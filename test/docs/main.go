// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command docs runs the kubectl and helm commands of the README and of docs/ as they are printed: `make docs-run`, in
// the order of the page, on a control plane. What a page presupposes, and what its placeholders stand for, is in
// pages.go. A comment before a block of commands says which of them cannot run here, and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
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
	for _, page := range pages {
		if !slices.ContainsFunc(stories, func(s story) bool { return slices.Contains(s.pages, page) }) {
			return fmt.Errorf("%s is in no story of pages.go", page)
		}
	}
	for _, s := range stories {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		chosen := func(page string) bool { return slices.Contains(pages, page) }
		if len(pages) > 0 && !slices.ContainsFunc(s.pages, chosen) {
			continue
		}
		fmt.Println(strings.Join(slices.Concat(s.pages, s.only), ", "))
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
