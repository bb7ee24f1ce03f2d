// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package wallclock

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reading is what the program in testdata says about its clocks.
type reading struct {
	Wall    time.Time
	Slept   time.Duration // by the monotonic clock, with the wall clock set in the middle
	Elapsed time.Duration // by the wall clock
}

// watcher is a running process that reads its clocks whenever it is asked.
type watcher struct {
	asks    io.Writer
	answers *bufio.Scanner
}

func startWatcher(t *testing.T, binary string, clock *Clock) *watcher {
	t.Helper()
	program := exec.CommandContext(context.WithoutCancel(t.Context()), binary) // it ends with its input
	program.Env = append(os.Environ(), clock.Env())
	program.Stderr = os.Stderr
	asks, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = asks.Close()
		if err := program.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &watcher{asks: asks, answers: bufio.NewScanner(answers)}
}

// read asks for a reading, and sets the clock while the program sleeps.
func (w *watcher) read(t *testing.T, during func()) reading {
	t.Helper()
	w.ask(t)
	if !w.answers.Scan() || w.answers.Text() != "sleeping" {
		t.Fatalf("the program says %q, %v", w.answers.Text(), w.answers.Err())
	}
	during()
	w.ask(t)
	var r reading
	if !w.answers.Scan() {
		t.Fatalf("the program ended: %v", w.answers.Err())
	}
	if err := json.Unmarshal(w.answers.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *watcher) ask(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(w.asks, "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestTheWallClockOfAProcessIsSetWhileItsMonotonicClockContinues(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "clocks")
	if err := Build(t.Context(), binary, "./testdata/clocks"); err != nil {
		t.Fatal(err)
	}
	if err := Check(binary); err != nil {
		t.Error(err)
	}
	clock, err := New(filepath.Join(dir, "offset"))
	if err != nil {
		t.Fatal(err)
	}
	defer clock.Close()
	running := startWatcher(t, binary, clock)

	const near = 10 * time.Second // the machine may be busy
	before := time.Duration(0)
	for _, offset := range []time.Duration{0, 5 * time.Minute, -5*time.Minute - 300*time.Millisecond, 0} {
		r := running.read(t, func() { clock.Set(offset) })
		if off := time.Until(r.Wall) - offset; off < -near || off > near {
			t.Errorf("set by %s, the wall clock is wrong by %s", offset, time.Until(r.Wall))
		}
		if r.Slept < 0 || r.Slept > near {
			t.Errorf("set by %s, a measured duration was %s", offset, r.Slept)
		}
		if step := r.Elapsed - (offset - before); step < -near || step > near {
			t.Errorf("set from %s to %s, the wall clock went on by %s", before, offset, r.Elapsed)
		}
		before = offset
	}
}

func TestAProgramWhoseClockCannotBeSetIsRefused(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{plain, plain + "-that-is-missing"} {
		if err := Check(program); err == nil {
			t.Errorf("%s is accepted", program)
		}
	}
}

func TestAPackageTimeThatReadsItsClockElsewhereIsRefused(t *testing.T) {
	for _, source := range []string{"package time", strings.Repeat("sec, nsec, mono := runtimeNow()\n", 2)} {
		if _, err := redirectNow([]byte(source)); err == nil {
			t.Errorf("%q is accepted", source)
		}
	}
}
