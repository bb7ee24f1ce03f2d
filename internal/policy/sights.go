// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// sights is the memory of when pods were first seen as due, and of which halts kept them, by node.
type sights map[string]map[dueBy]*sight

// dueBy is a pod that is due because of a taint.
type dueBy struct {
	pod   types.UID
	taint string
}

// sight is what is remembered about it.
type sight struct {
	seen time.Time
	halt Halt
}

// causeOf returns the key of a taint. Not ready and unreachable are one cause with two names.
func causeOf(taint *corev1.Taint) string {
	if taint.Key == corev1.TaintNodeUnreachable {
		return corev1.TaintNodeNotReady
	}
	return taint.Key
}

// note sets when a pod on a node was first seen as due because of each cause.
func (s sights) note(node string, pod types.UID, causes []Cause, now time.Time) {
	for i := range causes {
		is := dueBy{pod, causeOf(causes[i].Taint)}
		known, due := s[node][is], !causes[i].Due.After(now)
		switch {
		case due && known == nil:
			known = &sight{seen: now}
			if s[node] == nil {
				s[node] = map[dueBy]*sight{}
			}
			s[node][is] = known
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
func (s sights) halt(node string, pod types.UID, taint *corev1.Taint, on bool, now time.Time) Halt {
	known := s[node][dueBy{pod, causeOf(taint)}]
	known.halt.Note(on, now)
	return known.halt
}

// keep forgets the taints that a node no longer has.
func (s sights) keep(node string, taints []verdict.Taint) {
	maps.DeleteFunc(s[node], func(is dueBy, _ *sight) bool {
		return !slices.ContainsFunc(taints, func(t verdict.Taint) bool { return causeOf(&t.Taint) == is.taint })
	})
	if len(s[node]) == 0 {
		delete(s, node)
	}
}

// forget forgets a pod that leaves a node.
func (s sights) forget(node string, pod types.UID, taints []verdict.Taint) {
	for i := range taints {
		delete(s[node], dueBy{pod, causeOf(&taints[i].Taint)})
	}
}
