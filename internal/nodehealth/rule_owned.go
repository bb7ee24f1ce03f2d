// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	grammar "github.com/taintkeeper/taintkeeper/taints"
)

// owned is which taints of a node came from rules: by the rule's name, as key=value:Effect.
type owned map[string]string

// ownedBy returns which taints of a node came from rules. It must not be modified. Many nodes say the same, and
// each rule asks each node, so what was read lately is kept.
func ownedBy(node *corev1.Node) owned {
	text, ok := node.Annotations[v1alpha1.OwnedAnnotation]
	if !ok {
		return nil
	}
	if known, ok := lately.Get(text); ok {
		return known.(owned)
	}
	read := readOwned(text)
	lately.Add(text, read)
	return read
}

var lately = lru.New(1024)

// readOwned reads our annotation of a node. One that cannot be read owns nothing.
func readOwned(text string) owned {
	var taints owned
	if err := json.Unmarshal([]byte(text), &taints); err != nil {
		return nil
	}
	return taints
}

// annotation returns what has to be written so that a node says this; nil takes the annotation away.
func (o owned) annotation() map[string]any {
	if len(o) == 0 {
		return map[string]any{v1alpha1.OwnedAnnotation: nil}
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings by strings can be written
	}
	return map[string]any{v1alpha1.OwnedAnnotation: string(text)}
}

// standing reports whether a node's taint of this key and effect is the rule's own, even if somebody has taken it off;
// and whether it is somebody's who is no rule.
func standing(r *rule, node *corev1.Node) (mine, foreign bool) {
	want := r.taint()
	all := ownedBy(node)
	mine = all[r.name] == r.text
	for _, t := range node.Spec.Taints {
		if !t.MatchTaint(&want) {
			continue
		}
		ours := slices.Contains(slices.Collect(maps.Values(all)), t.ToString())
		return mine && t.Value == want.Value, !ours
	}
	return mine, false
}

// rulePart is what the rules make of a node's taints.
type rulePart struct {
	taints []corev1.Taint
	// annotations have to be written together with the taints; empty: neither has changed.
	annotations map[string]any
	// adds are the rules whose taint comes with this, without those whose taint the node has not, once it is written.
	adds, without []string
}

func (p rulePart) changed() bool { return len(p.annotations) > 0 }

// claims is what the rules say of one node.
type claims interface {
	// says says what becomes of an entry of the annotation.
	says(node *corev1.Node, name, taint string) entry
	// wanting returns the rules that want their taint on the node, in the order of their names.
	wanting(node *corev1.Node) []*rule
}

// entry is what becomes of an entry of the annotation, and of the taint that it names.
type entry int

const (
	dropped  entry = iota // the taint is none of ours
	takenOff              // both go
	kept                  // both stay as they are
	wanted                // both stay, and the taint comes again if somebody took it off
)

// obstructed reports whether somebody has put another value in the place of a rule's taint.
func obstructed(taints []corev1.Taint, text string) bool {
	mine, err := grammar.Parse(text)
	return err == nil && slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&mine) && t.Value != mine.Value })
}

// applyRules returns what the rules make of a node's taints. A taint of others is neither touched nor taken over.
func applyRules(node *corev1.Node, taints []corev1.Taint, say claims, now time.Time) rulePart {
	before := ownedBy(node)
	after := owned{}
	touched := false
	var adds []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		says := say.says(node, name, before[name])
		if says == kept || says == wanted && !obstructed(taints, before[name]) {
			after[name] = before[name]
			continue
		}
		if says == dropped {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.ToString() == before[name] })
		touched = touched || len(left) != len(taints)
		taints = left
	}
	for _, r := range say.wanting(node) {
		next := r.taint()
		if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&next) }) {
			if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.ToString() == r.text }) {
				after[r.name] = r.text // somebody took the annotation away
			}
			continue
		}
		if _, owns := after[r.name]; !owns && !r.matches(node) {
			continue // it is over, and the next plan will say so
		}
		after[r.name] = r.text
		next.TimeAdded = &metav1.Time{Time: now}
		taints, touched, adds = append(slices.Clone(taints), next), true, append(adds, r.name)
	}
	part := rulePart{taints: taints, adds: adds}
	if touched || !maps.Equal(before, after) {
		part.annotations = after.annotation()
	}
	return part
}
