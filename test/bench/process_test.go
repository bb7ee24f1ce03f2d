// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestMemoryIsReadInBytes(t *testing.T) {
	const status = "Name:\ttaintkeeper\nVmPeak:\t 1264668 kB\nVmHWM:\t   47104 kB\nVmRSS:\t   46080 kB\n"
	if got, want := parseMemory(status), (memory{Peak: 46 << 20, Resident: 45 << 20}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestProcessorTimeIsUserAndSystemTime(t *testing.T) {
	for name, test := range map[string]struct {
		stat string
		want time.Duration
	}{
		"a plain name":             {"7 (x) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 1 1 1", 2 * time.Second},
		"blanks in the name":       {"7 (a b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 1 1 1", 2 * time.Second},
		"a line that is cut short": {"7 (x) S 1", 0},
		"a process that has ended": {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseCPU(test.stat); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestProcessorTimeOfTheServer(t *testing.T) {
	got, err := parseServerCPU("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n")
	if err != nil || got != 12500*time.Millisecond {
		t.Errorf("got %s, %v; want 12.5s", got, err)
	}
	if _, err := parseServerCPU("go_goroutines 7\n"); err == nil {
		t.Error("a missing metric is no error")
	}
}
