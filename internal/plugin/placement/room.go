// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Room is the room for pods in a cluster that changes: each call changes what later calls see. It is not safe for
// concurrent use.
type Room struct {
	scheduler  *scheduler
	storage    storage
	equals     register
	nodes      map[string]*corev1.Node
	sorted     []*corev1.Node // by name; nil until it is asked for
	stale      bool           // there are changes that plugins have not been told about
	changes    int            // the number of changes
	remembered []*shape
	lowest     int32       // the lowest priority of the pods that have been there
	plain      budget      // for pods whose placement depends only on nodes
	counting   budget      // for pods whose placement depends on all pods of the cluster, and for those that wait
	again      *departures // nil until it is asked for
}

// mostRemembered limits the shapes for which a Room remembers what nodes said. Each needs some bytes per node.
const mostRemembered = 100

// Unlimited lets a Room ask nodes as often as it needs.
const Unlimited = math.MaxInt

// DefaultQuestions is how often a plan asks nodes whether they take a pod. That many questions take less than a minute
// on two cores.
const DefaultQuestions = 10_000_000

// NewRoom returns the room in a cluster. It lives as long as the context. Pods must have UIDs that are unique.
//
// Questions limits how often nodes are asked whether they take a pod. Pods with spread constraints or pod affinity, and
// pods that wait for room, have a separate limit of the same size, because counting one pod of the cluster costs a
// tenth of a question. After that, pods get the answer of an identical pod, as a bound.
func NewRoom(ctx context.Context, cluster *state.Cluster, pods []*corev1.Pod, questions int) (*Room, error) {
	r := &Room{
		storage: storageOf(cluster), equals: register{groups: map[string]*group{}, shapes: map[string]*shape{}},
		nodes: map[string]*corev1.Node{}, plain: budget{limit: questions}, counting: budget{limit: questions},
		lowest: math.MaxInt32,
	}
	for _, node := range cluster.Nodes {
		r.nodes[node.Name] = node
	}
	for _, pod := range pods {
		r.lowest = min(r.lowest, ptr.Deref(pod.Spec.Priority, 0))
	}
	var err error
	if r.scheduler, err = newScheduler(ctx, cluster, r.byName(), pods); err != nil {
		return nil, fmt.Errorf("ask where pods would go: %w", err)
	}
	return r, nil
}

