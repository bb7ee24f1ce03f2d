// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// module is the path of the root module.
const module = "github.com/taintkeeper/taintkeeper"

// endToEnd is the only package of make test that needs a control plane, without its long stories. It usually waits, so
// the others run meanwhile.
const endToEnd = "./test/e2e"

// runTests runs what make test runs: the checks of files and all tests in virtual time, and the suite on a real control
// plane. All of it runs even if some fails.
func runTests(ctx context.Context, out io.Writer) (ok bool, err error) {
	packages, err := testPackages(ctx)
	if err != nil {
		return false, err
	}
	began := time.Now()
	meanwhile, err := os.Create("bin/test-virtual-time.log")
	if err != nil {
		return false, err
	}
	defer meanwhile.Close()
	virtual := make(chan error, 1)
	go func() {
		virtual <- errors.Join(
			in("", "make --no-print-directory verify-files").run(ctx, meanwhile),
			goTest("-race").with(packages...).run(ctx, meanwhile),
			goTest().with(withoutRace...).run(ctx, meanwhile),
		)
	}()
	failed := errors.Join(goTest("-race", "-v", endToEnd).run(ctx, out), <-virtual)
	log, err := os.ReadFile(meanwhile.Name())
	fmt.Fprintf(out, "%s\nall of it took %.0f s\n", log, time.Since(began).Seconds())
	if failed != nil {
		fmt.Fprintf(out, "failed: %v\n", failed)
	}
	return failed == nil, errors.Join(err, ctx.Err())
}

// withoutRace are packages that the race detector slows down too much: the first runs its own test binary several
// hundred times, and the second walks a hundred thousand states. The proof histories runs both with the race detector.
var withoutRace = []string{"./internal/plugin/cmd", "./test/explore/evictions"}

// goTest runs tests with fewer random histories. Results are not taken from a cache, as many tests run programs that it
// does not know. Without the race detector, it uses what was compiled for the product.
func goTest(args ...string) command {
	cgo := 0
	if slices.Contains(args, "-race") {
		cgo = 1
	}
	return in("", fmt.Sprintf("env CGO_ENABLED=%d go test -short -count=1 -timeout=30m", cgo)).with(args...)
}

// testPackages are all packages of the root module but those that are proofs of their own.
func testPackages(ctx context.Context) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "./...")
	list.Stderr = os.Stderr // says which modules are downloaded
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	apart := slices.Clone(withoutRace)
	for _, p := range proofs {
		apart = append(apart, p.packages...)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool {
		return slices.Contains(apart, "."+strings.TrimPrefix(pkg, module))
	}), nil
}
