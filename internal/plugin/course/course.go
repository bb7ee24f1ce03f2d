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
//	retaint.go    what follows from one change of taints, for a plan
//	queue.go      what happens next
//	simulate.go   the loop, and what each kind of event does
//	cluster.go    nodes and pods as they are now
//	leave.go      which pods leave a node, and which EvictionPolicies hold
//	policies.go   what the policies remember: breakers, paces, budgets
//	quota.go      ResourceQuotas that refuse successors
//	succeed.go    successors: when they are made, and where they go
//	preempt.go    pods that make room for successors
//	volumes.go    volumes that successors wait for
//	ordered.go    StatefulSets that create their pods in order
//	count.go      ready replicas and healthy pods over time
//	report.go     the results; story.go has them as sentences
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
	s := newSimulation(ctx, cluster, options)
	if options.WhereTo {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
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

func newSimulation(ctx context.Context, cluster *state.Cluster, options Options) *simulation {
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
			s.lookAt(n, at)
		}
	}
	return s
}

// makeRoom creates the room that the cluster has at the start.
func (s *simulation) makeRoom() (err error) {
	var bound []*corev1.Pod
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			if !p.is.Finished {
				bound = append(bound, p.Pod)
			}
		}
	}
	s.room, err = placement.NewRoom(s.ctx, s.cluster, bound, cmp.Or(s.options.Questions, placement.Unlimited))
	return err
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
