// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

const root = "../.."

// settableManager is where make builds a kube-controller-manager of the chosen version whose clock can be set.
func settableManager() string {
	version := strings.TrimPrefix(filepath.Base(localcluster.DefaultBinaries()), "controlplane")
	return filepath.Join(root, "bin", "settable-kube-controller-manager"+version)
}

// TestEveryDefectIsUpstreamsAndNotOurs plays all scenarios once, as the program does. It needs bin/taintkeeper and
// bin/controlplane: make build controlplane. Scenarios that need a kube-controller-manager whose clock can be set,
// which takes minutes to build, are played with it only where make defects has built it.
func TestEveryDefectIsUpstreamsAndNotOurs(t *testing.T) {
	silenceLogs()
	o := options{
		ours: filepath.Join(root, "bin/taintkeeper"), settableOurs: filepath.Join(t.TempDir(), "taintkeeper"),
		plane: filepath.Join(root, localcluster.DefaultBinaries()), settablePlane: settableManager(),
		progress: t.Output(),
	}
	if err := wallclock.Build(t.Context(), o.settableOurs, "github.com/taintkeeper/taintkeeper/cmd/taintkeeper"); err != nil {
		t.Fatal(err)
	}
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
			if result.section != keeps && (result.upstream.err != nil || result.upstream.Right) {
				t.Errorf("upstream: %s", result.upstream)
			}
		})
	}
}
