// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// replica is a process of Taintkeeper. What it decides, the packages verdict, policy, backlog and builtin decide; it
// keeps what they need, as the packages eviction, policies and coexist do in a real process.
type replica struct {
	c    *cluster
	name string

	up, leads bool
	stopping  bool
	born      time.Time

	unrecorded bool // it does not record the built-in's backlog

	// What the watches have brought, and what they are about to bring.
	taints   map[string][]verdict.Taint
	pods     []*seenPod
	newNodes []*node
	newPods  []podChange
	paused   bool

	// What it knows of the built-in.
	tries   map[string]*triedNode
	due     int
	hold    builtin.Hold
	written builtin.Record
	current bool // nobody else has written the account since it was read

	engine  *policy.Engine
	backlog *backlog.Backlog
	try     *try
}

// seenPod is a pod as a replica has seen it.
type seenPod struct {
	*pod

	bound time.Time
	gone  bool // or terminating, as far as is known
}

type podChange struct{ before, after *pod }

// triedNode is a node whose pods the built-in tries.
type triedNode struct {
	builtin.Node[struct{}]

	taints []verdict.Taint
}

// try is a try in flight.
type try struct {
	eviction *backlog.Eviction
	asks     bool
	recorded bool
	marked   bool
	begun    bool
	live     *pod // as the API server showed it last
}

func (r *replica) nodeChanged(n *node) {
	if !r.up {
		return
	}
	if r.newNodes = append(r.newNodes, n); !r.leads && !r.stopping {
		r.deliverNodes()
	}
}

func (r *replica) podChanged(before, after *pod) {
	if !r.up {
		return
	}
	if r.newPods = append(r.newPods, podChange{before, after}); !r.leads && !r.stopping {
		r.deliverPods()
	}
}

// start starts the process, which lists nodes and pods.
func (r *replica) start() {
	*r = replica{
		c: r.c, name: r.name, unrecorded: r.unrecorded, up: true, born: r.c.now,
		taints: map[string][]verdict.Taint{},
		tries:  map[string]*triedNode{}, paused: r.c.paused,
		hold: builtin.NewHold(coexist.DefaultKubeAPIQPS),
	}
	r.engine = policy.NewEngine(r, 0)
	r.engine.Follow(r.policies(), r.c.now, true)
	r.backlog = backlog.New(lanes, r.isThere)
	for _, name := range nodeNames {
		r.seeNode(r.c.nodes[name])
	}
	for _, p := range r.c.pods {
		if p != nil {
			r.seePod(nil, p)
		}
	}
}

// rebind makes the backlog of a replica that was copied ask the copy.
func (r *replica) rebind() {
	if r.backlog != nil {
		there := reflect.ValueOf(r.backlog).Elem().FieldByName("there")
		*(*func(types.UID) bool)(there.Addr().UnsafePointer()) = r.isThere
	}
}

func (r *replica) isThere(uid types.UID) bool { return r.there(uid) != nil }

// end ends the process, whatever it is doing.
func (r *replica) end() {
	*r = replica{c: r.c, name: r.name, unrecorded: r.unrecorded}
}

// policies are the EvictionPolicies: one for the workloads with a budget, which asks it.
func (r *replica) policies() []*policy.Policy {
	if r.paused {
		return paused
	}
	return asks
}

var asks, paused = asking(nil), asking(new("maintenance"))

func asking(pause *string) []*policy.Policy {
	object := v1alpha1.EvictionPolicy{}
	object.Name, object.Spec.Action, object.Spec.Paused = "ask", v1alpha1.ActionEvict, pause
	object.Spec.Deadline = &metav1.Duration{Duration: deadline}
	p, err := policy.New(&object)
	if err != nil {
		panic(err)
	}
	return []*policy.Policy{p}
}

// lanes have no pace between retries: everything happens at whole seconds.
var lanes = func() (all backlog.Lanes) {
	all = backlog.Lanes{backlog.LimitsFor(16), backlog.AskLimits}
	for i := range all {
		all[i].Pace = 0
	}
	return all
}()

