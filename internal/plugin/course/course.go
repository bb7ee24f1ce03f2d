// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package course plays time forward from the current state of a cluster: nodes fall silent and come back, taints
// are set and removed, and pods leave, find room and become ready. There are no ticks: a queue contains the next
// events, and time jumps from one event to the next. The same input always gives the same report.
//
// It decides nothing itself. [readiness.Play] says what happens to nodes, package verdict when pods are due, package
// policy whether they leave, and [placement.Room] where their successors go.
//
//	scenario.go   what is to happen
//	course.go     the two ways in, what follows from a change of taints, and the queue of events
//	cluster.go    nodes and pods as they are now
//	leave.go      which pods leave a node, also to make room for others
//	policies.go   what EvictionPolicies remember: breakers, paces, budgets; and ResourceQuotas
//	succeed.go    successors: when they are made, and where they go
//	volumes.go    volumes that successors wait for
//	count.go      ready replicas and healthy pods over time
//	report.go     the results, also as sentences
package course

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// DefaultStartDelay is how long a pod takes to become ready after it is bound.
const DefaultStartDelay = 5 * time.Second

// Options configure the controllers.
type Options struct {
	// At is when the simulation starts.
	At time.Time
	// Grace is how long nodes may be silent, and Policy is how fast they are tainted after that.
	Grace  readiness.Grace
	Policy readiness.Policy
	// StartDelay is how long a pod takes to become ready after it is bound.
	StartDelay time.Duration
	// WhereTo asks the scheduler's filters and scores where pods go. Without it, a pod finds room if it tolerates the
	// taints of any node, and its node stays unknown.
	WhereTo bool
	// Questions limits how often nodes are asked whether they take a pod; 0 means no limit. See [placement.NewRoom].
	Questions int
}

// simulation is a running simulation.
type simulation struct {
	cluster *state.Cluster
	options Options
	ctx     context.Context // of Run, only for the room

	start, end, now time.Time
	down            time.Time // when the API server is up again

	queue  queue
	health once
	play   *readiness.Play

	nodes       map[string]*node
	names       []string        // of the nodes, sorted
	room        *placement.Room // nil without WhereTo
	makers      placement.Controllers
	ofJob       map[types.UID][]*pod // by Job, for Jobs that have not failed
	sets        sets
	quotas      quotas
	took        *node                // the node whose taints the last pod tolerated, without WhereTo
	ending      map[time.Time][]*pod // when pods that leave are gone
	waiting     []*pod
	refused     []refused       // in this instant
	victims     map[*pod][]*pod // of the pods that have preempted others
	again       bool            // there may be new room for those that wait
	placing     once
	attachments attachments
	policies    *objecting // nil without EvictionPolicies
	builtIn     *evicting  // nil unless kube-controller-manager evicts
	budgets     policies.BudgetsOf
	allowed     map[string]*budget
	workloads   map[workloadKey]*counter
	changed     []*counter // in this instant

	outcome  *Outcome // nil in a scenario
	told     []*cliv1alpha1.SimulatedPod
	story    story
	notes    []string
	failures []error
}

// Play plays a scenario. It returns an error if a step names nodes that do not exist, if the room fails, or if the
// context ends.
func Play(
	ctx context.Context, cluster *state.Cluster, scenario *Scenario, options Options,
) (*cliv1alpha1.SimulationReport, error) {
	if err := scenario.check(cluster.Nodes); err != nil {
		return nil, err
	}
	s, err := newSimulation(ctx, cluster, options)
	if err != nil {
		return nil, err
	}
	s.end = s.start.Add(scenario.until)
	for _, is := range scenario.steps {
		s.queue.add(s.start.Add(is.at), stepped, func(now time.Time) { s.happen(is, now) })
	}
	s.health.set(s.play.Next())
	if err := s.run(); err != nil {
		return nil, err
	}
	report := s.report()
	if s.builtIn == nil {
		return report, nil
	}
	notes, err := compare(ctx, report, cluster, scenario, options)
	report.Notes = append(report.Notes, notes...)
	return report, err
}

// run lets events happen until the end.
func (s *simulation) run() error {
	for {
		event, more := s.queue.next(s.end)
		if !more || event.at.After(s.now) {
			s.record()
		}
		if s.ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err := errors.Join(s.failures...); err != nil || !more {
			return err
		}
		s.now = event.at
		event.do(event.at)
	}
}

