// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// unknown returns the fields of a report that are empty because something was not read.
func unknown(cluster *plan.Cluster, running *plan.Running) (fields []cliv1alpha1.UnknownField) {
	runs, signs := running.Mode != "", &cluster.Signs
	files := cluster.Location == plan.Location{}
	noEvictionClock := len(signs.EvictionClocks) == 0 && !signs.EvictionClocksKnown
	for _, field := range []struct {
		name    string
		unknown bool
		reason  string
	}{
		{"mode", !running.Known, unread(files, "Lease of Taintkeeper", "leases")},
		{"controllers", runs && running.Flags == nil, "no pod of Taintkeeper was found"},
		{"version", runs && running.Version == "", "no label " + v1alpha1.VersionLabel},
		{"leader", running.Mode == cliv1alpha1.ModeEnforce && !running.Held && !signs.LeasesKnown, unread(files, "Lease of Taintkeeper", "leases")},
		{"pods", files && len(cluster.Pods) == 0, unread(files, "Pod", "pods")},
		{"heldBy", !runs && !running.Known && len(cluster.Policies) > 0, "it is not known whether Taintkeeper is running"},
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

// policiesUnknown reports whether there may be EvictionPolicies that were not read. A snapshot without them shows that
// the cluster has none, but other files do not.
func policiesUnknown(cluster *plan.Cluster, files bool) bool {
	return cluster.PoliciesUnknown || files && cluster.At.IsZero() && len(cluster.Policies) == 0
}

// unread says why a kind is not known.
func unread(files bool, kind, resource string) string {
	if files {
		return "the files contain no " + kind
	}
	return "you may not list " + resource
}
