// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// result is how a proof went.
type result struct {
	proof
	took    time.Duration
	err     error
	skipped string // why it cannot run here
}

func (r result) word() string {
	switch {
	case r.err != nil:
		return "FAIL"
	case r.skipped != "":
		return "skipped: " + r.skipped
	default:
		return "ok"
	}
}

// runProofs runs the chosen proofs. Those that compute run meanwhile, and those that wait run side by side at the end.
// One that fails does not stop the others.
func runProofs(ctx context.Context, o options, out io.Writer) (ok bool, err error) {
	r := &running{options: o, out: &lines{to: out}, chosen: o.chosen(), began: time.Now()}
	r.results = make([]result, len(r.chosen))
	var meanwhile, waiting sync.WaitGroup
	meanwhile.Go(func() { r.each(ctx, computes) })
	r.each(ctx, "")
	for i, p := range r.chosen {
		if p.pace == waits {
			waiting.Go(func() { r.one(ctx, i) })
		}
	}
	waiting.Wait()
	meanwhile.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	text, err := os.ReadFile(o.table)
	fmt.Fprintf(out, "\n%s", text)
	return !r.failed, errors.Join(r.err, err)
}

// running is a run of some proofs.
type running struct {
	options

	chosen []proof
	out    *lines
	began  time.Time

	building sync.Mutex // by one make at a time

	mu      sync.Mutex
	results []result // of the chosen ones, empty as long as there is none
	failed  bool
	err     error // of the table
}

// each runs the proofs of one pace one after the other.
func (r *running) each(ctx context.Context, pace pace) {
	for i, p := range r.chosen {
		if p.pace == pace {
			r.one(ctx, i)
		}
	}
}

// one runs a proof, unless the run was interrupted. What it prints follows in one piece if another might print
// meanwhile. The table is written after each proof, so that an interrupted run has one, too.
func (r *running) one(ctx context.Context, i int) {
	if ctx.Err() != nil {
		return
	}
	p, out := r.chosen[i], io.Writer(r.out)
	if _, err := strconv.ParseUint(p.seed, 10, 64); err == nil && r.seed != "" {
		p.seed = r.seed
	}
	title := fmt.Sprintf("==> %s: %s\n", p.name, p.says)
	if p.pace != "" && len(r.chosen) > 1 {
		fmt.Fprint(out, "==> meanwhile, "+strings.TrimPrefix(title, "==> "))
		whole := &bytes.Buffer{}
		defer func() { _, _ = r.out.Write(whole.Bytes()) }()
		out = whole
	}
	fmt.Fprint(out, title)
	found := r.result(ctx, p, out)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i] = found
	r.failed = r.failed || found.err != nil
	r.err = errors.Join(r.err, writeTable(ctx, r.table, time.Since(r.began), r.results))
}

// lines lets several proofs print.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(text)
}

// result runs the proof unless this machine cannot, and says how that went.
func (r *running) result(ctx context.Context, p proof, out io.Writer) result {
	if p.missing != nil {
		if why := p.missing(ctx); why != "" {
			fmt.Fprintf(out, "==> %s skipped: %s\n", p.name, why)
			return result{proof: p, skipped: why}
		}
	}
	r.building.Lock()
	err := p.build(ctx, out)
	r.building.Unlock()
	began := time.Now()
	if err == nil {
		err = p.run(ctx, r.args, out)
	}
	if err != nil {
		fmt.Fprintf(out, "==> %s failed: %v\n", p.name, err)
	}
	return result{proof: p, took: time.Since(began), err: err}
}

// run runs the packages and commands of the proof, all of them even if one fails.
func (p proof) run(ctx context.Context, args []string, out io.Writer) error {
	var failed []string
	for _, c := range p.steps(args) {
		if err := c.run(ctx, out); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", strings.Join(c.args, " "), err))
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return ctx.Err()
}

// steps are the commands to run, with everything put in.
func (p proof) steps(args []string) (all []command) {
	tests := in("", "go test -count=1").with(p.packages...)
	if len(p.flags) > 0 {
		tests = tests.with("-args").with(p.flags...)
	}
	switch {
	case len(args) > 0 && len(p.withArgs.args) > 0:
		all = []command{p.withArgs.with(args...)}
	case len(args) > 0:
		all = []command{tests.before("-v", "-timeout=0").with(args...)}
	case len(p.packages) > 0:
		all = append([]command{tests.before("-race", "-timeout=90m", "-p=1")}, p.commands...)
	default:
		all = slices.Clone(p.commands)
	}
	for i := range all {
		if all[i] = p.filled(all[i]); p.pace == computes {
			all[i].args = slices.Concat([]string{"nice", "-n", "19"}, all[i].args)
		}
	}
	return all
}

// before adds flags of go test.
func (c command) before(flags ...string) command {
	return command{c.dir, slices.Concat(c.args[:2], flags, c.args[2:])}
}

// with adds arguments.
func (c command) with(args ...string) command { return command{c.dir, slices.Concat(c.args, args)} }

// filled puts in the seed, and the names of binaries that depend on the version of Kubernetes, which make chose.
func (p proof) filled(c command) command {
	root, _ := os.Getwd() // it exists, as make changed into it
	names := strings.NewReplacer("{SEED}", p.seed, "{ROOT}", root,
		settable, "bin/settable-kube-controller-manager"+strings.TrimPrefix(filepath.Base(planeFolder()), "controlplane"))
	filled := command{dir: c.dir}
	for _, arg := range c.args {
		filled.args = append(filled.args, names.Replace(arg))
	}
	return filled
}

// planeFolder is where make built the chosen version of Kubernetes.
func planeFolder() string { return cmp.Or(os.Getenv("CONTROLPLANE"), "bin/controlplane") }

func (p proof) build(ctx context.Context, out io.Writer) error {
	if len(p.needs) == 0 {
		return nil
	}
	return p.filled(in("", "make --no-print-directory").with(p.needs...)).run(ctx, out)
}

// run runs a command and passes on an interrupt, after which the command has a while to clean up.
func (c command) run(ctx context.Context, out io.Writer) error {
	command := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	command.Dir = c.dir
	command.Stdout, command.Stderr = out, out
	command.Env = os.Environ()
	if c.dir != "" { // modules that import Kubernetes share what was compiled for the control plane, without cgo
		command.Env = append(command.Env, "CGO_ENABLED=0")
	}
	// What it started is interrupted, too, as go and make do not pass on a signal.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	return command.Run()
}

// writeTable writes the results so far as Markdown.
func writeTable(ctx context.Context, file string, took time.Duration, results []result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Proofs of %s on %d processors (%s/%s), %s, %s:\n\n", version(ctx), runtime.NumCPU(),
		runtime.GOOS, runtime.GOARCH, planeFolder(), time.Now().UTC().Format(time.DateOnly))
	text.WriteString("| proof | result | seconds | seed |\n| --- | --- | --: | --- |\n")
	for _, r := range results {
		if r.name == "" {
			continue
		}
		fmt.Fprintf(&text, "| %s | %s | %.0f | %s |\n", r.name, r.word(), r.took.Seconds(), r.describeSeed())
	}
	fmt.Fprintf(&text, "| all | | %.0f | |\n", took.Seconds())
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

func version(ctx context.Context) string {
	ctx = context.WithoutCancel(ctx) // also after an interrupt
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "(unknown)"
	}
	return strings.TrimSpace(string(out))
}
