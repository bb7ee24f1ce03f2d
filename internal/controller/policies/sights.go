// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// sights remembers when this process first saw that pods are due, and which halts kept them. It is safe for concurrent
// use.
type sights struct {
	mu sync.Mutex
	of map[string]map[cause]*sight // by node
}

// cause is a taint because of which a pod is due.
type cause struct {
	pod   types.UID
	taint string
}

// sight is what is remembered about a pod that is due because of a taint.
type sight struct {
	seen time.Time
	halt policy.Halt
}

// causeOf returns the key of a taint. Not ready and unreachable are one cause with two names.
func causeOf(taint *corev1.Taint) string {
	if taint.Key == corev1.TaintNodeUnreachable {
		return corev1.TaintNodeNotReady
	}
	return taint.Key
}

// note sets when a pod on a node was first seen as due because of each cause.
func (s *sights) note(node string, pod types.UID, causes []policy.Cause, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[node]
	if of == nil {
		of = map[cause]*sight{}
		s.of[node] = of
	}
	for i := range causes {
		is := cause{pod, causeOf(causes[i].Taint)}
		known, due := of[is], !causes[i].Due.After(now)
		switch {
		case due && known == nil:
			known = &sight{seen: now}
			of[is] = known
		case due && known.seen.IsZero():
			known.seen = now
		case !due && known != nil: // it is no longer due, because its tolerations have changed
			known.seen = time.Time{}
		}
		if due {
			causes[i].Seen = known.seen
		}
	}
}

// halt notes whether a halt keeps a pod on a node because of a taint, and returns what is known of halts then.
func (s *sights) halt(node string, pod types.UID, taint *corev1.Taint, on bool, now time.Time) policy.Halt {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of[node][cause{pod, causeOf(taint)}]
	if known == nil { // the taint has just gone, and with it what was known
		return policy.Halt{Ended: now}
	}
	known.halt.Note(on, now)
	return known.halt
}

// keep forgets the taints that a node no longer has.
func (s *sights) keep(node string, taints []verdict.Taint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of[node], func(is cause, _ *sight) bool {
		return !slices.ContainsFunc(taints, func(t verdict.Taint) bool { return causeOf(&t.Taint) == is.taint })
	})
	if len(s.of[node]) == 0 {
		delete(s.of, node)
	}
}

// forget forgets a pod that leaves a node.
func (s *sights) forget(node string, pod types.UID, taints []verdict.Taint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range taints {
		delete(s.of[node], cause{pod, causeOf(&taints[i].Taint)})
	}
}
