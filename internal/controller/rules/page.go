// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// page is what the book says of a rule.
type page struct {
	object  *v1alpha1.NodeTaintRule
	verdict ruling
	rule    *rule
	outcome outcome
	clean   bool // no node has the taint, can have it, or is about to get it
}

// pages returns what the book says of the rules that there are.
func (b *book) pages() []page {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []page
	for uid, p := range b.rules {
		if p.gone {
			continue
		}
		one := page{object: p.object, verdict: p.verdict, rule: p.rule, outcome: p.outcome, clean: len(b.doubted(uid)) == 0}
		for _, place := range p.places {
			one.clean = one.clean && !place.owned && !place.labelled && !place.wanted
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b page) int { return strings.Compare(a.rule.name, b.rule.name) })
	return all
}
