// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command defects plays each defect of kube-controller-manager's taint eviction that Taintkeeper fixes, one scenario
// per row of the table in docs/defects.md, to both, each on its own real API server: `make defects`. It prints what it
// saw, and writes that page with -write.
//
// It exits with 0 when Taintkeeper was right in every scenario, whatever upstream did, and with 1 otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

func main() { os.Exit(runUntilSignal()) }

func runUntilSignal() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "defects: %v\n", err)
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return exitFailed
}

const (
	exitFailed      = 1
	exitInterrupted = 130
)

func run(ctx context.Context) error {
	silenceLogs()
	o, err := parseFlags()
	if err != nil {
		return err
	}
	r, err := compare(ctx, o)
	if err != nil {
		return err
	}
	printResults(os.Stdout, r)
	return errors.Join(r.wrong(), writeDocument(o, r))
}

// silenceLogs keeps the clients of this program from writing about clusters that end.
func silenceLogs() {
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
}

// options are the flags.
type options struct {
	only numbers
	// coexist plays ours next to a kube-controller-manager that also evicts, and does not play that one alone.
	coexist bool
	ours    string
	plane   string
	// The same programs, built so that their wall clock can be set.
	settableOurs, settablePlane string
	file                        string
	machine                     string
	progress                    io.Writer
}

// numbers is a flag with several numbers, separated by commas.
type numbers []int

func (n *numbers) String() string { return strings.Trim(fmt.Sprint(*n), "[]") }

// Set implements flag.Value.
func (n *numbers) Set(value string) error {
	for text := range strings.SplitSeq(value, ",") {
		number, err := strconv.Atoi(text)
		if err != nil || !slices.ContainsFunc(rows(), func(r row) bool { return r.number == number }) {
			return fmt.Errorf("there is no scenario %q; choose from 1 to %d", text, len(rows()))
		}
		*n = append(*n, number)
	}
	return nil
}

// notNextToBuiltIn are not played there: the built-in still writes its own "Marking for deletion" events, and node
// health needs its node-lifecycle controller off.
var notNextToBuiltIn = []int{14, 23, 24}

func (o options) chosen(number int) bool {
	if o.coexist && slices.Contains(notNextToBuiltIn, number) {
		return false
	}
	return len(o.only) == 0 || slices.Contains(o.only, number)
}

func parseFlags() (options, error) {
	o := options{progress: os.Stderr}
	flag.Var(&o.only, "only", "numbers of the scenarios to run, separated by commas; all by default")
	flag.BoolVar(&o.coexist, "coexist", false, "run them only with taintkeeper, next to a kube-controller-manager that also evicts")
	flag.StringVar(&o.ours, "taintkeeper", "bin/taintkeeper", "the program to test")
	flag.StringVar(&o.plane, "controlplane", localcluster.DefaultBinaries(),
		"folder with the binaries of the control plane")
	flag.StringVar(&o.settableOurs, "settable-taintkeeper", "bin/chaos-taintkeeper",
		"the program, with a wall clock that can be set")
	flag.StringVar(&o.settablePlane, "settable-kube-controller-manager", "bin/settable-kube-controller-manager", "kube-controller-manager, with a wall clock that can be set")
	flag.StringVar(&o.file, "write", "", "file to write the results to as Markdown, for example docs/defects.md")
	flag.StringVar(&o.machine, "machine", fmt.Sprintf("%d processors, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), "description of the machine, for the file of -write")
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("%q: only flags are accepted; see -help", flag.Args())
	}
	if o.file != "" && len(o.only) > 0 {
		return o, errors.New("-write and -only: the file holds all scenarios; remove one of the two")
	}
	if o.file != "" && o.coexist {
		return o, errors.New("-write and -coexist: the file is about both contestants, each by itself; remove one of the two")
	}
	return o, o.resolve()
}

// resolve makes the paths absolute, because a program with a name like bin/taintkeeper is looked up in the working
// directory of the process that starts it.
func (o *options) resolve() error {
	for _, path := range []*string{&o.ours, &o.plane, &o.settableOurs, &o.settablePlane} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = absolute
	}
	return nil
}

// writeDocument writes the file that is asked for. Scenarios that could not be played would be missing from it.
func writeDocument(o options, r report) error {
	if o.file == "" {
		return nil
	}
	if err := r.incomplete(); err != nil {
		return fmt.Errorf("%s is not written: %w", o.file, err)
	}
	if err := os.WriteFile(o.file, []byte(document(r, o.machine)), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
