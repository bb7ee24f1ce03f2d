// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// notes remembers what was said of each node, so that it is said once. Safe for concurrent use.
type notes struct {
	mu      sync.Mutex
	waiting map[string]Held
	would   map[string][]string // in a dry run
	unheard map[string]string   // versions of nodes that are silent, in a dry run
	changed map[string][]string // versions of nodes that changes of ours were made to
}

// superseded reports whether a node is as it was before a change of ours: the watch has not brought that yet.
func (n *notes) superseded(node *corev1.Node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.changed[node.Name], node.ResourceVersion) {
		return true
	}
	delete(n.changed, node.Name)
	return false
}

// changes notes that a node was changed.
func (n *notes) changes(before, after *corev1.Node) {
	if before.ResourceVersion == after.ResourceVersion {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = map[string][]string{}
	}
	n.changed[before.Name] = append(n.changed[before.Name], before.ResourceVersion)
}

// held reports whether it is news that a node is held back. The counts alone are not.
func (n *notes) held(name string, held Held) bool {
	held.Size, held.NotReady = 0, 0
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.waiting[name]; ok && known == held {
		return false
	}
	if n.waiting == nil {
		n.waiting = map[string]Held{}
	}
	n.waiting[name] = held
	return true
}

// released notes that a node is no longer held back.
func (n *notes) released(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, name)
}

// count returns how many nodes are held back.
func (n *notes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}

// taints reports whether it is news that a node would get these taints.
func (n *notes) taints(node *corev1.Node, taints []corev1.Taint) bool {
	next := make([]string, 0, len(taints))
	for _, t := range taints {
		next = append(next, t.ToString())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(n.would[node.Name], next) {
		return false
	}
	if n.would == nil {
		n.would = map[string][]string{}
	}
	n.would[node.Name] = next
	return true
}

// silent reports whether it is news that a node is silent.
func (n *notes) silent(node *corev1.Node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unheard[node.Name] == node.ResourceVersion {
		return false
	}
	if n.unheard == nil {
		n.unheard = map[string]string{}
	}
	n.unheard[node.Name] = node.ResourceVersion
	return true
}

func (n *notes) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, name)
	delete(n.would, name)
	delete(n.unheard, name)
	delete(n.changed, name)
}
