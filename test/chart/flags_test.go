// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/taintkeeper/taintkeeper/test/chart/render"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// freeFlags are the flags that no other value sets, each with a value as Helm has it.
var freeFlags = values{
	"concurrent-evictions": int64(20), "kube-api-qps": 7.5, "kube-api-burst": float64(1000000),
	"feature-gates":               "TaintTolerationComparisonOperators=true",
	"leader-elect-lease-duration": "18s", "leader-elect-renew-deadline": "0.2m", "leader-elect-retry-period": "1500ms",
	"node-monitor-grace-period": "1h1m40s", "node-monitor-period": "1s", "node-startup-grace-period": "90s",
	"node-eviction-rate": 0.2, "secondary-node-eviction-rate": float64(0), "zone-full-disruption-eviction-rate": float64(-1),
	"large-cluster-size-threshold": float64(0), "unhealthy-zone-threshold": float64(1),
}

func TestEachFlagIsFreeOrNamesTheValueThatSetsIt(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(render.Folder(root), "values.schema.json"))
	await.Must(t, err)
	var schema struct {
		Properties struct {
			ExtraFlags struct {
				Properties map[string]struct{ Type string }
			}
		}
	}
	await.Must(t, json.Unmarshal(text, &schema))
	if len(schema.Properties.ExtraFlags.Properties) < len(freeFlags) {
		t.Errorf("the schema has only the flags %v", schema.Properties.ExtraFlags.Properties)
	}
	ofType := map[string]any{"boolean": true, "integer": 1, "number": 1, "string": "a"}
	for name, property := range schema.Properties.ExtraFlags.Properties {
		if _, free := freeFlags[name]; free {
			continue
		}
		_, err := render.Render(load(t), "kube-system", values{"extraFlags": values{name: ofType[property.Type]}}.plain())
		if err == nil || !strings.Contains(err.Error(), "extraFlags."+name+": this flag is set by ") {
			t.Errorf("--%s is in no test of values, and no other value sets it: %v", name, err)
		}
	}
}

func TestTheProgramTakesTheFlagsThatTheChartTakes(t *testing.T) {
	taintkeeper := program(t)
	for name, v := range map[string]values{
		"all at once":                      {"extraFlags": freeFlags},
		"the longest lease to coexist":     {"extraFlags": values{"leader-elect-lease-duration": "19.6s"}},
		"a longer one without":             alone.with(values{"extraFlags": values{"leader-elect-lease-duration": "5m"}}),
		"the longest deadline":             {"extraFlags": values{"leader-elect-renew-deadline": "14.999s"}},
		"the longest period":               alone.with(values{"extraFlags": values{"leader-elect-retry-period": "8.3s"}}),
		"the shortest lease":               {"extraFlags": values{"leader-elect-lease-duration": "1s", "leader-elect-renew-deadline": "500ms", "leader-elect-retry-period": "100ms"}},
		"no burst":                         {"extraFlags": values{"kube-api-burst": 0}},
		"the least rates":                  {"extraFlags": values{"node-eviction-rate": 1e-9, "zone-full-disruption-eviction-rate": 0, "unhealthy-zone-threshold": 1e-9}},
		"the longest of all durations":     {"extraFlags": values{"node-monitor-grace-period": "99999.9h999999.9m999999999.999s"}},
		"the largest numbers of all":       {"extraFlags": values{"kube-api-qps": 1e38, "kube-api-burst": 2147483647, "concurrent-evictions": 100, "large-cluster-size-threshold": 2147483647}},
		"a longer lease in shadow mode":    shadow.with(values{"extraFlags": values{"leader-elect-lease-duration": "30s"}}),
		"comparison operators switched on": {"extraFlags": values{"feature-gates": "TaintTolerationComparisonOperators=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := the[*appsv1.Deployment](t, rendered(t, enforce.with(v)), "taintkeeper")
			args := d.Spec.Template.Spec.Containers[0].Args
			if flags, ok := v["extraFlags"].(values); ok && !containsAll(args, asArguments(t, flags)) {
				t.Errorf("the flags %v became %q", flags, args)
			}
			if says := refusal(t, taintkeeper, args); says != "" {
				t.Errorf("the program refuses %q: %s", args, says)
			}
		})
	}
}

