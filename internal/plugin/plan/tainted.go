// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Tainted returns the NoExecute taints of a node that is read at an instant. A taint without a timeAdded counts from
// about when somebody last wrote the taints of the node, as its managed fields say. kubectl taint writes no timeAdded.
func Tainted(node *corev1.Node, at time.Time) []verdict.Taint {
	seen := verdict.SeenAt(at)
	all := verdict.Advance(nil, node.Spec.Taints, seen)
	written := TaintsWritten(node)
	if written == nil {
		return all
	}
	since := seen.Start(written.Time.Time)
	for i := range all {
		if all[i].TimeAdded.IsZero() && since.Before(all[i].Since) {
			all[i].Since = since
		}
	}
	return all
}

// TaintsWritten returns the newest entry of a node's managed fields that is about its taints; nil if there is none.
// A client that writes one taint owns them all, so the entry may be newer than a taint.
func TaintsWritten(node *corev1.Node) *metav1.ManagedFieldsEntry {
	var newest *metav1.ManagedFieldsEntry
	for i := range node.ManagedFields {
		entry := &node.ManagedFields[i]
		if entry.Time != nil && WritesTaints(entry) && (newest == nil || newest.Time.Before(entry.Time)) {
			newest = entry
		}
	}
	return newest
}

// undated says from when the taints of a node count that have no timeAdded.
func undated(node *corev1.Node, at time.Time) []string {
	var notes []string
	for _, taint := range Tainted(node, at) {
		if !taint.TimeAdded.IsZero() {
			continue
		}
		spec := taints.Format(taint.Taint)
		if written := TaintsWritten(node); written != nil && taint.Since.Before(at) {
			notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded. It counts from about %s, when %s last wrote the taints of the node.",
				node.Name, spec, written.Time.UTC().Format(time.RFC3339), written.Manager))
			continue
		}
		notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded, so it counts from when this command first read it. "+
			"A controller that saw it earlier counts from then.", node.Name, spec))
	}
	return notes
}

// isAbout reports whether a due instant is about right only: it counts from a taint without a timeAdded that was there
// before the node was first read.
func isAbout(v verdict.Verdict, read time.Time) bool {
	return v.Leaves && v.Taint.TimeAdded.IsZero() && v.Start.Equal(v.Taint.Since) && v.Taint.Since.Before(read)
}
