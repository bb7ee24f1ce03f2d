// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build builds a program whose wall clock can be set while it runs, as make chaos and make defects need it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: build <output> <package> [<flag of go build>...], for example: build bin/chaos-taintkeeper ./cmd/taintkeeper")
		os.Exit(2)
	}
	if err := wallclock.Build(context.Background(), os.Args[1], os.Args[2], os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
