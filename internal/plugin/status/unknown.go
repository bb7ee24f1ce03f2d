// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// unknown returns the fields of a report that are empty because something was not read.
func unknown(cluster *state.Cluster, process *who.Process) (fields []cliv1alpha1.UnknownField) {
	runs, signs := process.State == who.Running, &cluster.Signs
	files := cluster.Location == state.Location{}
	noEvictionClock := len(signs.EvictionClocks) == 0 && !signs.EvictionClocksKnown
	for _, field := range []struct {
		name    string
		unknown bool
		reason  string
	}{
		{"mode", process.State == who.Unknown, unknownMode(process, files)},
		{"controllers", runs && process.Controllers == nil, unknownControllers(process)},
		{"version", runs && process.Version == "", "no label " + v1alpha1.VersionLabel},
		{"leader", process.Mode == cliv1alpha1.ModeEnforce && !process.Held && !signs.LeasesKnown, unread(files, "Lease of Taintkeeper", "leases")},
		{"pods", files && len(cluster.Pods) == 0, unread(files, "Pod", "pods")},
		{"pods", !cluster.Knows(state.Nodes.Resource), unread(files, "Node", "nodes")},
		{"heldBy", process.State == who.Unknown && len(cluster.Policies) > 0, "it is not known whether Taintkeeper is running"},
		{"heldBy", policiesUnknown(cluster, files), unread(files, "EvictionPolicy", "evictionpolicies")},
		{"evictionClock", noEvictionClock, unread(files, "ServiceAccount", "serviceaccounts")},
		{"builtInBacklog", noEvictionClock, unread(files, "ServiceAccount", "serviceaccounts")},
		{"lastError", signs.Failure == nil && !signs.FailuresKnown, unread(files, "Event", "events")},
	} {
		if field.unknown {
			fields = append(fields, cliv1alpha1.UnknownField{Field: field.name, Reason: field.reason})
		}
	}
	return fields
}

// unknownMode says why it is not known whether Taintkeeper runs, and so in which mode.
func unknownMode(process *who.Process, files bool) string {
	if process.Why != "" {
		return "no leader says it on its Lease"
	}
	return unread(files, "Lease of Taintkeeper", "leases")
}

// unknownControllers says why it is not known which controllers run.
func unknownControllers(process *who.Process) string {
	if process.Held {
		return "the leader does not say on its Lease what it runs: upgrade Taintkeeper"
	}
	return "no leader says on its Lease what it runs"
}

// policiesUnknown reports whether there may be EvictionPolicies that were not read. A snapshot without them shows that
// the cluster has none, but other files do not.
func policiesUnknown(cluster *state.Cluster, files bool) bool {
	return !cluster.Knows(state.Policies.Resource) || files && cluster.At.IsZero() && len(cluster.Policies) == 0
}

// unread says why a kind is not known.
func unread(files bool, kind, resource string) string {
	if files {
		return "the files contain no " + kind
	}
	return "you may not list " + resource
}
