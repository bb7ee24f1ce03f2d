// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// succeed lets the controller of a pod create the next one. If a pod left before it was ready, its successor comes
// after the start delay. Otherwise pods would come and go without time passing.
func (s *simulation) succeed(p *pod, now time.Time) {
	if !p.is.Finished {
		s.makers.Lose(p.Pod)
		if s.makers.WhyFails(p.Pod) != "" { // pods that taints evict at the same instant go first
			s.queue.add(now, looks, func(now time.Time) { s.failJob(p, now) })
		}
	}
	if why := s.makers.WhyUnknown(p.Pod); why != "" {
		s.noSuccessor(p, &cliv1alpha1.WhereTo{Reason: why})
		return
	}
	if why := s.makers.WhyNone(p.Pod); why != "" {
		s.noSuccessor(p, placement.NoSuccessor(why))
		return
	}
	next := s.newPod(s.successorOf(p))
	next.number = p.number + 1
	if metav1.GetControllerOfNoCopy(p.Pod).Kind == "DaemonSet" {
		next.only = p.on
	}
	if next.of = p; p.told != nil {
		p.told.Successor = next.Name
	}
	s.waiting = append(s.waiting, next)
	next.after = now.Add(s.makers.Backoff(p.Pod))
	if !p.first && !p.ready {
		next.after = instant.Later(next.after, now.Add(max(s.options.StartDelay, time.Second)))
	}
	// All pods that its Job has yet to create wait at least until this one is created.
	for _, other := range s.ofJob[metav1.GetControllerOfNoCopy(next.Pod).UID] {
		if other.stage == waiting && other.after.After(now) {
			other.after = instant.Later(other.after, next.after)
		}
	}
	next.is.NotReady = next.after
	s.placing.set(next.after)
}

// successorOf returns the pod that the controller of a pod creates next. A course that asks for no room shares the pod
// with its successor, as they differ only in what nobody asks: there are many.
func (s *simulation) successorOf(p *pod) *corev1.Pod {
	if s.outcome != nil && s.room == nil && !slices.ContainsFunc(p.Spec.Tolerations, taints.IsForNoTime) {
		return p.Pod
	}
	return placement.SuccessorOf(p.Pod, fmt.Sprintf("%s~%d", p.base(), p.number+1))
}

// base is the name of a pod, or that of the first of its predecessors.
func (p *pod) base() string {
	base, _, _ := strings.Cut(p.Name, "~")
	return base
}

// noSuccessor reports that a pod that leaves gets no successor, or that this is not known, and why.
func (s *simulation) noSuccessor(p *pod, why *cliv1alpha1.WhereTo) {
	unknown := !why.NoSuccessor
	if unknown && p.workload != nil {
		p.workload.unknown = true
	}
	if p.told != nil {
		p.told.Successor, p.told.NoSuccessor, p.told.SuccessorUnknown = "", why.Reason, unknown
	}
	if s.outcome != nil {
		s.outcome.goes(p, why)
	}
}

// place looks for room for the waiting pods, in the order of the scheduler's queue: for new ones, for all if there may
// be new room, and for those that need others after one is placed. After the first pod that finds no room, it does not
// try equal pods.
func (s *simulation) place(now time.Time) {
	if now.Before(s.down) {
		s.placing.set(s.down)
		return
	}
	slices.SortStableFunc(s.waiting, (*pod).compareInQueue)
	again := s.again
	s.again = false
	placed := s.placeAll(now, func(p *pod) bool { return again || !p.asked })
	for placed && s.room != nil {
		placed = s.placeAll(now, func(p *pod) bool { return p.needsOthers })
	}
}

// compareInQueue compares pods that wait, the first in the queue first: by priority, then by when they are created. Of
// those created in the same instant, some have looked for room before others were created.
func (p *pod) compareInQueue(other *pod) int {
	if order := cmp.Compare(ptr.Deref(other.Spec.Priority, 0), ptr.Deref(p.Spec.Priority, 0)); order != 0 {
		return order
	}
	if order := p.after.Compare(other.after); order != 0 {
		return order
	}
	if p.asked != other.asked {
		return count(other.asked) - count(p.asked)
	}
	return cmp.Or(cmp.Compare(p.Namespace, other.Namespace), cmp.Compare(p.base(), other.base()))
}