const budgetName = "default/one"

// there returns the pod of a UID unless it is gone or terminating, as far as is known.
func (r *replica) there(uid types.UID) *seenPod {
	if p := r.seen(uid); p != nil && !p.gone {
		return p
	}
	return nil
}

// seen returns the pod of a UID, or nil.
func (r *replica) seen(uid types.UID) *seenPod {
	for _, p := range r.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}

// on returns the pods of a node, in order.
func (r *replica) on(name string) (all []*seenPod) {
	for _, p := range r.pods {
		if p.node == name {
			all = append(all, p)
		}
	}
	return all
}

func (p *seenPod) rule() verdict.Pod { return verdict.Pod{Tolerations: p.tolerations, Bound: p.bound} }

func (r *replica) verdict(p *seenPod, taints []verdict.Taint) verdict.Verdict {
	return verdict.Rule{}.Decide(p.rule(), taints)
}

// deliverNodes brings what the watch of nodes has.
func (r *replica) deliverNodes() {
	versions := r.newNodes
	r.newNodes = nil
	for _, n := range versions {
		r.seeNode(n)
	}
	for _, n := range versions {
		r.decide(n.name)
	}
	r.advance()
}

// deliverPods brings what the watch of pods has.
func (r *replica) deliverPods() {
	changes := r.newPods
	r.newPods = nil
	for _, change := range changes {
		r.seePod(change.before, change.after)
	}
	for _, name := range nodeNames {
		r.decide(name)
	}
	r.advance()
}

// deliverPolicy brings what the watch of policies has.
func (r *replica) deliverPolicy() {
	r.paused = r.c.paused
	r.engine.Follow(r.policies(), r.c.now, false)
	for _, name := range nodeNames {
		r.decide(name)
	}
	r.advance()
}

func (r *replica) seeNode(n *node) {
	seen := verdict.SeenAt(r.c.now)
	seen.Version = n.version
	r.taints[n.name] = verdict.Advance(r.taints[n.name], n.taints, seen)
	r.engine.SetTaints(n.name, r.taints[n.name])
	r.engine.MarkStale(n.name)
	r.see(n.name, r.on(n.name))
}

func (r *replica) seePod(before, after *pod) {
	if before != nil && (after == nil || after.uid != before.uid) {
		r.ends(before.uid)
		r.pods = slices.DeleteFunc(r.pods, func(p *seenPod) bool { return p.uid == before.uid })
		if is := r.tries[before.node]; is != nil && is.Forget(before.uid) {
			r.report(before.node, is)
		}
	}
	if after == nil {
		return
	}
	known := r.seen(after.uid)
	if known == nil {
		known = &seenPod{bound: verdict.SeenAt(r.c.now).Start(after.created)}
		r.pods = append(r.pods, known)
	}
	known.pod = after
	if after.terminating {
		r.ends(after.uid)
	}
	r.engine.MarkStale(after.node)
	r.see(after.node, []*seenPod{known})
}

// ends notes that a pod is terminating or gone.
func (r *replica) ends(uid types.UID) {
	p := r.there(uid)
	if p == nil {
		return
	}
	p.gone = true
	if leaver := r.leaver(p); leaver != nil && len(r.taints[p.node]) > 0 {
		r.engine.Left(leaver, r.c.now)
	} else {
		r.engine.Gone(uid, r.c.now)
	}
	r.engine.MarkStale(p.node)
	r.see(p.node, []*seenPod{p})
}

// see sees some pods of a node, or all if its taints have changed, as coexist does.
func (r *replica) see(name string, pods []*seenPod) {
	is := r.tries[name]
	if is == nil {
		if len(r.taints[name]) == 0 {
			return
		}
		is = &triedNode{}
		r.tries[name] = is
	}
	retainted := !slices.EqualFunc(is.taints, r.taints[name], verdict.Taint.Same)
	if is.taints = r.taints[name]; retainted {
		pods = r.on(name)
	}
	for _, p := range pods {
		looks := func(struct{}) bool { return retainted || len(p.tolerations) > len(p.workload.tolerations) }
		is.See(p.uid, struct{}{}, r.verdict(p, is.taints), looks, p.gone, r.c.now)
	}
	r.report(name, is)
}

