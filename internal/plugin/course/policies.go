// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// objecting is the EvictionPolicies of a simulation.
type objecting struct {
	set      *policies.Set
	engine   *policy.Engine
	selected map[*policy.Policy]int // how many pods each selects
	turn     once                   // of the engine, before pods are checked
	freed    once                   // of the engine, after they have been
	began    bool                   // the engine has had its first turn
}

// loadPolicies returns the policies at the start, or nil without any. No pod waits for a budget. They hold no pods that
// kube-controller-manager evicts.
func (s *simulation) loadPolicies() *objecting {
	set := s.cluster.PoliciesOf()
	if set == nil || s.cluster.IsBuiltIn() {
		return nil
	}
	o := &objecting{
		set: set, engine: policy.NewEngine(knownPods{s}, 0), selected: map[*policy.Policy]int{},
		turn:  once{queue: &s.queue, kind: policiesTurn, do: s.advancePolicies},
		freed: once{queue: &s.queue, kind: freed, do: s.advancePolicies},
	}
	o.engine.Exact = true
	s.notes = append(s.notes, set.Flaws...)
	return o
}

// followPolicies begins to follow the policies, after the pods are known. Pods that are due have been seen since they
// were due. A pace whose policy says that it is used up has room only after its whole window.
func (s *simulation) followPolicies(at time.Time) {
	for _, name := range s.names {
		for _, pod := range (knownPods{s}).Leaving(name, at) {
			s.policies.engine.Assume(pod)
		}
	}
	set := s.policies.set
	s.policies.engine.Follow(slices.DeleteFunc(slices.Clone(set.All), set.PaceUsedUp), at, true)
	s.policies.engine.Follow(set.All, at, false)
	s.policies.turn.set(at)
}

// knownPods is what the engine asks a simulation.
type knownPods struct{ s *simulation }

// Leaving implements [policy.Cluster].
func (k knownPods) Leaving(name string, now time.Time) (leaving []*policy.Leaver) {
	n := k.s.nodes[name]
	if len(n.taints) == 0 {
		return nil
	}
	for _, p := range n.pods {
		if !k.s.mayLeave(p) || len(p.selecting) == 0 {
			continue
		}
		if is := k.s.leaver(p, n, now); len(is.Causes) > 0 {
			leaving = append(leaving, is)
		}
	}
	return leaving
}

// Tainted implements [policy.Cluster].
func (k knownPods) Tainted() (tainted []string) {
	for _, name := range k.s.names {
		if len(k.s.nodes[name].taints) > 0 {
			tainted = append(tainted, name)
		}
	}
	return tainted
}

// Selected implements [policy.Cluster].
func (k knownPods) Selected(p *policy.Policy, _ int, _ time.Time) int {
	return k.s.policies.selected[p]
}

// Read implements [policy.Cluster]. Everything is known of all pods.
func (k knownPods) Read(*policy.Leaver) {}

// leaves returns a pod that leaves its node.
func leaves(p *pod, n *node) *policy.Leaver {
	return &policy.Leaver{UID: p.UID, Node: n.Name, Zone: zoneOf(n.Node), Taints: n.taints, By: p.selecting}
}

// leaver returns what policies need to know about a pod on its node.
func (s *simulation) leaver(p *pod, n *node, now time.Time) *policy.Leaver {
	known := s.policies.set.FactsAt(p.is, policies.NodeOf(n.Node), now)
	var names []string
	for _, b := range p.budgets {
		if !p.is.IgnoresBudgets && (len(p.budgets) > 1 || p.counted || !b.sparesUnready()) {
			names = append(names, b.name())
		}
	}
	known.Budgets = s.policies.set.BudgetsNamed(names...)
	is := leaves(p, n)
	is.Causes, is.Pod = policy.CausesOf(state.Rule, p.facts, n.taints), known
	return is
}

// changed lets the engine have its turn if it has something to do because pods leave, once all have left that do.
func (o *objecting) changed(now time.Time) {
	if o.engine.Pending() {
		o.freed.set(now)
	}
}

// advancePolicies lets breakers count, and gives free places to the pods that are next.
func (s *simulation) advancePolicies(now time.Time) {
	o := s.policies
	nodes, flipped, again := o.engine.Next(now)
	for _, p := range o.set.All {
		flips := slices.Contains(flipped, p.Name)
		if o.began && !flips {
			continue
		}
		why, does := o.engine.Open(p, now), "is open"
		if flips && s.outcome != nil {
			s.outcome.flips(p, why, now)
		}
		switch {
		case flips && why == "":
			does = "closes"
		case flips:
			does = "opens"
		case why == "":
			continue
		}
		if why != "" {
			does += ": " + why
		}
		s.story.add(now, tripped, "", "the breaker of EvictionPolicy "+p.Name+" "+does, "")
	}
	o.began = true
	for _, name := range nodes {
		s.nodes[name].look.set(now)
	}
	o.turn.set(again)
}