func TestTheChartRefusesTheFlagsThatTheProgramRefuses(t *testing.T) {
	taintkeeper := program(t)
	for _, tt := range []struct {
		name  string
		flags values
		says  string // empty if the chart says what the program says
	}{
		{"a flag that there is not", values{"evict-faster": true}, "'evict-faster' not allowed"},
		{"a flag that was abbreviated", values{"kube-api": 1}, "'kube-api' not allowed"},
		{"no evictions at the same time", values{"concurrent-evictions": 0}, "at '/extraFlags/concurrent-evictions': minimum"},
		{"too many of them", values{"concurrent-evictions": 101}, "at '/extraFlags/concurrent-evictions': maximum"},
		{"half an eviction", values{"concurrent-evictions": 1.5}, "want integer"},
		{"a number that is none", values{"concurrent-evictions": "many"}, "want integer"},
		{"more calls than a number holds", values{"kube-api-qps": 1e39}, "maximum"},
		{"less than no calls", values{"kube-api-qps": -1}, "minimum"},
		{"a burst less than none", values{"kube-api-qps": 1, "kube-api-burst": -1}, "minimum"},
		{"a burst of what is not limited", values{"kube-api-burst": 5}, ""},
		{"a duration without a unit", values{"node-monitor-grace-period": 30}, "got number, want string"},
		{"the same in a string", values{"node-monitor-grace-period": "30"}, "does not match pattern"},
		{"a duration in days", values{"node-monitor-grace-period": "1d"}, "does not match pattern"},
		{"no grace", values{"node-startup-grace-period": "0s"}, "does not match pattern"},
		{"less than none", values{"node-monitor-grace-period": "-5s"}, "does not match pattern"},
		{"a duration that is empty", values{"node-monitor-grace-period": ""}, "does not match pattern"},
		{"a duration beyond all", values{"node-monitor-grace-period": "9999999h"}, "does not match pattern"},
		{"a rate below the least", values{"node-eviction-rate": 1e-10}, "minimum"},
		{"a rate less than none", values{"secondary-node-eviction-rate": -1}, "minimum"},
		{"another rate less than none", values{"zone-full-disruption-eviction-rate": -2}, "minimum"},
		{"more than all nodes", values{"unhealthy-zone-threshold": 1.1}, "maximum"},
		{"a share of nothing", values{"unhealthy-zone-threshold": 0}, "minimum"},
		{"a zone of less than no nodes", values{"large-cluster-size-threshold": -1}, "minimum"},
		{"a zone that is too large", values{"large-cluster-size-threshold": 2147483648}, "maximum"},
		{"a feature gate that there is not", values{"feature-gates": "GracefulNodeShutdown=true"}, "does not match pattern"},
		{"a feature gate that may be on", values{"feature-gates": "TaintTolerationComparisonOperators=maybe"}, "does not match pattern"},
		{"a lease that outlasts the eviction clock", values{"leader-elect-lease-duration": "30s"}, ""},
		{"one that does so by a little", values{"leader-elect-lease-duration": "19.7s"}, ""},
		{"one that does so in minutes", values{"leader-elect-lease-duration": "0.5m"}, ""},
		{"tries that are too far apart for it", values{"leader-elect-retry-period": "4.1s"}, ""},
		{"a lease that ends before the deadline", values{"leader-elect-lease-duration": "10s"}, ""},
		{"a deadline after the lease", values{"leader-elect-renew-deadline": "15s"}, ""},
		{"a deadline before the second try", values{"leader-elect-renew-deadline": "2.4s"}, ""},
		{"a lease of less than a second", values{"leader-elect-lease-duration": "900ms", "leader-elect-renew-deadline": "500ms", "leader-elect-retry-period": "100ms"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := the[*appsv1.Deployment](t, rendered(t, enforce), "taintkeeper")
			says := refusal(t, taintkeeper, append(d.Spec.Template.Spec.Containers[0].Args, asArguments(t, tt.flags)...))
			if says == "" {
				t.Errorf("the program takes %v", tt.flags)
			}
			if tt.says == "" {
				tt.says = "extraFlags: " + says
			}
			_, err := render.Render(load(t), "kube-system", enforce.with(values{"extraFlags": tt.flags}).plain())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the chart says %v, want %q", err, tt.says)
			}
		})
	}
}

// asArguments returns flags as a container has them.
func asArguments(t *testing.T, flags values) []string {
	t.Helper()
	var all []string
	for name, value := range flags {
		text, ok := value.(string)
		if !ok {
			text = mustJSON(t, value)
		}
		all = append(all, "--"+name+"="+text)
	}
	return all
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// program builds the program of these sources.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "taintkeeper")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/taintkeeper")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build taintkeeper: %v\n%s", err, output)
	}
	return binary
}

// refusal returns the first thing that the program says against its arguments, or nothing. It has no cluster, so it ends
// even if it says nothing against them.
func refusal(t *testing.T, binary string, args []string) string {
	t.Helper()
	const nowhere = "/nowhere/kubeconfig"
	output, err := exec.CommandContext(t.Context(), binary, append(args, "--kubeconfig="+nowhere)...).CombinedOutput()
	if err == nil {
		t.Errorf("without a cluster the program does not fail: %s", output)
	}
	if strings.Contains(string(output), nowhere) {
		return ""
	}
	says, _, _ := strings.Cut(strings.TrimPrefix(string(output), "taintkeeper: "), "\n")
	return says
}
