// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement says where the successors of the pods that leave would go. It asks the scheduler's own plugins.
//
// It runs the filters and scores of kube-scheduler's default profile on a snapshot of the cluster. A [Room] follows the
// cluster: package course tells it which pods leave and which nodes change, and places successors one by one.
//
// No other package of this module imports k8s.io/kubernetes, and no program other than the plugin imports this one,
// because that would make the controller much bigger.
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
	"k8s.io/apimachinery/pkg/util/duration"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
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

// warnings says what to look at in an answer.
func (r *Room) warnings(a Answer, from string, at time.Time) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	warn := func(kind cliv1alpha1.PlacementWarningType, message string) {
		all = append(all, cliv1alpha1.PlacementWarning{Type: kind, Message: message})
	}
	nodes := r.byName()
	if r.again == nil {
		r.again = departuresOf(nodes, at)
	}
	if a.Why != "" {
		warn(cliv1alpha1.WarningNowhere, a.Why)
	}
	if message := r.again.message(a, from); message != "" {
		warn(cliv1alpha1.WarningOutAgain, message)
	}
	return append(all, r.storage.warnings(a.successor, nodes, a.said)...)
}

// departures are the NoExecute taints of nodes after the plan. A pod that comes to such a node may leave it again.
type departures struct {
	taints map[string][]verdict.Taint
	at     time.Time
}

func departuresOf(nodes []*corev1.Node, at time.Time) *departures {
	d := &departures{taints: map[string][]verdict.Taint{}, at: at}
	for _, node := range nodes {
		if len(taints.NoExecute(node.Spec.Taints)) > 0 {
			d.taints[node.Name] = state.Tainted(node, at)
		}
	}
	return d
}

// message says that a successor would come to a node and leave it again. It is empty if none of the nodes that fit is
// such a node.
func (d *departures) message(a Answer, from string) string {
	if a.group.again == nil {
		a.group.again = d.of(a.successor)
	}
	if len(a.group.again) == 0 {
		return ""
	}
	if v, ok := a.group.again[a.Node]; ok {
		return d.sentence("goes", a.Node, from, v)
	}
	for _, place := range a.said.fits {
		if v, ok := a.group.again[a.said.name(place)]; ok {
			return d.sentence("may go", a.said.name(place), from, v)
		}
	}
	return ""
}

func (d *departures) sentence(goes, node, from string, v verdict.Verdict) string {
	to := "to "
	if node == from {
		to = "back to "
	}
	return fmt.Sprintf("It %s %s and must leave again after %s: it tolerates %s only for a while.",
		goes, to+node, duration.HumanDuration(v.Due.Sub(d.at)), taints.Format(v.Taint.Taint))
}

// of returns the nodes that may take a pod but would make it leave again, with the controller's own verdict, as if the
// pod were bound at once.
func (d *departures) of(pod *corev1.Pod) map[string]verdict.Verdict {
	all := map[string]verdict.Verdict{}
	for node, tainted := range d.taints {
		v := state.Rule.Decide(verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: d.at}, tainted)
		if v.Leaves && v.Toleration != nil {
			all[node] = v
		}
	}
	return all
}

// Notes says what the scheduler is not asked about the successors of pods, and how far its answers can be trusted. Late
// is how many fit no node at first, and bounds of how many only a bound is known.
func Notes(cluster *state.Cluster, pods []*corev1.Pod, late, bounds int) []string {
	notes, known := []string{notAskedInWords}, storageOf(cluster)
	note := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n))
		}
	}
	count := func(is func(*corev1.Pod) bool) (n int) {
		for _, pod := range pods {
			if is(pod) {
				n++
			}
		}
		return n
	}
	note(count(func(pod *corev1.Pod) bool { return len(known.knownOf(pod)) < len(pod.Spec.Volumes) }),
		"Pods that leave with volumes that are unknown, or created with the pod: %d. Their placement ignores these volumes.")
	note(count(func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }),
		"Pods that leave with resource claims (DRA): %d. Their placement ignores these claims.")
	note(count(func(pod *corev1.Pod) bool {
		return pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName
	}), "Pods that leave and name another scheduler: %d. Their placement shows what the default scheduler would do.")
	note(late, "Pods that fit no node at first, but fit one after other pods are placed or leave: %d.")
	note(bounds, "Pods for which only an upper bound on the number of nodes that fit is known, because the run time is limited: %d. Their nodes would have taken an identical pod that left earlier, but pods placed since may have filled some.")
	return notes
}