func newSimulation(ctx context.Context, cluster *state.Cluster, options Options) (*simulation, error) {
	at := options.At.Round(0).UTC()
	s := &simulation{
		cluster: cluster, options: options, ctx: ctx, start: at, now: at,
		nodes: map[string]*node{}, budgets: cluster.BudgetsOf(), allowed: map[string]*budget{},
		workloads: map[workloadKey]*counter{}, makers: placement.ControllersOf(cluster),
		ofJob: map[types.UID][]*pod{}, sets: setsOf(cluster), quotas: quotasOf(cluster), ending: map[time.Time][]*pod{},
		victims: map[*pod][]*pod{},
		play:    readiness.NewPlay(cluster.Nodes, options.Grace, options.Policy, at),
	}
	s.health = once{queue: &s.queue, kind: health, do: s.checkHealth}
	s.placing = once{queue: &s.queue, kind: places, do: s.place}
	s.policies = s.loadPolicies()
	s.attachments.exclusive = placement.ExclusiveOf(cluster)
	s.load()
	s.loadAttachments()
	s.names = slices.Sorted(maps.Keys(s.nodes))
	s.builtIn = s.loadBuiltIn()
	s.recordFirst()
	if s.policies != nil {
		s.followPolicies(at)
	}
	for _, name := range s.names {
		if n := s.nodes[name]; len(n.taints) > 0 {
			n.look.set(at)
		}
	}
	if !options.WhereTo {
		return s, nil
	}
	// The room is what the cluster has at the start.
	var bound []*corev1.Pod
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			if !p.is.Finished {
				bound = append(bound, p.Pod)
			}
		}
	}
	var err error
	s.room, err = placement.NewRoom(ctx, cluster, bound, cmp.Or(options.Questions, placement.Unlimited))
	return s, err
}

// fail ends the simulation if there is an error.
func (s *simulation) fail(err error) {
	if err != nil {
		s.failures = append(s.failures, err)
	}
}

func (s *simulation) offset(at time.Time) metav1.Duration {
	return metav1.Duration{Duration: at.Sub(s.start)}
}

// Outcome is what follows from a change of taints until nothing is left to happen.
type Outcome struct {
	// Policies are the EvictionPolicies; nil without any.
	Policies *policies.Set
	// Pods are the due pods that policies select, by UID, of those that there are at the start.
	Pods map[types.UID]*Selected
	// Trips says which breakers open because of the change, when and why, by policy.
	Trips map[string]cliv1alpha1.PlannedPolicy
	// WhereTo says where the successors of pods go, by UID. Late is how many fit no node at first.
	WhereTo map[types.UID]*cliv1alpha1.WhereTo
	Late    int
	// Workloads are those with ready pods that leave the nodes that change or are preempted, in no particular order.
	Workloads []cliv1alpha1.PlannedWorkload
	// Came is how many pods come to each node that changes, with WhereTo.
	Came map[string]int
	// Budgets says what each PodDisruptionBudget allows at the start, and by how many it is overrun, by namespace/name.
	Budgets map[string]cliv1alpha1.PlannedBudget
	// Preempted are the pods that make room for successors, in the order in which they leave.
	Preempted []Preempted

	nodes map[string]bool // those that change
	over  bool            // nothing is left to happen, and pods leave that policies hold
}

// Selected is a due pod that policies select.
type Selected struct {
	policies.Candidate
	policies.Course

	due       time.Time // when policies were first asked
	overruled bool      // a deadline has ended
}

// Retaint plays what follows if nodes get other taints and nothing else happens: no node falls silent or is tainted
// by node health. Pods that leave get successors, which become ready and so make room in budgets. Successors stay where
// they come, so that the course ends. At most the time of [Longest] is played. At the end, the pods leave that policies
// hold, to see where their successors would go.
func Retaint(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node, options Options) (*Outcome, error) {
	options.StartDelay = DefaultStartDelay
	s, err := newSimulation(ctx, cluster, options)
	if err != nil {
		return nil, err
	}
	s.outcome = &Outcome{
		Pods: map[types.UID]*Selected{}, Trips: map[string]cliv1alpha1.PlannedPolicy{},
		WhereTo: map[types.UID]*cliv1alpha1.WhereTo{}, Came: map[string]int{},
		Budgets: map[string]cliv1alpha1.PlannedBudget{}, nodes: map[string]bool{},
	}
	if s.policies != nil {
		s.outcome.Policies = s.policies.set
	}
	s.end = s.start.Add(Longest)
	for _, node := range nodes {
		s.outcome.nodes[node.Name] = true
		s.queue.add(s.start, stepped, func(now time.Time) { s.becomes(node, now) })
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	s.sumUp()
	if !options.WhereTo {
		return s.outcome, nil
	}
	s.outcome.over = true
	for _, node := range nodes {
		s.letGo(s.nodes[node.Name])
	}
	err = s.run()
	s.tellBlocked()
	for _, p := range s.attachments.waiting {
		s.outcome.waits(p.of, s.attachments.why(p))
	}
	return s.outcome, err
}

// loses counts a pod that leaves, if it is ready.
func (c *Outcome) loses(p *pod) {
	if p.counted && p.workload != nil {
		p.workload.leave++
	}
}

// sumUp says what the course did to workloads, budgets and nodes.
func (s *simulation) sumUp() {
	for key, c := range s.workloads {
		if c.leave > 0 {
			s.outcome.Workloads = append(s.outcome.Workloads, cliv1alpha1.PlannedWorkload{
				Owner: key.owner, Namespace: key.namespace, Replicas: c.first(), Leave: c.leave, Lowest: c.lowest().Ready,
			})
		}
	}
	for name := range s.outcome.nodes {
		for _, p := range s.nodes[name].pods {
			s.outcome.Came[name] += count(p.asked)
		}
	}
	for name, b := range s.allowed {
		allowed := b.allowedFirst()
		s.outcome.Budgets[name] = cliv1alpha1.PlannedBudget{
			Namespace: b.Namespace, Name: b.Name, Allowed: int32(allowed),
			Breach: max(b.first()-b.lowest().Ready-allowed, 0),
		}
	}
}

// letGo lets the pods leave that must leave a node.
func (s *simulation) letGo(n *node) {
	for _, p := range slices.Clone(n.pods) {
		if p.first && (p.begun && p.stage == bound || s.decided(p, n).Leaves) {
			s.leave(p, s.now)
		}
	}
}

// goes records where the successor of a pod goes, if it is known. Of is nil for a pod that waited for a node at the
// start.
func (c *Outcome) goes(of *pod, where *cliv1alpha1.WhereTo) {
	if of == nil || !of.first || where == nil {
		return
	}
	if before := c.WhereTo[of.UID]; before != nil && before.Node == "" && where.Node != "" {
		c.Late++
	}
	c.WhereTo[of.UID] = where
}

// waits warns that the successor of a pod has a node, but waits for a volume without end.
func (c *Outcome) waits(of *pod, why string) {
	if of == nil || !of.first || c.WhereTo[of.UID] == nil {
		return
	}
	warning := cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningVolume, Message: why}
	c.WhereTo[of.UID].Warnings = append(c.WhereTo[of.UID].Warnings, warning)
}