// placeAll looks for room for those of the waiting pods that try selects, and reports whether any was placed.
func (s *simulation) placeAll(now time.Time, try func(*pod) bool) (placed bool) {
	refused := map[string]refusal{} // by what equal pods have in common
	all, kept := s.waiting, s.waiting[:0:0]
	s.waiting = nil // pods that are preempted get successors meanwhile
	for _, p := range all {
		switch {
		case p.after.After(now):
			s.placing.set(p.after)
		case !try(p):
		case s.sets.blocks(p):
			continue
		case s.isOverQuota(p):
		case s.placed(p, refused, now):
			placed = true
			continue
		case s.outcome != nil && s.room == nil: // taints change only at the start of a course
			continue
		}
		kept = append(kept, p)
	}
	s.waiting = append(kept, s.waiting...)
	return placed
}

// isOverQuota reports whether a quota refuses a pod, which then waits.
func (s *simulation) isOverQuota(p *pod) bool {
	why := s.quotas.admit(p)
	if why == "" {
		return false
	}
	warning := cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningNowhere, Message: why}
	s.waits(p, refusal{why: why, whereTo: &cliv1alpha1.WhereTo{Warnings: []cliv1alpha1.PlacementWarning{warning}}})
	return true
}

// refusal is why no node takes a pod.
type refusal struct {
	why         string
	whereTo     *cliv1alpha1.WhereTo // in a course
	needsOthers bool
	preemption  placement.Preemption // of pods that make room
}

// looks reports whether a pod looks for room: its controller creates it, and the room may be asked again.
func (s *simulation) looks(p *pod) bool {
	roomSaysWhy := s.outcome != nil && s.room != nil
	if p.only != nil && !roomSaysWhy && !s.admits(p.only, p) {
		return false
	}
	return !p.asked || s.room == nil || s.room.MayAsk()
}

// placed reports whether a pod finds room, and binds it if it does.
func (s *simulation) placed(p *pod, refused map[string]refusal, now time.Time) bool {
	if !s.looks(p) {
		return false
	}
	like := likeOf(p)
	if is, known := refused[like]; known && like != "" {
		s.waits(p, is)
		return false
	}
	n, is, err := s.find(p)
	switch {
	case err != nil:
		s.fail(fmt.Errorf("place pod %s/%s: %w", p.Namespace, p.Name, err))
		return false
	case is.why != "":
		s.waits(p, is)
		if is.preemption.Node == "" {
			refused[like] = is
		} else {
			s.preempt(p, is.preemption, now)
		}
		return false
	}
	s.bind(p, n, now)
	return true
}

// likeOf returns what a pod has in common with the pods that find no room if it does not: the controller and the
// claims, of which each pod of a StatefulSet has its own. It is empty for a pod that has nothing in common with others.
func likeOf(p *pod) string {
	controller := metav1.GetControllerOfNoCopy(p.Pod)
	if controller == nil || p.only != nil {
		return ""
	}
	like := []string{string(controller.UID)}
	for i := range p.Spec.Volumes {
		if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			like = append(like, claim.ClaimName)
		}
	}
	return strings.Join(like, " ")
}

// find finds a node for a pod, or says why there is none. Without WhereTo, a pod that tolerates the taints of any node
// finds room, and its node stays unknown.
func (s *simulation) find(p *pod) (n *node, is refusal, err error) {
	switch {
	case s.room != nil:
		return s.ask(p)
	case p.only != nil:
		return p.only, is, nil
	}
	takes := func(n *node) bool { return n != nil && s.admits(n, p) }
	if !takes(s.took) {
		s.took = nil
		if i := slices.IndexFunc(s.names, func(name string) bool { return takes(s.nodes[name]) }); i >= 0 {
			s.took = s.nodes[s.names[i]]
		}
	}
	if s.took == nil {
		is.why = sentence.Part(0, len(s.names), "node", "takes", "take") + " it: each has a taint that is not tolerated."
	}
	return nil, is, nil
}

