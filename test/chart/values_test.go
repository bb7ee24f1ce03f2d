// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import "maps"

// values are values of the chart, as a user writes them.
type values map[string]any

// with returns the values with others on top, which win.
func (v values) with(others values) values {
	merged := maps.Clone(v)
	for name, other := range others {
		inner, isMap := other.(values)
		if before, ok := merged[name].(values); ok && isMap {
			other = before.with(inner)
		}
		merged[name] = other
	}
	return merged
}

// plain is what Helm takes: maps without a name of their own.
func (v values) plain() map[string]any {
	all := map[string]any{}
	for name, value := range v {
		if inner, ok := value.(values); ok {
			value = inner.plain()
		}
		all[name] = value
	}
	return all
}

// list is a list as YAML gives it.
func list(items ...any) []any { return items }

var (
	shadow     = values{"mode": "shadow"}
	enforce    = values{"mode": "enforce"}
	nodeHealth = values{"controllers": list("node-health")}
	both       = values{"controllers": list("eviction", "node-health")}
	all        = values{"controllers": list("eviction", "node-health", "node-taint-rule")}
	alone      = values{"coexist": values{"enabled": false}}

	forPrometheus = values{"enabled": true, "labels": values{"release": "prometheus"}}
	readers       = list(values{"name": "prometheus-k8s", "namespace": "monitoring"}.plain())
	monitored     = values{
		"metrics":    values{"certSecret": "metrics-tls", "readers": readers},
		"monitoring": values{"serviceMonitor": forPrometheus, "prometheusRule": forPrometheus, "dashboard": forPrometheus},
	}

	// everyPolicy switches all admission policies on.
	everyPolicy = values{"policies": values{
		"tolerationSeconds": on, "memoryPressure": on, "dedicatedNodes": on, "namespaceTolerations": on,
		"daemonTolerations": on.with(values{"ownerKinds": list("DaemonSet.apps.kruise.io")}),
		"extendedResources": on.with(values{"afterWebhooks": true}),
	}}
	on = values{"enabled": true}
)

// choices are the values that decide what is rendered, one group per line, each with its alternatives. The last are
// each about a place of their own, and vary together.
var choices = [][]values{
	{shadow, enforce, enforce.with(nodeHealth), enforce.with(all)},
	{{}, alone},
	{{}, {"stampTaints": false}},
	{{}, {"replicas": 0}},
	{{}, {"metrics": values{"expose": false}}, monitored},
	{{}, {"crds": values{"keep": false}}, {"crds": values{"install": false}}},
	{{}, {
		"networkPolicy": values{"enabled": true}, "flowSchema": values{"enabled": false},
		"extraFlags": values{"concurrent-evictions": 8, "leader-elect-lease-duration": "18s"}, "log": values{"format": "text", "level": 1},
		"image":            values{"digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		"imagePullSecrets": list(values{"name": "registry"}.plain()), "resources": values{}, "priorityClassName": "",
		"nodeSelector": values{"kubernetes.io/os": "linux"}, "podAnnotations": values{"team": "platform"}, "podLabels": values{"team": "platform"},
		"affinity":    values{"podAntiAffinity": values{}},
		"tolerations": list(values{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}.plain()),
	}},
}

// combinations calls with each combination of the choices, and once with every policy: no other value makes a
// difference to them.
func combinations(with func(values)) {
	combine(values{}, choices, with)
	with(everyPolicy)
}

func combine(chosen values, left [][]values, with func(values)) {
	if len(left) == 0 {
		with(chosen)
		return
	}
	for _, alternative := range left[0] {
		combine(chosen.with(alternative), left[1:], with)
	}
}