// byName returns the nodes, sorted by name.
func (r *Room) byName() []*corev1.Node {
	if r.sorted == nil {
		r.sorted = slices.SortedFunc(maps.Values(r.nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	}
	return r.sorted
}

// Update replaces a node that has changed.
func (r *Room) Update(node *corev1.Node) {
	r.scheduler.updateNode(r.nodes[node.Name], node)
	r.nodes[node.Name], r.sorted = node, nil
	r.change()
}

// Terminate marks a pod as terminating. It still occupies its room.
func (r *Room) Terminate(pod *corev1.Pod) error {
	r.change()
	return r.scheduler.terminate(pod)
}

// Remove removes a pod from its node.
func (r *Room) Remove(pod *corev1.Pod) error {
	r.change()
	return r.scheduler.remove(pod)
}

func (r *Room) change() {
	r.stale = true
	r.changes++
}

// Answer says where a pod goes.
type Answer struct {
	// Node is where the scheduler would put the pod; empty if no node takes it or if that is not known.
	Node string
	// Why says why no node takes the pod, or why the scheduler cannot say; empty if a node takes it or may.
	Why string

	*leaver

	said  *answer        // nil if it was not asked, or cannot be
	state fwk.CycleState // of the filters, if no node takes it
	bound bool           // it is the answer for an identical pod that was asked about earlier
	limit *budget
}

// NeedsOthers reports whether pods elsewhere are the reason why no node takes the pod.
func (a Answer) NeedsOthers() bool { return a.Why != "" && a.said != nil && a.said.others }

// MayAsk reports whether pods that wait for room may be asked about again.
func (r *Room) MayAsk() bool { return !r.counting.isUsedUp() }

// Place puts a pod on the node that the scheduler would choose, and says which that is, or why no node takes the pod.
// Only is the only node that a DaemonSet's pod may go to, and empty for other pods. Waits is set if the pod has been
// asked about before.
func (r *Room) Place(ctx context.Context, pod *corev1.Pod, only string, waits bool) (Answer, error) {
	successor := *pod
	successor.Spec.ResourceClaims = nil
	l := &leaver{pod: pod, successor: &successor, only: only}
	successor.Spec.Volumes = r.storage.knownOf(pod)
	if err := r.enter(l); err != nil {
		return Answer{}, err
	}
	a := Answer{leaver: l, said: l.group.last, limit: &r.plain}
	if l.countsOthers() || waits {
		a.limit = &r.counting
	}
	if l.group.stillRefuses(r.changes) {
		a.Why = nowhere(a.said)
		return a, nil
	}
	if a.bound = a.limit.isUsedUp(); a.bound {
		return a, nil
	}
	if r.stale {
		if err := r.scheduler.update(); err != nil {
			return a, err
		}
		r.stale = false
	}
	q := question{scheduler: r.scheduler, pod: l.successor, group: l.group, only: only, budget: a.limit}
	said, state, err := q.ask(ctx)
	if err != nil {
		a.Why, a.said = fmt.Sprintf("The scheduler cannot be asked: %v.", err), nil
		return a, nil
	}
	a.said, l.group.last, l.group.changes = said, said, r.changes
	if len(said.fits) == 0 {
		a.Why, a.state = nowhere(said), state
		return a, nil
	}
	r.changes++
	r.lowest = min(r.lowest, ptr.Deref(pod.Spec.Priority, 0))
	if a.Node, err = r.scheduler.place(ctx, state, l, said.fits); err != nil {
		a.Node, a.Why, a.said = "", fmt.Sprintf("The scheduler cannot place it: %v.", err), nil
	}
	return a, nil
}

// enter finds the group and the shape of a pod. It remembers the answers of nodes for the most recent shapes.
func (r *Room) enter(l *leaver) error {
	if err := r.equals.enter(l); err != nil {
		return err
	}
	shape := l.group.shape
	if shape.left++; slices.Contains(r.remembered, shape) {
		return nil
	}
	if r.remembered = append(r.remembered, shape); len(r.remembered) > mostRemembered {
		r.remembered[0].known, r.remembered[0].dryRuns = nil, nil
		r.remembered = slices.Delete(r.remembered, 0, 1)
	}
	return nil
}

func nowhere(said *answer) string {
	return sentence.Part(0, said.asked, "node", "takes", "take") + " it: " + said.why() + "."
}

// maxListed is how many nodes an answer lists.
const maxListed = 100

// NoSuccessor says that a pod gets no successor, and why.
func NoSuccessor(why string) *cliv1alpha1.WhereTo {
	return &cliv1alpha1.WhereTo{Reason: why, NoSuccessor: true}
}

// WhereTo tells people where the successor of a pod on a node goes. The taints that the nodes have at an instant may
// make it leave again.
func (r *Room) WhereTo(a Answer, from string, at time.Time) *cliv1alpha1.WhereTo {
	switch {
	case a.said == nil && a.Why != "":
		return &cliv1alpha1.WhereTo{Reason: a.Why}
	case a.said == nil:
		reason := fmt.Sprintf("The scheduler was not asked about it, because the run time is limited, and %s before it used up that limit.",
			sentence.Counted(a.limit.pods, "pod"))
		if a.limit == &r.counting {
			reason += " A pod with spread constraints or pod affinity is compared with all pods."
		}
		return &cliv1alpha1.WhereTo{Reason: reason}
	case a.only != "" && a.Why != "":
		return NoSuccessor(fmt.Sprintf("Its node does not take a pod of its DaemonSet: %s.", a.said.why()))
	}
	where := &cliv1alpha1.WhereTo{Node: a.Node, Fits: len(a.said.fits), Bound: a.bound}
	for _, place := range a.said.fits[:min(len(a.said.fits), maxListed)] {
		where.Nodes = append(where.Nodes, a.said.name(place))
	}
	slices.Sort(where.Nodes)
	where.Warnings = r.warnings(a, from, at)
	_, where.LeavesAgain = a.group.again[a.Node]
	return where
}
