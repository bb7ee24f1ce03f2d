// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// edit is what a rule must write to a node.
type edit struct {
	apicall.NodeEdit
	node *corev1.Node
	adds bool // it adds the taint
}

// edit returns what must be written to a node that was read live so that it is as the newest plan of a rule wants it,
// and false if nothing must be written. Anything that the plan did not know, such as another node of that name, is left
// to the next plan. It adds the taint only if admitted.
func (v *view) edit(uid types.UID, planned *rule, node *corev1.Node, may bool, now time.Time) (edit, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, known := v.rules[uid], v.nodes[node.Name]
	if f == nil || f.rule != planned || known == nil || known.UID != node.UID {
		return edit{}, false
	}
	e := v.change(f, node, may, now)
	return e, len(e.Labels) > 0 || e.adds || len(e.Taints) < len(node.Spec.Taints)
}

// change returns what the newest plan of a rule wants to change on a node. The caller holds the lock.
func (v *view) change(f *followed, node *corev1.Node, may bool, now time.Time) edit {
	is, place := f.rule.facts(node), f.places[node.Name]
	// A taint that was the rule's when it was seen still is, even if the plan no longer wants it; compare owns.
	owned := is.standing == f.rule.text && (is.labeled || place != nil && place.owned)
	wanted := place.wantedBy(f.rule)
	e := edit{node: node}
	e.Taints, e.Labels = slices.Clone(node.Spec.Taints), map[string]*string{}
	switch {
	case wanted && owned:
		e.label(f, is)
	case wanted:
		if may && is.matches() {
			v.come(&e, f, is, now)
		}
	case owned && is.matches() && !f.rule.onlyReports: // the condition is back
	default:
		v.leave(&e, f, is, owned)
	}
	return e
}

// come adds the taint of a rule, and its label, unless another taint is in its way. If a rival left the very same taint
// there, only the owner changes.
func (v *view) come(e *edit, f *followed, is facts, now time.Time) {
	room := edit{NodeEdit: apicall.NodeEdit{Taints: e.Taints, Labels: map[string]*string{}}, node: e.node}
	if !v.makesRoom(&room, f, is) {
		return
	}
	*e = room
	e.adds = true
	e.label(f, is)
	if is.standing != f.rule.text {
		taint := f.rule.taint()
		taint.TimeAdded = &metav1.Time{Time: now}
		e.Taints = append(e.Taints, taint)
	}
}

// makesRoom removes what rivals have left on a node and no longer want, and reports whether the taint of a rule can be
// added then. A taint that no rule owns is in its way.
func (v *view) makesRoom(e *edit, f *followed, is facts) bool {
	free := is.standing == ""
	for _, other := range v.rules {
		theirs := other.rule.facts(e.node)
		if other == f || other.rule.frozen || !theirs.labeled || !other.rule.rivals(f.rule) {
			continue
		}
		e.Labels[other.rule.label] = nil
		if theirs.standing != other.rule.text {
			continue
		}
		free = free || sameTaint(other.object, f.object)
		if other.rule.text != f.rule.text {
			e.remove(other.rule)
		}
	}
	return free
}

// leave removes the taint of a rule, and its label, unless another rule wants the taint instead.
func (v *view) leave(e *edit, f *followed, is facts, owned bool) {
	if heir := v.heir(f, e.node.Name); heir != nil {
		if !heir.rule.facts(e.node).labeled {
			return // until the heir has taken it over
		}
		owned = owned && heir.rule.text != f.rule.text
	}
	if is.labeled {
		e.Labels[f.rule.label] = nil
	}
	if owned {
		e.remove(f.rule)
	}
}

// heir returns the other rule that wants a taint of the same key and effect on a node, or nil.
func (v *view) heir(f *followed, node string) *followed {
	for _, other := range v.rules {
		place := other.places[node]
		if other != f && sameTaint(other.object, f.object) && place != nil && place.wanted &&
			!other.rule.onlyReports && !other.rule.frozen {
			return other
		}
	}
	return nil
}

func (e *edit) label(f *followed, is facts) {
	if !is.labeled {
		e.Labels[f.rule.label] = new(f.rule.print)
	}
}

func (e *edit) remove(r *rule) {
	e.Taints = slices.DeleteFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == r.text })
}
