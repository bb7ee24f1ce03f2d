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

// An operator's StatefulSet has a controller. Its pods still belong to the StatefulSet, and check reads its template.
func TestTheControllerOfAStatefulSetIsNotTheOwnerOfItsPods(t *testing.T) {
	const files = `
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: db, name: pg, uid: pg, ownerReferences: [{apiVersion: acid.zalan.do/v1, kind: postgresql, name: main, uid: main, controller: true}]}
spec: {template: {metadata: {labels: {app: pg}}, spec: {containers: []}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: db, name: pg-0, uid: pg-0, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: pg, uid: pg, controller: true}]}
spec: {nodeName: node-1, containers: []}
`
	read := func(wanted source.Wants) (owner string, templates int) {
		cluster, err := source.ReadFiles(strings.NewReader(files), resource.FilenameOptions{Filenames: []string{"-"}}, wanted)
		if err != nil {
			t.Fatal(err)
		}
		is := cluster.Owner(cluster.Pods[0])
		return is.Kind + " " + is.Name, len(cluster.Workloads)
	}
	if owner, _ := read(source.Wants{}); owner != "StatefulSet pg" {
		t.Errorf("the owner is %s, want StatefulSet pg", owner)
	}
	if _, templates := read(source.Wants{Templates: true}); templates != 1 {
		t.Errorf("check reads %d templates, want 1", templates)
	}
}

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
