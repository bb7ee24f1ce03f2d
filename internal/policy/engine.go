// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Engine is what all policies remember: which breakers are open, who has the places of paces and budgets and who is
// next in line, since when pods have been due, and what has halted them. It has no clock and no lock: its caller passes
// the time, and one call at a time.
//
// It knows the policies from [Engine.Follow] and asks a [Cluster] about pods. Whenever an answer may have changed
// although nobody asked, [Engine.Next] says about which nodes. Call it at the instant that it returned last, and as
// soon as [Engine.Pending] is true.
type Engine struct {
	// Exact is set if what budgets allow is never out of date, so that none that allows nothing is asked about.
	Exact bool

	cluster Cluster
	gather  time.Duration
	pending bool

	breakers map[string]*breaker // by policy
	counting bool                // a policy has a breaker or can halt pods
	demands  map[string]nodeDemand
	total    map[string]*Demand // by policy, the sum of the demands of all nodes
	stale    map[string]struct{}
	recount  time.Time // when the demand of a node changes with time, or before that; zero if none does
	gathered time.Time // until when changes are gathered; zero if there are none

	paces   map[string]*paced     // by policy
	budgets map[string]*Allowance // by NAMESPACE/NAME
	line    *Line
	begun   map[types.UID][]Places // what evictions that have begun have taken

	sights sights
}

// Cluster is what an [Engine] asks about the pods and nodes of a cluster. It must not call the Engine.
type Cluster interface {
	// Leaving returns the pods that must leave a node, now or later, and that policies select.
	Leaving(node string, now time.Time) []*Leaver
	// Tainted returns the nodes with NoExecute taints.
	Tainted() []string
	// Selected returns how many pods a policy selects. An estimate must be too low rather than too high. It is told how
	// many would leave.
	Selected(p *Policy, leave int, now time.Time) int
	// Read is called when an answer depends on what has not been read of a pod.
	Read(pod *Leaver)
}

// Leaver is a pod that must leave its node, now or later, because of NoExecute taints.
type Leaver struct {
	UID        types.UID
	Node, Zone string
	// Taints are all NoExecute taints of the node.
	Taints []verdict.Taint
	// Causes are those because of which the pod must leave. The Engine adds since when it has seen that and what has
	// halted the pod.
	Causes []Cause
	// By are the policies that select the pod.
	By []*Policy
	*Pod
	// Memo belongs to the [Cluster].
	Memo any
}

// NewEngine returns an Engine without policies. It gathers changes for some time before it counts them for breakers
// without being asked, so that it counts changes that come together only once.
func NewEngine(cluster Cluster, gather time.Duration) *Engine {
	return &Engine{
		cluster: cluster, gather: gather,
		breakers: map[string]*breaker{}, demands: map[string]nodeDemand{}, total: map[string]*Demand{},
		stale: map[string]struct{}{}, paces: map[string]*paced{}, budgets: map[string]*Allowance{}, line: NewLine(),
		begun: map[types.UID][]Places{}, sights: sights{},
	}
}

// Follow replaces the policies. What is remembered about one continues if it has the same name. Of one that is new,
// its status says whether its breaker has tripped. How many pods have left at its pace is not known, unless it is known
// to be new in the cluster, too.
func (e *Engine) Follow(all []*Policy, now time.Time, isNew bool) {
	e.followBreakers(all)
	e.followPaces(all, now, isNew)
	e.MarkAllStale()
}

// Pending reports whether [Engine.Next] has something to do.
func (e *Engine) Pending() bool { return e.pending }

// Next counts for all breakers and gives free places to the pods that are next in line. It returns the nodes about
// whose pods the answers may have changed, the policies whose breakers have opened or closed, and when to call it again
// if nothing happens; zero if time alone changes nothing.
func (e *Engine) Next(now time.Time) (nodes, flipped []string, again time.Time) {
	called, again := e.line.Call(now)
	if e.line.Empty() {
		e.forgetIdle(now)
	}
	e.pending = false
	if e.gathers(now) {
		again = instant.Next(again, e.gathered)
	} else {
		var news bool
		var next time.Time
		if flipped, news, next = e.lookAtBreakers(now); news {
			e.MarkAllStale() // whom a breaker halts
			for _, node := range e.cluster.Tainted() {
				called[node] = struct{}{}
			}
		}
		again = instant.Next(again, next)
	}
	return slices.Sorted(maps.Keys(called)), flipped, again
}

// Look returns what the policies say about the due pods of a node, which are nil if no policy selects them. Those that
// lack places wait for them in line until the next look, and no other pods of the node do.
func (e *Engine) Look(node string, due []*Leaver, now time.Time) []Said {
	said, waiting := make([]Said, len(due)), make([]Waiting, 0, len(due))
	for i, pod := range due {
		if pod == nil {
			continue
		}
		d := e.Decide(pod, now)
		said[i] = d.Said
		if len(d.places) > 0 {
			waiting = append(waiting, Waiting{UID: pod.UID, Due: d.needs.Due, Needs: d.places})
		}
	}
	if e.line.Set(node, waiting, now) {
		e.pending = true
	}
	return said
}

