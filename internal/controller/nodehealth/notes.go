// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// notes remembers what was said of each node, so that it is said once. Safe for concurrent use.
type notes struct {
	mu      sync.Mutex
	waiting map[string]wait
	would   map[string][]string     // in a dry run
	unheard map[string]string       // versions of nodes that are silent, in a dry run
	written map[string]*corev1.Node // nodes as changes of ours left them, until the watch has brought that
}

// wait is why a node is held back, and since when.
type wait struct {
	held  readiness.Held
	since time.Time
	told  bool
}

// sayAfter is how long a node must be held back for the same reason before that is said. While a zone falls, its state
// changes within moments.
const sayAfter = time.Second

// newest returns a node as the watch or an answer to a change of ours showed it, whichever is newer.
func (n *notes) newest(node *corev1.Node) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	written, ok := n.written[node.Name]
	if !ok {
		return node
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, written.ResourceVersion)
	if written.UID != node.UID || err != nil || order >= 0 {
		delete(n.written, node.Name)
		return node
	}
	return written
}

// wrote notes how a change of ours left a node.
func (n *notes) wrote(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.written == nil {
		n.written = map[string]*corev1.Node{}
	}
	n.written[node.Name] = node
}

// held notes that a node is held back. It reports whether that is to be said now, and otherwise in what time it may
// have to be; zero: it was said. The counts alone are no news.
func (n *notes) held(name string, held readiness.Held, now time.Time) (tell bool, in time.Duration) {
	held.Size, held.NotReady = 0, 0
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.waiting[name]
	if !ok || known.held != held {
		known = wait{held: held, since: now}
	}
	if in = known.since.Add(sayAfter).Sub(now); !known.told && in <= 0 {
		known.told, tell = true, true
	}
	if n.waiting == nil {
		n.waiting = map[string]wait{}
	}
	n.waiting[name] = known
	return tell, max(in, 0)
}

// released notes that a node is no longer held back.
func (n *notes) released(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, name)
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
	delete(n.written, name)
}
