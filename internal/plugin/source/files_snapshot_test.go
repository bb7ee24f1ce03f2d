// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestWhatOneOfTwoSnapshotsLacksIsUnknown(t *testing.T) {
	const (
		lacking = `{"kind":"Snapshot","apiVersion":"cli.taintkeeper.dev/v1alpha1","at":"2026-11-22T09:00:00.000000Z","unread":["poddisruptionbudgets","evictionpolicies"]}`
		whole   = `{"kind":"Snapshot","apiVersion":"cli.taintkeeper.dev/v1alpha1","at":"2026-11-22T09:00:00.000000Z"}`
		end     = `{"kind":"SnapshotEnd","apiVersion":"cli.taintkeeper.dev/v1alpha1","objects":0}`
		node    = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`
	)
	for name, lines := range map[string][]string{
		"the first":  {lacking, end, whole, end, node},
		"the second": {whole, end, lacking, end, node},
	} {
		t.Run(name, func(t *testing.T) {
			files := resource.FilenameOptions{Filenames: []string{"-"}}
			cluster, err := source.ReadFiles(strings.NewReader(strings.Join(lines, "\n")), files, source.Wants{})
			if err != nil {
				t.Fatal(err)
			}
			if cluster.Knows(state.Budgets.Resource) || cluster.Knows(state.Policies.Resource) {
				t.Errorf("unknown are %+v, want budgets and policies", cluster.Unknown)
			}
		})
	}
}
