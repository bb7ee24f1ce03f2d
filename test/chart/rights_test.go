// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// clusterRights returns what the ClusterRole of a release grants, without events and what guards metrics.
func clusterRights(t *testing.T, v values) []string {
	t.Helper()
	var rights []string
	role := the[*rbacv1.ClusterRole](t, rendered(t, v.with(values{"metrics": values{"expose": false}})), "taintkeeper")
	for _, rule := range role.Rules {
		if resource := rule.Resources[0]; resource != "events" {
			rights = append(rights, strings.Join(rule.Verbs, " ")+" "+resource)
		}
	}
	return rights
}

func TestEachControllerHasItsOwnRights(t *testing.T) {
	const (
		seePods, evict, mark         = "list watch pods", "get list watch delete pods", "patch pods/status"
		seeNodes, readNodes, write   = "list watch nodes", "get list watch nodes", "get list watch patch nodes"
		conditions, rules, ruleState = "patch nodes/status", "list watch patch nodetaintrules", "patch nodetaintrules/status"
	)
	run := func(controllers ...any) values { return enforce.with(values{"controllers": list(controllers...)}) }
	neverStamps := alone.with(values{"stampTaints": false})
	for _, tt := range []struct {
		name   string
		values values
		want   []string
	}{
		{"shadow mode", shadow, []string{seePods, seeNodes}},
		{"the default in enforce mode", enforce, []string{evict, mark, write, rules, ruleState}},
		{"evictions", run("eviction"), []string{evict, mark, write}},
		{"evictions without stamps", run("eviction").with(neverStamps), []string{evict, mark, readNodes}},
		{"rules and evictions without stamps", enforce.with(neverStamps), []string{evict, mark, write, rules, ruleState}},
		{"rules", run("node-taint-rule"), []string{write, rules, ruleState}},
		{"node health", run("node-health"), []string{seePods, mark, write, conditions}},
		{"everything", run("eviction", "node-health", "node-taint-rule"), []string{evict, mark, write, conditions, rules, ruleState}},
		{"rules without the resource of the chart", enforce.with(values{"crds": values{"install": false}}), []string{evict, mark, write, rules, ruleState}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := clusterRights(t, tt.values); !slices.Equal(got, tt.want) {
				t.Errorf("it may\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

func TestOnlyNodeHealthHasRightsToLeasesOfNodes(t *testing.T) {
	for _, controller := range []string{"eviction", "node-taint-rule", "node-health"} {
		objects, err := config.Objects([]byte(rendered(t, enforce.with(values{"controllers": list(controller)})).Manifest()))
		await.Must(t, err)
		found := false
		for _, object := range objects {
			found = found || object.GetNamespace() == "kube-node-lease"
		}
		if want := controller == "node-health"; found != want {
			t.Errorf("%s: there are rights in kube-node-lease: %t", controller, found)
		}
	}
}

func TestRulesAreFollowedByDefaultInEnforceModeAlone(t *testing.T) {
	flags := func(v values) []string {
		return the[*appsv1.Deployment](t, rendered(t, v), "taintkeeper").Spec.Template.Spec.Containers[0].Args
	}
	if args := flags(enforce); !slices.Contains(args, "--controllers=eviction,node-taint-rule") {
		t.Errorf("enforce mode runs with %q", args)
	}
	if args := flags(shadow); !slices.Contains(args, "--shadow") || slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--controllers")
	}) {
		t.Errorf("shadow mode runs with %q", args)
	}
}
