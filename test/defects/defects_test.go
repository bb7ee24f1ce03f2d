// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
)

// TestEveryDefectIsUpstreamsAndNotOurs plays all scenarios once, as the program does. It needs bin/taintkeeper and
// bin/controlplane: make build controlplane.
func TestEveryDefectIsUpstreamsAndNotOurs(t *testing.T) {
	silenceLogs()
	o := options{ours: "../../bin/taintkeeper", plane: "../../bin/controlplane", progress: t.Output()}
	if err := o.resolve(); err != nil {
		t.Fatal(err)
	}
	r, err := compare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.results) != len(rows()) {
		t.Errorf("%d of %d scenarios were played", len(r.results), len(rows()))
	}
	for _, result := range r.results {
		t.Run(fmt.Sprintf("%d %s", result.number, result.scenario), func(t *testing.T) {
			if !result.ours.isRight() {
				t.Errorf("ours: %s", result.ours)
			}
			// Every defect is certain in its scenario: where upstream is right, the scenario proves nothing.
			if result.upstream.err != nil || result.upstream.right {
				t.Errorf("upstream: %s", result.upstream)
			}
		})
	}
}
