// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// rulebook holds the newest plan of each rule. The controller of rules writes it, the tainter asks it about one node
// at a time. Safe for concurrent use.
type rulebook struct {
	// exists reports whether there is a rule of a name, and listed whether all rules are known.
	exists func(name string) bool
	listed func() bool
	// replan makes a rule be planned again.
	replan func(name string)

	mu      sync.Mutex
	planned map[string]*planned
	// departed are the taints of rules that were planned and are gone, the latest of them.
	departed *lru.Cache
}

// departuresKept is how many rules that are gone are remembered.
const departuresKept = 1024

// departure is a rule that is gone, and its taint as key=value:Effect.
type departure struct{ name, text string }

// planned is a rule with its newest plan. Only the claims and refusals change after it was entered.
type planned struct {
	rule    *rule
	plan    rulePlan
	holding string                       // this was said, as the reason of a condition
	said    v1alpha1.NodeTaintRuleStatus // in a dry run
}

func (p *planned) wants(node *corev1.Node) bool {
	c := p.plan.claims[node.Name]
	return c.wanted && c.uid == node.UID && !p.rule.onlyReports
}

func newRulebook() *rulebook {
	return &rulebook{
		exists: func(string) bool { return false }, listed: func() bool { return false }, replan: func(string) {},
		planned: map[string]*planned{}, departed: lru.New(departuresKept),
	}
}

// memory returns what has to be known of a rule's past, and whether it has one. A rule that came in the place of
// another with its name has none.
func (b *rulebook) memory(r *rule) (ruleMemory, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.planned[r.name]
	if !ok || known.rule.uid != r.uid {
		return ruleMemory{}, false
	}
	return ruleMemory{claims: maps.Clone(known.plan.claims), sightings: known.plan.sightings, refusals: maps.Clone(known.plan.refusals)}, true
}

// enter notes a new plan, and returns the nodes that have to be looked at because of it.
func (b *rulebook) enter(r *rule, plan rulePlan, nodes []*corev1.Node) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.planned[r.name]
	next := &planned{rule: r, plan: plan}
	differs := next.differsFromNode
	if before != nil && before.rule.uid == r.uid {
		next.holding, next.said = before.holding, before.said
		if !before.rule.frozen { // whose nodes say what they said before
			differs = func(node *corev1.Node) bool { return before.wants(node) != next.wants(node) }
		}
	}
	if before != nil && before.rule.text != r.text { // made anew
		b.departed.Add(departure{r.name, before.rule.text}, nil)
	}
	b.planned[r.name] = next
	var differ []string
	for _, node := range nodes {
		if differs(node) || next.unsettled(node) {
			differ = append(differ, node.Name)
		}
	}
	return differ
}

// unsettled reports whether it is not known that no write of the taint to a node is under way.
func (p *planned) unsettled(node *corev1.Node) bool {
	c, ok := p.plan.claims[node.Name]
	return ok && !c.wanted && ownedBy(node)[p.rule.name] == ""
}

// differsFromNode reports whether a node says something else of a rule than the rule wants.
func (p *planned) differsFromNode(node *corev1.Node) bool {
	has, owns := ownedBy(node)[p.rule.name]
	return owns != p.wants(node) || owns && has != p.rule.text
}

// forget drops a rule that is gone.
func (b *rulebook) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.planned[name]; ok {
		b.departed.Add(departure{name, known.rule.text}, nil)
		delete(b.planned, name)
	}
}

// holds notes why a rule holds nodes back, and reports whether that is news; at first, to whom the status says said.
func (b *rulebook) holds(name string, first bool, said, holding string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.planned[name]
	if first {
		known.holding = said
	}
	news := known.holding != holding
	known.holding = holding
	return news
}

// wouldSay reports whether the status that a rule would get in a dry run is news.
func (b *rulebook) wouldSay(name string, status v1alpha1.NodeTaintRuleStatus) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.planned[name]
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	news := !apiequality.Semantic.DeepEqual(known.said, status)
	known.said = status
	return news
}

// part returns what the rules make of a node's taints.
func (b *rulebook) part(node *corev1.Node, taints []corev1.Taint, now time.Time) rulePart {
	if !b.listed() {
		return rulePart{taints: taints}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	part := applyRules(node, taints, pages{b}, now)
	for name, known := range b.planned {
		if !known.wants(node) {
			part.without = append(part.without, name)
		}
	}
	return part
}

// settled notes that a node is as a part of rules said.
func (b *rulebook) settled(node *corev1.Node, part rulePart) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range part.without {
		known, ok := b.planned[name]
		if !ok {
			continue
		}
		if c, ok := known.plan.claims[node.Name]; ok && !c.wanted {
			delete(known.plan.claims, node.Name)
			b.replan(name)
		}
	}
}

// refused notes that the API server refused a part of rules, for certain. The taints that it would have brought are
// tried again later, and where a bound holds others back, one of them takes the node's place.
func (b *rulebook) refused(node *corev1.Node, part rulePart, why error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range part.adds {
		known, ok := b.planned[name]
		if !ok {
			continue
		}
		delete(known.plan.claims, node.Name)
		known.plan.refusals[node.Name] = refusal{uid: node.UID, at: now, why: briefly(why)}
		b.replan(name)
	}
}

// briefly returns what the API server says, so that it fits into an event.
func briefly(err error) string {
	const enough = 400
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return text
}

// pages is a rulebook whose lock is held.
type pages struct{ *rulebook }

// says implements claims. A rule that exists and was not planned yet loses nothing. What no rule that this process
// has seen can have brought is not taken off: the annotation may be anybody's.
func (b pages) says(node *corev1.Node, name, taint string) entry {
	known, ok := b.planned[name]
	_, departed := b.departed.Get(departure{name, taint})
	switch {
	case !ok && b.exists(name):
		return kept
	case departed && (!ok || taint != known.rule.text):
		return takenOff
	case !ok, taint != known.rule.text:
		return dropped
	case known.rule.frozen:
		return kept
	case known.wants(node):
		return wanted
	}
	return takenOff
}

// wanting implements claims.
func (b pages) wanting(node *corev1.Node) []*rule {
	var all []*rule
	for _, name := range slices.Sorted(maps.Keys(b.planned)) {
		if known := b.planned[name]; known.wants(node) {
			all = append(all, known.rule)
		}
	}
	return all
}