// selects counts a pod that policies select, or removes one that is gone.
func (o *objecting) selects(selecting []*policy.Policy, change int) {
	for _, p := range selecting {
		o.selected[p] += change
	}
}

// object asks the policies about the due pods of a node, and returns those that leave.
func (s *simulation) object(n *node, due []leaver, now time.Time) (leave []leaver) {
	o := s.policies
	about, asked := make([]*policy.Leaver, len(due)), make([]*policy.Leaver, 0, len(due))
	for i, l := range due {
		about[i] = s.leaver(l.pod, n, now)
		if !state.Unwanted(l.Pod, about[i].Causes) { // otherwise its controller ignores policies
			asked = append(asked, about[i])
		}
	}
	answers := o.engine.Look(n.Name, asked, now)
	for i, l := range due {
		if len(asked) == 0 || asked[0] != about[i] {
			leave = append(leave, l)
			continue
		}
		said := answers[0]
		asked, answers = asked[1:], answers[1:]
		n.look.set(said.Again)
		switch {
		case said.Stays():
		case o.engine.Begin(about[i], said.Step == policy.Ask, now):
			leave = append(leave, l)
			n.look.set(now) // the queue must learn that they have left
		default:
			said = o.engine.Decide(about[i], now).Said
		}
		if said.Stays() {
			l.held = &said.Answer
		}
		if s.outcome != nil {
			s.outcome.hears(about[i], l, said, policies.NodeOf(n.Node), now)
		}
	}
	o.changed(now)
	return leave
}

// left counts a pod that leaves its node, which may be unknown.
func (o *objecting) left(p *pod, now time.Time) {
	if n := p.on; n != nil {
		o.engine.Left(leaves(p, n), now)
		o.engine.MarkStale(n.Name)
	}
	o.selects(p.selecting, -1)
	o.changed(now)
}

// quotas are the ResourceQuotas of namespaces, and what their pods use, counted with the API server's own code. A
// controller whose pod is refused tries again. Terminating pods count until they are gone. Ignored are other objects,
// the scope CrossNamespacePodAffinity, and that a quota may require pods to have requests.
type quotas map[string][]*quota

type quota struct {
	*corev1.ResourceQuota

	used    corev1.ResourceList
	refuses bool // it has refused a pod, and no pod has left it since then
}

func quotasOf(cluster *state.Cluster) quotas {
	all := quotas{}
	for _, object := range cluster.Quotas {
		all[object.Namespace] = append(all[object.Namespace], &quota{ResourceQuota: object, used: corev1.ResourceList{}})
	}
	return all
}

// admit counts a pod that its controller creates, unless a quota refuses it, and then says why. It admits a pod once.
func (q quotas) admit(p *pod) string {
	if p.charged != nil {
		return ""
	}
	uses := placement.QuotaUsage(p.Pod)
	for _, is := range q.of(p.Pod) {
		then := quotav1.Mask(quotav1.Add(is.used, uses), quotav1.ResourceNames(uses))
		if fits, exceeded := quotav1.LessThanOrEqual(then, is.Spec.Hard); !fits {
			is.refuses = true
			return fmt.Sprintf("Quota %s/%s allows no more %s.", is.Namespace, is.Name, slices.Min(exceeded))
		}
	}
	q.charge(p)
	return ""
}

// charge counts a pod that exists.
func (q quotas) charge(p *pod) {
	p.charged = append([]*quota{}, q.of(p.Pod)...)
	for _, is := range p.charged {
		is.used = quotav1.Add(is.used, placement.QuotaUsage(p.Pod))
	}
}

// release counts a pod no more, and reports whether others may have waited for that.
func (q quotas) release(p *pod) (waited bool) {
	for _, is := range p.charged {
		is.used = quotav1.Subtract(is.used, placement.QuotaUsage(p.Pod))
		waited, is.refuses = waited || is.refuses, false
	}
	p.charged = p.charged[:0]
	return waited
}

// of returns the quotas in which a pod counts.
func (q quotas) of(pod *corev1.Pod) (all []*quota) {
	for _, is := range q[pod.Namespace] {
		if placement.QuotaCounts(is.ResourceQuota, pod) {
			all = append(all, is)
		}
	}
	return all
}
