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

// edit is what has to be written of a node for its rules.
type edit struct {
	apicall.NodeEdit
	node *corev1.Node
	adds []types.UID // the rules whose taint comes with it
}

// pending returns the nodes that are not as the rules want them.
func (b *book) pending() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dryRun {
		return nil
	}
	var names []string
	for _, p := range b.rules {
		for name, place := range p.places {
			if !place.settled(p.rule) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// edit returns what has to be written of a node, decided from the newest that is known; false: nothing. only limits it
// to the taints of one rule, if it is not empty.
func (b *book) edit(name string, only types.UID, now time.Time) (edit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node, ok := b.nodes[name]
	if !ok {
		return edit{}, false
	}
	wanting, leaving, planned := b.concerned(name)
	if !planned {
		return edit{}, false
	}
	e := edit{node: node.Node}
	e.Taints, e.Labels = slices.Clone(node.Spec.Taints), map[string]*string{}
	for _, p := range leaving {
		e.leave(p, wanting, only)
	}
	for _, p := range wanting {
		if p.places[name].owned || p.may(only) {
			e.add(p, now)
		}
	}
	return e, len(e.Labels) > 0 || len(e.adds) > 0
}

// concerned returns the rules that want their taint on a node, and those that want it off. planned is false if
// something has changed for one of them since its plan.
func (b *book) concerned(name string) (wanting, leaving []*planned, planned bool) {
	for _, p := range b.rules {
		place := p.places[name]
		switch {
		case place == nil, p.rule.frozen:
		case place.changed: // the next plan decides
			return nil, nil, false
		case place.wanted && !p.rule.onlyReports:
			wanting = append(wanting, p)
		case place.owned || place.labelled:
			leaving = append(leaving, p)
		}
	}
	return wanting, leaving, true
}

// may reports whether a rule may taint a node in an edit that is limited to the taints of one rule, if it is not empty.
func (p *planned) may(only types.UID) bool {
	return !p.stopped && (only == "" || only == p.object.UID)
}

// leave takes a rule's taint off, and its label. If another rule wants the same taint, only the owner changes.
func (e *edit) leave(p *planned, wanting []*planned, only types.UID) {
	heir := slices.IndexFunc(wanting, func(other *planned) bool { return other.rule.text == p.rule.text })
	if heir >= 0 && !wanting[heir].may(only) {
		return // until that can take over
	}
	place := p.places[e.node.Name]
	if place.labelled {
		e.Labels[p.rule.label] = nil
	}
	if place.owned && heir < 0 {
		e.Taints = slices.DeleteFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == p.rule.text })
	}
}

// add puts a rule's taint on, and its label.
func (e *edit) add(p *planned, now time.Time) {
	place := p.places[e.node.Name]
	if !place.labelled {
		e.Labels[p.rule.label] = new(p.rule.print)
	}
	if place.owned {
		return
	}
	e.adds = append(e.adds, p.object.UID)
	if !slices.ContainsFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == p.rule.text }) {
		next := p.rule.taint()
		next.TimeAdded = &metav1.Time{Time: now}
		e.Taints = append(e.Taints, next)
	}
}
