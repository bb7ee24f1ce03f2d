// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// DefaultQuestions is the default of [Options]: how often nodes are asked whether they take a pod. That many questions
// take less than a minute on two cores.
const DefaultQuestions = 10_000_000

// maxListed is how many nodes an answer lists.
const maxListed = 100

// Options limit the work.
type Options struct {
	// Questions is how often nodes may be asked whether they take a pod; 0 means [DefaultQuestions]. Pods with spread
	// constraints or pod affinity have a separate limit of the same size, because counting one pod of the cluster costs a
	// tenth of a question. After that, pods get the answer of an identical pod, as a bound.
	Questions int
}

// Place sets WhereTo of all pods of a plan that leave, counts them in the summary, and notes what was not asked.
//
// Pods leave when policies let them go. Pods that leave at the same time are removed first. Then their successors
// are placed in the order of the scheduler's queue, by priority, each after the one before it. A successor that fits no
// node is tried again after others are placed or leave, if that may change the answer.
func Place(ctx context.Context, cluster *state.Cluster, made *cliv1alpha1.TaintPlan, options Options) error {
	if made.Summary.Leave == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx) // stops the background work of the scheduler
	defer cancel()
	p, err := newPlacer(ctx, cluster, made, cmp.Or(options.Questions, DefaultQuestions))
	if err != nil {
		return fmt.Errorf("ask where pods would go: %w", err)
	}
	for _, batch := range p.batches(made.At) {
		if err := p.leave(ctx, batch); err != nil {
			return fmt.Errorf("ask where pods would go: %w", err)
		}
	}
	p.warnOfSpread(cluster)
	made.Notes = append(made.Notes, p.notes(cluster)...)
	count(made)
	return nil
}

// placer places successors one by one.
type placer struct {
	scheduler   *scheduler
	storage     storage
	controllers Controllers
	silent      map[string]bool // nodes whose pods stay terminating
	nodes       []*corev1.Node  // with their taints after the plan, sorted by name
	byName      map[string]*corev1.Node
	again       departures
	leavers     []*leaver
	waiting     []*leaver // those that no node has taken so far
	changes     int       // how often pods were placed or left
	late        int       // how many were placed that fit no node at first
	lowest      int32     // the lowest priority of all pods on nodes
	plain       budget    // for pods whose placement depends only on nodes
	counting    budget    // for pods whose placement depends on all pods of the cluster
	unknown     int       // pods with unknown volumes
}

func newPlacer(ctx context.Context, cluster *state.Cluster, made *cliv1alpha1.TaintPlan, limit int) (*placer, error) {
	p := &placer{
		storage: storageOf(cluster), controllers: ControllersOf(cluster), byName: map[string]*corev1.Node{},
		silent: map[string]bool{}, lowest: math.MaxInt32,
		plain: budget{limit: limit}, counting: budget{limit: limit},
	}
	var err error
	if p.nodes, err = nodesAfter(cluster, made); err != nil {
		return nil, err
	}
	for _, node := range p.nodes {
		p.byName[node.Name] = node
		p.silent[node.Name] = readiness.IsUnknown(node) && !state.IsOutOfService(node)
	}
	p.again = departuresOf(p.nodes, made.At.Time)
	pods := map[types.NamespacedName]*corev1.Pod{}
	var bound []*corev1.Pod
	for _, pod := range cluster.Pods {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		if pods[key] != nil || pod.Spec.NodeName == "" {
			continue
		}
		pods[key] = state.WithUID(pod)
		if !state.IsFinished(pod) {
			bound = append(bound, pods[key])
			p.lowest = min(p.lowest, ptr.Deref(pod.Spec.Priority, 0))
		}
	}
	if err := p.line(made, pods); err != nil {
		return nil, err
	}
	p.scheduler, err = newScheduler(ctx, cluster, p.nodes, bound)
	return p, err
}

