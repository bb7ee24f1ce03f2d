// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

func TestMain(m *testing.M) {
	silenceLogs()
	os.Exit(m.Run())
}

// TestAShortChaosLosesNothing is a short run of the whole program.
func TestAShortChaosLosesNothing(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "taintkeeper")
	if err := wallclock.Build(t.Context(), binary, "github.com/taintkeeper/taintkeeper/cmd/taintkeeper"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cfg := config{duration: 50 * time.Second, seed: 1, taintkeeper: binary, out: &out}
	clean, err := run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !clean {
		t.Fatalf("what went wrong, with the seed in the first line:\n%s", out.String())
	}
	for _, verdict := range []string{"lost    0", "late    0", "early   0", "wrong   0", "twice   0", "foreign 0"} {
		if !strings.Contains(out.String(), verdict) {
			t.Errorf("the verdict %q is missing", verdict)
		}
	}
	t.Log(out.String())
}