// ask asks the scheduler's filters and scores about a pod.
func (s *simulation) ask(p *pod) (*node, refusal, error) {
	only := ""
	if p.only != nil {
		only = p.only.Name
	}
	answer, err := s.room.Place(s.ctx, p.Pod, only, p.asked)
	if err != nil {
		return nil, refusal{}, err
	}
	is := refusal{why: answer.Why, needsOthers: answer.NeedsOthers()}
	p.asked = true
	if is.why != "" && !s.preempting(p) {
		if is.preemption, err = s.room.Preempt(s.ctx, answer, s.budgetsNow); err != nil {
			return nil, refusal{}, err
		}
	}
	if s.outcome == nil {
		return s.nodes[answer.Node], is, nil
	}
	from := ""
	if p.of != nil {
		from = p.of.Spec.NodeName
	}
	is.whereTo = s.room.WhereTo(answer, from, s.start)
	if answer.Node != "" && len(s.victims[p]) > 0 {
		for _, victim := range s.victims[p] {
			is.whereTo.Preempts = append(is.whereTo.Preempts, victim.Namespace+"/"+victim.Name)
		}
		is.whereTo.Warnings = append(is.whereTo.Warnings, cliv1alpha1.PlacementWarning{
			Type: cliv1alpha1.WarningPreempts,
			Message: fmt.Sprintf("It preempts %s of lower priority: %s.",
				sentence.Counted(len(s.victims[p]), "pod"), sentence.Some(is.whereTo.Preempts)),
		})
	}
	s.outcome.goes(p.of, is.whereTo)
	return s.nodes[answer.Node], is, nil
}

// waits records that a pod finds no room.
func (s *simulation) waits(p *pod, is refusal) {
	p.asked, p.needsOthers = true, is.needsOthers
	if p.first {
		return
	}
	if s.outcome != nil {
		s.outcome.goes(p.of, is.whereTo)
		return
	}
	s.refused = append(s.refused, refused{p, is.why})
}

// refused is a pod that found no room, and why, or that could not attach a volume.
type refused struct {
	*pod

	why string
}

// tellRefused reports the pods that found no room, or could not attach a volume, in the instant that has just ended.
func (s *simulation) tellRefused() {
	for _, is := range s.refused {
		p := is.pod
		if p.awaits && p.of != nil {
			_, where := s.attachments.missing(p)
			s.story.add(s.now, withoutVolume, "", where+": "+s.nameOf(p), p.Name)
		}
		if p.stage != waiting {
			continue
		}
		told := s.tellPod(p)
		told.Reason = is.why
		isNew := told.WaitsSince == nil
		if isNew {
			told.WaitsSince = new(s.offset(s.now))
		}
		switch {
		case s.preempting(p):
			told.Reason = "It waits until the pods are gone that it preempts."
		case isNew:
			s.story.add(s.now, withoutRoom, "", s.nameOf(p), p.Name)
		}
	}
	s.refused = s.refused[:0]
}

// bind binds a pod to a node, or to an unknown one.
func (s *simulation) bind(p *pod, n *node, now time.Time) {
	p.stage = bound
	p.facts = verdict.Pod{Tolerations: p.Spec.Tolerations, Bound: now}
	if n != nil {
		object := *p.Pod
		object.Spec.NodeName = n.Name
		p.Pod = &object
		s.put(p, n)
		s.builtIn.look(now, p)
		if len(n.taints) > 0 {
			n.look.set(now)
		}
	} else if s.policies != nil {
		p.selecting = s.policies.set.Selecting(p.is, policies.Node{})
		s.policies.selects(p.selecting, 1)
	}
	if p.told != nil {
		p.told.Node = p.Spec.NodeName
		if p.told.WaitsSince != nil {
			p.told.WaitsUntil = new(s.offset(now))
		}
	}
	if p.of != nil && p.of.told != nil {
		p.of.told.SuccessorNode = p.Spec.NodeName
	}
	s.begin(p, now)
}