// nodesAfter returns the nodes with their taints after the plan, sorted by name.
func nodesAfter(cluster *state.Cluster, made *cliv1alpha1.TaintPlan) ([]*corev1.Node, error) {
	changed := map[string][]string{}
	for i := range made.Nodes {
		changed[made.Nodes[i].Name] = made.Nodes[i].After
	}
	nodes := slices.Clone(cluster.Nodes)
	for i, node := range nodes {
		specs, ok := changed[node.Name]
		if !ok {
			continue
		}
		after := *node
		after.Spec.Taints = nil
		for _, spec := range specs {
			taint, err := taints.Parse(spec)
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", node.Name, err)
			}
			after.Spec.Taints = append(after.Spec.Taints, taint)
		}
		nodes[i] = &after
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

// line creates the successors, and groups those that are equal.
func (p *placer) line(made *cliv1alpha1.TaintPlan, pods map[types.NamespacedName]*corev1.Pod) error {
	equals := register{groups: map[string]*group{}, shapes: map[string]*shape{}}
	for i := range made.Pods {
		planned := &made.Pods[i]
		pod := pods[types.NamespacedName{Namespace: planned.Namespace, Name: planned.Name}]
		if !planned.Leaves || pod == nil {
			continue
		}
		l := &leaver{planned: planned, pod: pod}
		p.leavers = append(p.leavers, l)
		if reason := p.whyNone(pod); reason != "" {
			planned.WhereTo = noSuccessor(reason)
			continue
		}
		l.succeed()
		if l.leaveOut(p.storage) > 0 {
			p.unknown++
		}
		if err := equals.enter(l); err != nil {
			return err
		}
	}
	return nil
}

// whyNone says why a pod gets no successor. It is empty if it gets one.
func (p *placer) whyNone(pod *corev1.Pod) string {
	if why := p.controllers.WhyWait(pod); why != "" && p.silent[pod.Spec.NodeName] {
		return "Its node is unreachable, so the pod stays Terminating. " + why
	}
	return p.controllers.WhyNone(pod)
}

func noSuccessor(reason string) *cliv1alpha1.WhereTo {
	return &cliv1alpha1.WhereTo{Reason: reason, NoSuccessor: true}
}

// batches groups the pods by the time at which they leave, in that order. Those that policies hold without an end are
// last.
func (p *placer) batches(at metav1.MicroTime) [][]*leaver {
	leaves := func(l *leaver) time.Time {
		if at := l.planned.LeavesAt(at); at != nil {
			return at.Time
		}
		return verdict.Latest
	}
	slices.SortStableFunc(p.leavers, func(a, b *leaver) int { return leaves(a).Compare(leaves(b)) })
	var all [][]*leaver
	var last time.Time
	for _, l := range p.leavers {
		if at := leaves(l); len(all) == 0 || !at.Equal(last) {
			all = append(all, nil)
			last = at
		}
		all[len(all)-1] = append(all[len(all)-1], l)
	}
	for _, batch := range all {
		slices.SortStableFunc(batch, byPriority)
	}
	return all
}

// leave removes pods from their nodes and places their successors.
func (p *placer) leave(ctx context.Context, batch []*leaver) error {
	var gone []*corev1.Pod
	for _, l := range batch {
		if state.IsFinished(l.pod) {
			continue
		}
		p.controllers.Lose(l.pod)
		gone = append(gone, l.pod)
		leave := p.scheduler.remove
		if p.silent[l.pod.Spec.NodeName] {
			leave = p.scheduler.terminate
		}
		if err := leave(l.pod); err != nil {
			return err
		}
	}
	if err := p.scheduler.update(); err != nil {
		return err
	}
	p.changes++
	queue := append(p.take(func(l *leaver) bool { return p.mayHelp(l, gone) }), batch...)
	slices.SortStableFunc(queue, func(a, b *leaver) int { return cmp.Compare(b.planned.Priority, a.planned.Priority) })
	for len(queue) > 0 {
		before := p.changes
		if err := p.placeAll(ctx, queue); err != nil || p.changes == before {
			return err
		}
		queue = p.take(func(l *leaver) bool { return l.group.last.others })
	}
	return nil
}

// take returns the waiting pods to ask about again. It returns none when the limit of questions is used up.
func (p *placer) take(again func(*leaver) bool) []*leaver {
	if p.counting.isUsedUp() {
		return nil
	}
	var taken, left []*leaver
	for _, l := range p.waiting {
		if again(l) {
			taken = append(taken, l)
		} else {
			left = append(left, l)
		}
	}
	p.waiting = left
	return taken
}

// mayHelp reports whether a successor that fit no node may fit one now that other pods have left: it waits for pods
// elsewhere, or tolerates the taints of their nodes.
func (p *placer) mayHelp(l *leaver, gone []*corev1.Pod) bool {
	return l.group.last.others || slices.ContainsFunc(gone, func(pod *corev1.Pod) bool {
		node := p.byName[pod.Spec.NodeName]
		if node == nil {
			return false
		}
		_, untolerated := state.Rule.Matcher.Untolerated(node.Spec.Taints, l.successor.Spec.Tolerations)
		return !untolerated
	})
}

// placeAll places successors one by one.
func (p *placer) placeAll(ctx context.Context, queue []*leaver) error {
	for _, l := range queue {
		if l.successor == nil {
			continue
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		again := l.planned.WhereTo != nil
		where := p.successorOf(ctx, l)
		l.planned.WhereTo = where
		switch {
		case isNowhere(where):
			p.waiting = append(p.waiting, l)
		case again && where.Node != "":
			p.late++
		}
		if again {
			continue
		}
		if l.group.shape.left--; l.group.shape.left == 0 {
			l.group.shape.known = nil
		}
	}
	return nil
}

func isNowhere(where *cliv1alpha1.WhereTo) bool {
	return where.Reason == "" && !where.Bound && where.Node == ""
}

// successorOf says where the successor of a pod goes, or why it has none.
func (p *placer) successorOf(ctx context.Context, l *leaver) *cliv1alpha1.WhereTo {
	if reason := p.whyNone(l.pod); reason != "" {
		return noSuccessor(reason)
	}
	where := p.whereTo(ctx, l)
	if l.only != "" && isNowhere(where) {
		return noSuccessor(fmt.Sprintf("Its node does not take a pod of its DaemonSet: %s.", l.group.last.why()))
	}
	return where
}

// whereTo asks about one successor and places it.
func (p *placer) whereTo(ctx context.Context, l *leaver) *cliv1alpha1.WhereTo {
	said, state, err := l.group.last, fwk.CycleState(nil), error(nil)
	if !l.group.stillRefuses(p.changes) {
		budget := p.budgetOf(l)
		switch {
		case budget.isUsedUp() && l.planned.WhereTo != nil:
			return l.planned.WhereTo
		case budget.isUsedUp():
			return p.bound(l)
		}
		q := question{scheduler: p.scheduler, pod: l.successor, group: l.group, only: l.only, budget: budget}
		if said, state, err = q.ask(ctx); err != nil {
			return &cliv1alpha1.WhereTo{Reason: fmt.Sprintf("The scheduler cannot be asked: %v.", err)}
		}
		l.group.last, l.group.changes = said, p.changes
	}
	where := told(said)
	if len(said.fits) > 0 {
		if where.Node, err = p.scheduler.place(ctx, state, l, said.fits); err != nil {
			return &cliv1alpha1.WhereTo{Reason: fmt.Sprintf("The scheduler cannot place it: %v.", err)}
		}
		p.changes++
	}
	where.Warnings = p.warnings(l, said, where.Node)
	return where
}

// budgetOf returns the budget for the questions about a pod. Asking again counts as a question that depends on other
// pods.
func (p *placer) budgetOf(l *leaver) *budget {
	if l.countsOthers() || l.planned.WhereTo != nil {
		return &p.counting
	}
	return &p.plain
}

// bound gives a pod the last answer for an identical pod.
func (p *placer) bound(l *leaver) *cliv1alpha1.WhereTo {
	budget := p.budgetOf(l)
	if l.group.last == nil {
		reason := fmt.Sprintf("The scheduler was not asked about it, because the run time is limited, and %s before it used up that limit.", sentence.Counted(budget.pods, "pod"))
		if budget == &p.counting {
			reason += " A pod with spread constraints or pod affinity is compared with all pods."
		}
		return &cliv1alpha1.WhereTo{Reason: reason}
	}
	where := told(l.group.last)
	where.Bound = true
	where.Warnings = p.warnings(l, l.group.last, "")
	return where
}

func told(said *answer) *cliv1alpha1.WhereTo {
	where := &cliv1alpha1.WhereTo{Fits: len(said.fits)}
	for _, place := range said.fits[:min(len(said.fits), maxListed)] {
		where.Nodes = append(where.Nodes, said.name(place))
	}
	slices.Sort(where.Nodes)
	return where
}

func count(made *cliv1alpha1.TaintPlan) {
	for i := range made.Pods {
		where := made.Pods[i].WhereTo
		switch {
		case where == nil:
		case where.NoSuccessor:
			made.Summary.NoSuccessor++
		case where.Reason != "":
		case where.Bound:
			made.Summary.Bounds++
		case isNowhere(where):
			made.Summary.Nowhere++
		default:
			made.Summary.Placed++
		}
	}
}
