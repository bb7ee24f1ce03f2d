// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is for tests that share a control plane and programs that are built from these sources: it sets up what
// they share, runs them, and takes it down again, also after Ctrl-C.
package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// Suite is what the tests of a package share.
type Suite struct {
	// Dir is a folder that is removed at the end.
	Dir string

	ends []func() error
}

// Run runs tests, usually a *testing.M, after start has set up what they share, and returns the exit code. The context
// ends on a signal, or when Run returns.
func Run(tests interface{ Run() int }, start func(context.Context, *Suite) error) int {
	flag.Parse()
	SilenceLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := (&Suite{}).run(ctx, tests, start)
	if err != nil {
		fmt.Fprintln(os.Stderr, "shared setup of the tests:", err)
		return max(code, 1)
	}
	return code
}

func (s *Suite) run(ctx context.Context, tests interface{ Run() int }, start func(context.Context, *Suite) error,
) (code int, err error) {
	if s.Dir, err = os.MkdirTemp("", "taintkeeper-tests-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.end(), os.RemoveAll(s.Dir)) }()
	if err := start(ctx, s); err != nil {
		return 1, fmt.Errorf("set it up: %w", err)
	}
	return tests.Run(), nil
}

// Finally lets something happen after the tests, or after a start that failed: what was added last comes first. An
// error fails the run.
func (s *Suite) Finally(end func() error) { s.ends = append(s.ends, end) }

func (s *Suite) end() error {
	var all []error
	for _, end := range slices.Backward(s.ends) {
		all = append(all, end())
	}
	return errors.Join(all...)
}

// StartCluster starts a cluster that ends after the tests, and makes its administrator's client. Ctrl-C does not end it
// before. Its [localcluster.Cluster.Stalls] are measured from the start.
func (s *Suite) StartCluster(ctx context.Context, cfg localcluster.Config,
) (*localcluster.Cluster, kubernetes.Interface, error) {
	cluster, err := localcluster.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, nil, err
	}
	s.Finally(cluster.Stop)
	cluster.Stalls() // from now on
	admin, err := kubernetes.NewForConfig(cluster.AdminConfig())
	return cluster, admin, err
}

// Build builds a program of cmd/ from these sources into a folder, and returns its path. The flags are for go build.
func Build(ctx context.Context, folder, program string, flags ...string) (string, error) {
	path := filepath.Join(folder, program)
	source := "github.com/taintkeeper/taintkeeper/cmd/" + program
	args := slices.Concat([]string{"build"}, flags, []string{"-o", path, source})
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, output)
	}
	return path, nil
}

// WaitTogether lets more tests run at once than there are processors, for tests that wait most of the time and compute
// little. A -parallel of the user's wins.
func WaitTogether(count int) error {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(count))
}

// SilenceLogs keeps client-go and controller-runtime from writing into the output of the tests. Those that are about
// logs bring a logger of their own.
func SilenceLogs() {
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
}

// Whole reports whether all tests of the package are run, and not some that were chosen. Only then is it known what no
// test did.
func Whole() bool {
	return !slices.ContainsFunc([]string{"test.run", "test.skip", "test.list"}, func(name string) bool {
		f := flag.Lookup(name)
		return f != nil && f.Value.String() != ""
	})
}
