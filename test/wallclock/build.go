// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package wallclock

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Build builds a program, named as for `go build`, with its flags, whose wall clock can be set by a [Clock]. The first
// build takes minutes: nearly every package depends on package time.
func Build(ctx context.Context, output, program string, flags ...string) error {
	dir, err := os.MkdirTemp("", "wallclock-")
	if err != nil {
		return fmt.Errorf("make a folder for package time: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // whatever is left of it bothers nobody
	overlay, err := writeOverlay(ctx, dir)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"build", "-overlay", overlay, "-o", output}, flags, []string{program})
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s with a wall clock that can be set: %w\n%s", program, err, said)
	}
	return nil
}

// Check returns an error if a program was not built by [Build], or is not there.
func Check(program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read a program: %w", err)
	}
	if !bytes.Contains(content, []byte(variable)) {
		return fmt.Errorf("the wall clock of %s cannot be set", program)
	}
	return nil
}

// writeOverlay writes the changed files of package time, and the file by which `go build -overlay` finds them.
func writeOverlay(ctx context.Context, dir string) (overlay string, err error) {
	said, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(said)), "src", "time")
	original, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", fmt.Errorf("read package time: %w", err)
	}
	changed, err := redirectNow(original)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, content := range map[string][]byte{"time.go": changed, "settable_now.go": settableNow()} {
		replace[filepath.Join(source, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", fmt.Errorf("write package time: %w", err)
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// redirectNow makes Now of package time, and nothing else of it, take the time from settableNow.
func redirectNow(original []byte) ([]byte, error) {
	from, to := []byte("sec, nsec, mono := runtimeNow()"), []byte("sec, nsec, mono := settableNow()")
	if n := bytes.Count(original, from); n != 1 {
		return nil, fmt.Errorf("package time of this Go version reads the clock in %d places instead of one: see how its Now works", n)
	}
	return bytes.Replace(original, from, to, 1), nil
}

//go:embed now.go.txt
var nowTemplate []byte

func settableNow() []byte {
	return bytes.ReplaceAll(nowTemplate, []byte("@VARIABLE@"), []byte(variable))
}
