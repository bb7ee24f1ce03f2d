// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestProcessorTimeOfTheServer(t *testing.T) {
	got, err := parseServerCPU("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n")
	if err != nil || got != 12500*time.Millisecond {
		t.Errorf("got %s, %v; want 12.5s", got, err)
	}
	if _, err := parseServerCPU("go_goroutines 7\n"); err == nil {
		t.Error("a missing metric returns no error")
	}
}