// begin starts the containers of a pod, if its volumes can be attached and its kubelet is alive.
func (s *simulation) begin(p *pod, now time.Time) {
	if !s.attach(p) {
		s.await(p)
		return
	}
	s.queue.add(now.Add(s.options.StartDelay), starts, func(now time.Time) { s.started(p, now) })
}

func (s *simulation) started(p *pod, now time.Time) {
	switch {
	case p.stage != bound:
	case now.Before(s.down): // its kubelet cannot report it
		s.queue.add(s.down, starts, func(now time.Time) { s.started(p, now) })
	case p.on != nil && p.on.silent:
		p.starts = true
	case p.on != nil && !s.mayLeave(p) && s.verdictOn(p, p.on).DueAt(now): // it would have left
	default:
		p.ready, p.is.NotReady = true, time.Time{}
		if p.on != nil {
			s.stale(p.on)
		}
		s.recount(p)
	}
}

// sets are the pods of StatefulSets that create them in order, which is the default: a pod is created only when all
// pods of lower ordinals are ready and not terminating (monotonic in pkg/controller/statefulset).
type sets struct {
	parallel map[types.UID]bool
	pods     map[types.UID][]*pod
	lowest   map[types.UID]*pod   // the first that is not ready, as far as it is known
	blocked  map[types.UID][]*pod // those that are not created before it is ready
}

func setsOf(cluster *state.Cluster) sets {
	s := sets{
		parallel: map[types.UID]bool{}, pods: map[types.UID][]*pod{},
		lowest: map[types.UID]*pod{}, blocked: map[types.UID][]*pod{},
	}
	for _, set := range cluster.StatefulSets {
		s.parallel[set.UID] = set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	}
	return s
}

// add adds a pod that its StatefulSet creates in order; other pods wait for nothing.
func (s sets) add(p *pod) {
	controller := metav1.GetControllerOfNoCopy(p.Pod)
	if controller == nil || controller.Kind != "StatefulSet" || s.parallel[controller.UID] {
		return
	}
	p.set, p.ordinal = controller.UID, ordinal(p.Name)
	s.pods[p.set] = append(s.pods[p.set], p)
	s.changes(p)
}

// changes notes that a pod is or is not ready, or is gone.
func (s sets) changes(p *pod) { delete(s.lowest, p.set) }

// waitsFor returns the pod that must be ready before a pod is created; nil if there is none.
func (s sets) waitsFor(p *pod) *pod {
	if p.set == "" {
		return nil
	}
	lowest, known := s.lowest[p.set]
	if !known {
		for _, other := range s.pods[p.set] {
			serves := other.counted || other.stage == gone
			if !serves && (lowest == nil || other.ordinal < lowest.ordinal) {
				lowest = other
			}
		}
		s.lowest[p.set] = lowest
	}
	if lowest == nil || lowest.ordinal >= p.ordinal {
		return nil
	}
	return lowest
}

// blocks reports whether a pod is not created yet, and then keeps it until its StatefulSet may create it.
func (s sets) blocks(p *pod) bool {
	if p.created || p.first || s.waitsFor(p) == nil {
		p.created = true
		return false
	}
	s.blocked[p.set] = append(s.blocked[p.set], p)
	return true
}

// released returns the pods of a StatefulSet that are not created yet, for another look.
func (s sets) released(set types.UID) []*pod {
	all := s.blocked[set]
	delete(s.blocked, set)
	return all
}

// ordinal returns the ordinal of a StatefulSet's pod, according to its name.
func ordinal(name string) int {
	name, _, _ = strings.Cut(name, "~")
	number, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return 0
	}
	return number
}
