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

// sights remembers when this process first saw that pods are due. It is safe for concurrent use.
type sights struct {
	mu sync.Mutex
	of map[string]map[sight]time.Time // by node
}

// sight is a pod that is due because of a taint.
type sight struct {
	pod   types.UID
	taint string
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
		of = map[sight]time.Time{}
		s.of[node] = of
	}
	for i := range causes {
		is := sight{pod, causeOf(causes[i].Taint)}
		seen, known := of[is]
		switch {
		case causes[i].Due.After(now):
			delete(of, is)
		case !known:
			of[is], causes[i].Seen = now, now
		default:
			causes[i].Seen = seen
		}
	}
}

// keep forgets the taints that a node no longer has.
func (s *sights) keep(node string, taints []verdict.Taint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of[node], func(is sight, _ time.Time) bool {
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
		delete(s.of[node], sight{pod, causeOf(&taints[i].Taint)})
	}
}