// report passes on what is new about a node.
func (r *replica) report(name string, is *triedNode) {
	if len(is.taints) == 0 && !is.Tried() {
		delete(r.tries, name)
	}
	if is, news := is.Report(name, &r.due); news {
		r.hold.Decided(is, r.c.now)
	}
}

// decide tells the backlog which pods must leave a node, as eviction does.
func (r *replica) decide(name string) {
	if !r.leads {
		return
	}
	r.see(name, r.on(name))
	var leaving, dueNow []backlog.Leaving
	var due []*policy.Leaver
	for _, p := range r.on(name) {
		v := r.verdict(p, r.taints[name])
		if p.gone || !v.Leaves {
			continue
		}
		l := backlog.Leaving{UID: p.uid, Namespace: "default", Name: p.name, Group: "default", Due: v.Due}
		if !v.DueAt(r.c.now) {
			leaving = append(leaving, l)
			continue
		}
		due, dueNow = append(due, r.leaver(p)), append(dueNow, l)
	}
	for i, said := range r.engine.Look(name, due, r.c.now) {
		l := dueNow[i]
		if said.Stays() {
			l.Answer = backlog.Answer{Held: said.Again.IsZero(), After: said.Again}
		}
		if said.Step == policy.Ask {
			l.Lane = backlog.Ask
		}
		leaving = append(leaving, l)
	}
	r.backlog.Set(name, leaving, r.c.now)
}

// advance lets the engine say which nodes must be decided about again.
func (r *replica) advance() {
	r.engine.SetBudget(budgetName, r.c.allowed(), r.c.now)
	for again := true; again; again = r.leads && r.engine.Pending() {
		nodes, _, _ := r.engine.Next(r.c.now)
		for _, name := range nodes {
			r.decide(name)
		}
	}
}

// leaver returns a pod as the engine sees it; nil if no policy selects it.
func (r *replica) leaver(p *seenPod) *policy.Leaver {
	if !p.budgeted {
		return nil
	}
	return &policy.Leaver{
		UID: p.uid, Node: p.node, Taints: r.taints[p.node], By: r.policies(),
		Causes: policy.CausesOf(verdict.Rule{}, p.rule(), r.taints[p.node]),
		Pod:    &policy.Pod{Budgets: policy.BudgetsNamed(budgetName)},
	}
}

// Leaving implements [policy.Cluster].
func (r *replica) Leaving(name string, _ time.Time) (leaving []*policy.Leaver) {
	for _, p := range r.on(name) {
		if is := r.leaver(p); is != nil && !p.gone && len(is.Causes) > 0 {
			leaving = append(leaving, is)
		}
	}
	return leaving
}

