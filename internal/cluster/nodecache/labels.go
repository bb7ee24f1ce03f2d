// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import "maps"

// Labels are most of a record, and most of their strings occur on many nodes: keys, zones, instance types. The cache
// keeps one copy of each, and of each reason of a condition. Taints have too few strings for that to pay off.

// shareLabels makes a new record use what is already kept: all labels of the previous record if they are the same, as
// in nearly every change, or else the shared copy of every string.
func (k nodes) shareLabels(after, before *Node) {
	if before != nil && maps.Equal(before.Labels, after.Labels) {
		after.Labels = before.Labels
		return
	}
	shared := make(map[string]string, len(after.Labels))
	for key, value := range after.Labels {
		if value == after.Name { // the hostname: no other node has it
			value = after.Name
		} else {
			value = k.strings.Share(value, value)
		}
		shared[k.strings.Share(key, key)] = value
	}
	after.Labels = shared
	if before != nil {
		k.releaseLabels(before)
	}
}

// releaseLabels ends the use of the labels of a dropped record.
func (k nodes) releaseLabels(node *Node) {
	for key, value := range node.Labels {
		k.strings.Release(key)
		if value != node.Name {
			k.strings.Release(value)
		}
	}
}

// shareReasons makes the conditions of a new record use the shared copies of their reasons.
func (k nodes) shareReasons(after, before *Node) {
	for i := range after.Status.Conditions {
		if reason := &after.Status.Conditions[i].Reason; *reason != "" {
			*reason = k.strings.Share(*reason, *reason)
		}
	}
	if before != nil {
		k.releaseReasons(before)
	}
}

// releaseReasons ends the use of the reasons of a dropped record.
func (k nodes) releaseReasons(node *Node) {
	for i := range node.Status.Conditions {
		if reason := node.Status.Conditions[i].Reason; reason != "" {
			k.strings.Release(reason)
		}
	}
}