// Decision is what the policies say about a pod at an instant, and why.
type Decision struct {
	Said

	pod    *Pod  // as far as the answer depends on it
	needs  Needs // whether it has them or not
	places []Places
	state  func(*Policy) State
}

// Decide says whether a pod that is due may leave. Places are scarce, so a pod needs places in its budget and in paces
// only if nothing else objects: while another policy holds the pod, they would be wasted.
func (e *Engine) Decide(pod *Leaver, now time.Time) Decision {
	e.count(now)
	e.note(pod, now)
	d := Decision{pod: pod.Pod, state: e.state}
	d.Said = Decide(pod.By, d.pod, pod.Causes, now, d.state)
	d.Again = instant.Next(d.Again, pod.Turns)
	if d.Stays() {
		if d.Why == PodUnread && pod.Budgets.Objects == PodUnread {
			e.cluster.Read(pod)
		}
		return d
	}
	d.needs = NeedsOf(pod.By, d.pod, pod.Causes, now, d.state)
	d.places = e.places(pod, d.needs, now)
	if Has(pod.UID, d.places, now) {
		return d
	}
	without := *pod.Pod
	without.Budgets = e.objection(pod, d.needs, now)
	d.pod, d.state = &without, Full(e.state)
	d.Answer = Decide(pod.By, d.pod, pod.Causes, now, d.state).Answer
	if d.Step == Ask && d.needs.Budget { // free places now are for pods that are next in line
		without.Budgets.Objects = BudgetBusy
		d.Answer = Decide(pod.By, d.pod, pod.Causes, now, d.state).Answer
	}
	return d
}

// Alone returns what one policy alone would say in earnest about the pod that a decision is about.
func (d *Decision) Alone(p *Policy, causes []Cause, now time.Time) Said {
	return Decide([]*Policy{p.InEarnest()}, d.pod, causes, now, d.state)
}

// Begin takes the places of a pod until End, when its eviction begins with a delete or a request to the Eviction API.
// It reports false if the pod may not leave that way now.
func (e *Engine) Begin(pod *Leaver, asks bool, now time.Time) bool {
	d := e.Decide(pod, now)
	if d.Stays() || asks != (d.Step == Ask) {
		return false
	}
	e.line.Begin(pod.Node, pod.UID)
	takes := Needs{Paces: Counting(pod.By, pod.Taints), Budget: asks && d.needs.Budget}
	e.begun[pod.UID] = e.places(pod, takes, now)
	for _, places := range e.begun[pod.UID] {
		places.Begin(pod.UID, now)
	}
	e.pending = true
	return true
}

// End is called when an eviction that has begun has ended. It is told whether the pod is known to stay. If not, the pod
// counts as having left.
func (e *Engine) End(node string, pod types.UID, stays bool, now time.Time) {
	if !stays {
		e.Gone(pod, now)
		return
	}
	for _, places := range e.begun[pod] {
		places.Stays(pod)
	}
	delete(e.begun, pod)
	e.line.Stays(node, pod, now)
	e.pending = true
}

// Left counts a pod that starts to leave a node, no matter who deleted it. Neither its causes nor its state count.
func (e *Engine) Left(pod *Leaver, now time.Time) {
	for _, w := range e.windows(pod, Counting(pod.By, pod.Taints)) {
		w.Left(pod.UID, now)
	}
	e.sights.forget(pod.Node, pod.UID, pod.Taints)
	e.Gone(pod.UID, now)
}

// Gone counts a pod that is gone, in all places that its eviction has taken.
func (e *Engine) Gone(pod types.UID, now time.Time) {
	for _, places := range e.begun[pod] {
		places.Left(pod, now)
	}
	delete(e.begun, pod)
	e.pending = true
}

// Assume notes that a pod was seen as due as soon as it was due, and not only now.
func (e *Engine) Assume(pod *Leaver) {
	for i := range pod.Causes {
		e.sights.note(pod.Node, pod.UID, pod.Causes[i:i+1], pod.Causes[i].Due)
	}
}

// SetTaints forgets what is remembered about the taints that a node no longer has.
func (e *Engine) SetTaints(node string, taints []verdict.Taint) { e.sights.keep(node, taints) }

// note notes in the causes of a pod that are due since when they have been seen, and whether a pause or an open breaker
// keeps it.
func (e *Engine) note(pod *Leaver, now time.Time) {
	e.sights.note(pod.Node, pod.UID, pod.Causes, now)
	for i := range pod.Causes {
		if cause := &pod.Causes[i]; !cause.Due.After(now) {
			on := Halts(pod.By, *cause, now, e.IsOpen)
			cause.Halt = e.sights.halt(pod.Node, pod.UID, cause.Taint, on, now)
		}
	}
}
