// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import "maps"

// values are values of the chart, as a user writes them.
type values map[string]any

// with returns the values merged with others, which take precedence.
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

// plain returns what Helm takes: maps that have no named type.
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
	shadow  = values{"mode": "shadow"}
	enforce = values{"mode": "enforce"}

	// everyPolicy switches all admission policies on.
	everyPolicy = values{"policies": values{
		"tolerationSeconds": on, "memoryPressure": on, "dedicatedNodes": on, "namespaceTolerations": on,
		"daemonTolerations": on.with(values{"ownerKinds": list("DaemonSet.apps.kruise.io")}),
		"extendedResources": on.with(values{"afterWebhooks": true}),
	}}
	on = values{"enabled": true}
)