// Tainted implements [policy.Cluster].
func (r *replica) Tainted() (names []string) {
	for name, taints := range r.taints {
		if len(taints) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Selected implements [policy.Cluster].
func (r *replica) Selected(*policy.Policy, int, time.Time) int { return 2 }

// Read implements [policy.Cluster]. The pods of this world are always read.
func (r *replica) Read(*policy.Leaver) {}

// write writes the account: the clock, unless it is zero, and the record of the hold. It reads first what another
// process has written.
func (r *replica) write(renewed time.Time) {
	a := &r.c.account
	if !r.current {
		if a.writer != r.name {
			r.hold.Merge(a.record, r.c.now, r.born)
		}
		r.current = true
	}
	r.hold.Restarted(r.c.now)
	next := r.hold.Record(r.c.now)
	if !next.Until.IsZero() && !r.unrecorded {
		r.written, a.record = next, next
	}
	a.renewed, a.writer = renewed, r.name
}

// isRecorded reports whether the account has what the hold requires.
func (r *replica) isRecorded() bool { return r.unrecorded || r.written.Covers(r.hold.Record(r.c.now)) }

// begin begins the next try, if there is one.
func (r *replica) begin() {
	e, _ := r.backlog.Next(r.c.now)
	if e == nil {
		return
	}
	r.try = &try{eviction: e, asks: e.Lane == backlog.Ask}
	if p := r.there(e.UID); p != nil {
		r.try.marked = p.mark == v1alpha1.MarkedByTaintkeeper
	}
}

// said is how a decision ends a try; empty if it goes on.
type said string

const (
	saidGone        said = "it is gone"
	saidCancelled   said = "it need not leave now"
	saidHeld        said = "a policy objects"
	saidUnconfirmed said = "the API server does not confirm its taints"
)

// decideAgain decides about the pod of a try, from the caches and from what the API server shows, as eviction does.
func (r *replica) decideAgain() said {
	t := r.try
	p := r.there(t.eviction.UID)
	if p == nil {
		return saidGone
	}
	taints := r.taints[p.node]
	if !r.verdict(p, taints).DueAt(r.c.now) {
		return saidCancelled
	}
	if is := r.leaver(p); is != nil {
		if d := r.engine.Decide(is, r.c.now); d.Stays() || t.asks != (d.Step == policy.Ask) {
			return saidHeld
		}
	} else if t.asks {
		return saidHeld
	}
	live := *p
	if t.live != nil {
		live.pod = t.live
	}
	confirmed := slices.DeleteFunc(slices.Clone(taints), func(known verdict.Taint) bool {
		return !slices.ContainsFunc(r.c.nodes[p.node].taints, func(is corev1.Taint) bool {
			return is.Key == known.Key && is.Value == known.Value && is.TimeAdded.Equal(known.TimeAdded)
		})
	})
	if !r.verdict(&live, confirmed).DueAt(r.c.now) {
		return saidUnconfirmed
	}
	return ""
}

// answer is how the API server answers a call that would succeed.
type answer int

const (
	answered answer = iota
	refused         // by a webhook
	lost            // it carries the call out, and the answer does not arrive
	hangs           // neither
)

// call makes the next call of the try in flight, or of the next try. It returns what happened, and which promise was
// broken.
func (r *replica) call(with answer) (line, broken string) {
	t := r.try
	name := fmt.Sprintf("%s of UID %s", t.eviction.Name, t.eviction.UID)
	if r.records() {
		return fmt.Sprintf("%s records the backlog of the built-in: %s", r.name, textOf(r.c.account.record)), ""
	}
	p := r.c.identified(t.eviction.UID)
	why := r.decideToCall(p)
	switch {
	case why == saidGone:
		r.ends(t.eviction.UID)
		fallthrough
	case why != "":
		r.settle(why)
		return fmt.Sprintf("%s does not evict pod %s: %s", r.name, name, why), ""
	case !t.asks && !t.marked:
		r.c.edit(p, func(p *pod) { p.mark = v1alpha1.MarkedByTaintkeeper })
		t.marked = true
		return fmt.Sprintf("%s marks pod %s", r.name, name), ""
	}
	return r.remove(p, name, with)
}

// records records the backlog of the built-in if that must come first. It reports whether that was a call.
func (r *replica) records() bool {
	t := r.try
	if t.recorded {
		return false
	}
	r.see(t.eviction.Node, r.on(t.eviction.Node))
	if r.isRecorded() {
		t.recorded = true
		return false
	}
	r.write(r.c.account.renewed)
	return true
}

// decideToCall decides whether the try in flight goes on, given its pod as the API server has it.
func (r *replica) decideToCall(p *pod) said {
	t := r.try
	if p == nil || p.terminating {
		return saidGone
	}
	if t.asks || t.marked { // it reads the pod first
		t.live = p
	}
	if why := r.decideAgain(); why != "" {
		return why
	}
	if !t.begun {
		if is := r.leaver(r.seen(t.eviction.UID)); is != nil && !r.engine.Begin(is, t.asks, r.c.now) {
			return saidHeld
		}
		t.begun = true
	}
	return ""
}

// remove deletes a pod, or asks the Eviction API to.
func (r *replica) remove(p *pod, name string, with answer) (line, broken string) {
	t := r.try
	verb := "deletes"
	if t.asks {
		verb = "asks the Eviction API about"
	}
	line = fmt.Sprintf("%s %s pod %s", r.name, verb, name)
	if with == refused || t.asks && r.c.allowed() == 0 {
		wait := apicall.Doubled(apicall.FirstBackoff, t.eviction.Tries+1, apicall.LastRefused)
		r.done(backlog.Failed(wait, "a webhook"), false)
		return line + ", which is refused", ""
	}
	if with == hangs {
		r.done(backlog.Hung, true)
		return line + ", which hangs", ""
	}
	broken = r.breaks(p)
	r.c.delete(p)
	if with == lost {
		r.done(backlog.Hung, true)
		return line + "; the answer is lost", broken
	}
	r.ends(p.uid)
	r.settle(saidGone)
	return line, broken
}

// breaks returns the promise that the try in flight breaks if its pod leaves now.
func (r *replica) breaks(p *pod) string {
	switch {
	case !r.c.due(p, r.c.now):
		return Deletes
	case p.budgeted && r.paused:
		return DeletesHeld
	case p.budgeted && !r.try.asks && !r.c.due(p, r.c.now.Add(-deadline)):
		return DeletesUnasked
	}
	return ""
}

// settle ends the try in flight after a decision.
func (r *replica) settle(why said) {
	node := r.try.eviction.Node
	switch why {
	case saidGone:
		r.done(backlog.Over, false)
	case saidUnconfirmed:
		r.done(backlog.Unsure(apicall.FirstBackoff), false)
	default:
		r.done(backlog.Later(apicall.FirstBackoff), false)
		r.decide(node)
		r.advance()
	}
}

// done ends the try in flight with an outcome. unanswered means that its pod may be leaving.
func (r *replica) done(outcome backlog.Outcome, unanswered bool) {
	t := r.try
	r.try = nil
	if t.begun {
		r.engine.End(t.eviction.Node, t.eviction.UID, r.there(t.eviction.UID) != nil && !unanswered, r.c.now)
	}
	if t.eviction.Cancelled() != nil && outcome != backlog.Over {
		outcome = backlog.Withdrawn
	}
	r.backlog.Done(t.eviction, outcome, r.c.now)
	r.advance()
}

// leave records what is left on nodes with due pods, and returns the names of those whose pods all leave.
func (r *replica) leave() (names []string) {
	due := r.backlog.Due(r.c.now)
	for _, name := range slices.Sorted(maps.Keys(due)) {
		var on eviction.Overdue
		spared := false
		for _, l := range due[name] {
			p := r.there(l.UID)
			if p == nil {
				continue
			}
			if is := r.leaver(p); is != nil && r.engine.Decide(is, r.c.now).Stays() {
				continue
			}
			on = eviction.Overdue{Pods: on.Pods + 1, Since: instant.Next(on.Since, l.Due)}
			spared = spared || !r.verdict(p, r.live(name)).DueAt(r.c.now)
		}
		if on.Pods == 0 {
			continue
		}
		r.hold.Leave(name, on.Pods, on.Since, spared, r.c.now)
		if !spared {
			names = append(names, name)
		}
	}
	return names
}

// live returns the taints of a node as the API server shows them now.
func (r *replica) live(name string) (all []verdict.Taint) {
	for _, taint := range r.c.nodes[name].taints {
		is := verdict.Taint{Taint: taint, Since: r.c.now}
		for _, known := range r.taints[name] {
			if known.Key == taint.Key && known.Value == taint.Value {
				is = known
			}
		}
		all = append(all, is)
	}
	return all
}

// textOf describes a record, by the time of day.
func textOf(r builtin.Record) string {
	if r.Until.IsZero() {
		return "none"
	}
	return strings.TrimSpace(fmt.Sprintf("since %s until %s %s", r.Since.Format(time.TimeOnly), r.Until.Format(time.TimeOnly), r.Spared))
}