// hears records what policies say about a due pod.
func (c *Outcome) hears(about *policy.Leaver, l leaver, said policy.Said, node policies.Node, now time.Time) {
	if len(about.By) == 0 || c.over || !l.first {
		return
	}
	is := c.Pods[l.UID]
	if is == nil {
		is = &Selected{Candidate: policies.Candidate{Pod: l.is, Node: node, By: about.By, Causes: about.Causes}, due: now}
		c.Pods[l.UID] = is
	}
	if is.due.Equal(now) { // the last answer of an instant counts
		is.First, is.Last = said.Answer, policy.Answer{}
	}
	is.overruled = is.overruled || is.Last.EndsByDeadline() && is.Last.Until.Equal(now)
	if said.Stays() {
		is.Last = said.Answer
		return
	}
	is.Leaves, is.Asks, is.Deletes = now, said.Step == policy.Ask, said.Until
	if is.overruled && !is.Asks {
		is.Deletes = now
	}
}

// flips records that a breaker opens for the first time, and why; why is empty if it closes.
func (c *Outcome) flips(p *policy.Policy, why string, now time.Time) {
	if _, again := c.Trips[p.Name]; why != "" && !again && !p.DryRun && !c.over {
		c.Trips[p.Name] = cliv1alpha1.PlannedPolicy{TripsAt: policies.MicroTime(now), Trips: why}
	}
}

// kind is the kind of an event. Events at the same instant happen in this order.
type kind int

const (
	stepped      kind = iota // a step of the scenario
	health                   // node health looks at nodes
	policiesTurn             // breakers count due pods, and pods that wait get free places of paces and budgets
	looks                    // the pods of a node are checked
	calls                    // kube-controller-manager makes calls
	freed                    // pods that wait get the places of those that have left
	places                   // successors look for room
	ends                     // pods that leave are gone
	attaches                 // pods that wait for volumes try to attach them
	starts                   // a pod becomes ready
)

// event is something that happens at an instant.
type event struct {
	at       time.Time
	kind     kind
	sequence int
	do       func(now time.Time)
}

// queue contains future events, ordered by time, kind and sequence.
type queue struct {
	events events
	last   int
}

func (q *queue) add(at time.Time, kind kind, do func(now time.Time)) {
	q.last++
	heap.Push(&q.events, event{at, kind, q.last, do})
}

// next removes and returns the next event, if it is not after the given instant.
func (q *queue) next(until time.Time) (event, bool) {
	if len(q.events) == 0 || q.events[0].at.After(until) {
		return event{}, false
	}
	return heap.Pop(&q.events).(event), true
}

// once is one kind of event about one object. Only the earliest such event counts.
type once struct {
	queue *queue
	kind  kind
	do    func(now time.Time)
	at    time.Time // of the event that counts; zero if there is none
}

// set schedules the event at an instant, unless it happens earlier anyway. A zero instant means never.
func (o *once) set(at time.Time) {
	if at.IsZero() || !o.at.IsZero() && !at.Before(o.at) {
		return
	}
	o.at = at
	o.queue.add(at, o.kind, func(now time.Time) {
		if now.Equal(o.at) {
			o.at = time.Time{}
			o.do(now)
		}
	})
}

// events implements [heap.Interface].
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }

func (e events) Less(i, j int) bool {
	a, b := e[i], e[j]
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.sequence, b.sequence)) < 0
}

func (e *events) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return popped
}
