// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// EvictionOf returns what the event of an eviction says. It reports false for another event, and for one of a dry run,
// which evicts nothing. Both controllers write it with the same source: the field manager, or the pod's UID, which the
// built-in leaves out, shows which of them wrote it. In a storm, an event on a node stands for many pods of that node.
func EvictionOf(event *corev1.Event) (cliv1alpha1.Eviction, bool) {
	if event.Reason != v1alpha1.EventEviction || v1alpha1.IsDryRunText(event.Message) {
		return cliv1alpha1.Eviction{}, false
	}
	about := event.InvolvedObject
	e := cliv1alpha1.Eviction{
		At: metav1.NewMicroTime(lastSeen(event)), By: cliv1alpha1.WhoBuiltIn, Pods: 1,
		Namespace: about.Namespace, Name: about.Name, UID: about.UID,
	}
	isOurs := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == Taintkeeper }
	if about.UID != "" || slices.ContainsFunc(event.ManagedFields, isOurs) {
		e.By = cliv1alpha1.WhoTaintkeeper
	}
	text := event.Message
	if about.Kind == "Node" {
		number, rest, _ := strings.Cut(text, ": ")
		if _, err := fmt.Sscanf(number, "%d event", &e.Pods); err != nil {
			return cliv1alpha1.Eviction{}, false
		}
		text, e.Node, e.Namespace, e.Name, e.UID = rest, about.Name, "", "", ""
	}
	e.Cancelled = v1alpha1.IsCancellingText(text)
	if event.Related != nil {
		e.Node = event.Related.Name
	}
	if action, ok := v1alpha1.ParseEventAction(event.Action); ok && e.Name != "" {
		e.Taint = action.Taint
		if !action.Due.IsZero() {
			e.Due = new(metav1.NewMicroTime(action.Due))
		}
	}
	return e, true
}

// Past returns the evictions since an instant, oldest first, of one namespace or of all. A storm's events on nodes name
// no namespace, and count for all.
func Past(all []cliv1alpha1.Eviction, since time.Time, namespace string) []cliv1alpha1.Eviction {
	past := []cliv1alpha1.Eviction{}
	for _, e := range all {
		if !e.At.Time.Before(since) && (namespace == "" || e.Namespace == namespace) {
			past = append(past, e)
		}
	}
	slices.SortStableFunc(past, func(a, b cliv1alpha1.Eviction) int { return a.At.Compare(b.At.Time) })
	return past
}
