// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Tainted returns the NoExecute taints of a node that is read at an instant. kubectl taint writes no timeAdded. A taint
// without one counts from roughly when the taints of the node were last written, according to its managed fields.
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

// TaintsWritten returns the newest managed fields entry of a node that includes its taints, or nil. A client that
// writes one taint owns all of them, so the entry may be newer than a taint.
func TaintsWritten(node *corev1.Node) *metav1.ManagedFieldsEntry {
	var newest *metav1.ManagedFieldsEntry
	for i := range node.ManagedFields {
		entry := &node.ManagedFields[i]
		if entry.Time != nil && builtin.Writes(entry, builtin.Taints) && (newest == nil || newest.Time.Before(entry.Time)) {
			newest = entry
		}
	}
	return newest
}

// Undated says when taints of a node start to count that have no timeAdded, if the node had them when it was first
// read.
func Undated(node *corev1.Node, onNode []verdict.Taint, read time.Time) []string {
	var notes []string
	for _, taint := range onNode {
		if !taint.TimeAdded.IsZero() || taint.Since.After(read) {
			continue
		}
		spec := taints.Format(taint.Taint)
		if written := TaintsWritten(node); written != nil && taint.Since.Before(read) {
			notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded. It counts from about %s, when %s last wrote the taints of the node.",
				node.Name, spec, written.Time.UTC().Format(time.RFC3339), written.Manager))
			continue
		}
		notes = append(notes, fmt.Sprintf("Node %s: taint %s has no timeAdded, so it counts from when this command first read it. "+
			"A controller that saw it earlier counts from then.", node.Name, spec))
	}
	return notes
}

// IsAbout reports whether a due time is only an estimate: it counts from a taint without a timeAdded that the node had
// before it was first read.
func IsAbout(v verdict.Verdict, read time.Time) bool {
	return v.Leaves && v.Taint.TimeAdded.IsZero() && v.Start.Equal(v.Taint.Since) && v.Taint.Since.Before(read)
}

// FormatAll writes taints as kubectl does.
func FormatAll(all []corev1.Taint) []string {
	specs := make([]string, 0, len(all))
	for _, taint := range all {
		specs = append(specs, taints.Format(taint))
	}
	return specs
}

// DueOf returns when a verdict makes a pod leave, or nil.
func DueOf(v verdict.Verdict) *metav1.MicroTime {
	if !v.Leaves {
		return nil
	}
	due := metav1.NewMicroTime(v.Due)
	return &due
}
