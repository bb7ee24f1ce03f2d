// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// node is the current state of a node.
type node struct {
	*corev1.Node

	taints []verdict.Taint
	pods   []*pod // on the node, including terminating ones
	ready  bool
	silent bool // its kubelet gives no sign of life
	waits  bool // its kubelet is back, but waits for the API server
	look   once
	told   *cliv1alpha1.SimulatedNode // nil as long as nothing happens to it

}

// stage is the stage of a pod's life.
type stage int

const (
	waiting     stage = iota // for room
	bound                    // to a node, or to an unknown one
	terminating              // until its kubelet ends it
	gone
)

// pod is the current state of a pod.
type pod struct {
	*corev1.Pod

	owner     *cliv1alpha1.Owner
	workload  *counter
	budgets   []*budget
	selecting []*policy.Policy // the policies that select it on this node
	is        policies.Pod     // what policies read; its NotReady is kept current

	stage       stage
	on          *node // nil if it waits, or if its node is unknown
	facts       verdict.Pod
	ready       bool                       // its containers are ready
	starts      bool                       // its containers start when its node is back
	counted     bool                       // counted as ready
	first       bool                       // it existed at the start
	held        *policy.Answer             // nil unless policies keep it
	begun       bool                       // it has begun to evict the pod
	set         types.UID                  // the StatefulSet, if it creates its pods in order
	ordinal     int                        // in that StatefulSet
	created     bool                       // its StatefulSet has created it
	number      int                        // how many of its kind there were
	only        *node                      // the only node for which a DaemonSet creates it
	after       time.Time                  // when its controller creates it
	of          *pod                       // its predecessor, or nil
	charged     []*quota                   // in which it counts; nil if it is not created
	asked       bool                       // the room has been asked about it, and
	needsOthers bool                       // said that it needs pods elsewhere
	volumes     []*corev1.PersistentVolume // that only one node at a time can use
	awaits      bool                       // it is bound and waits for one of them
	told        *cliv1alpha1.SimulatedPod  // nil as long as nothing happens to it
}

// load loads the cluster in its state at the start.
func (s *simulation) load() {
	for _, object := range s.cluster.Nodes {
		n := &node{
			Node: object, ready: servesPods(object), silent: readiness.IsUnknown(object),
			taints: state.Tainted(object, s.start),
		}
		n.look = once{queue: &s.queue, kind: looks, do: func(now time.Time) { s.look(n, now) }}
		s.nodes[object.Name] = n
	}
	pods := slices.SortedFunc(slices.Values(s.cluster.Pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, object := range pods {
		n := s.nodes[object.Spec.NodeName]
		if n == nil && object.Spec.NodeName != "" { // pod garbage collection deletes it
			continue
		}
		p := s.newPod(object)
		p.first = true
		s.quotas.charge(p)
		switch {
		case n != nil:
			s.wasOn(p, n)
		case s.options.WhereTo && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 && !p.is.Finished:
			s.waiting = append(s.waiting, p) // without WhereTo, it keeps waiting
		}
	}
}

// wasOn records that a pod was on a node at the start.
func (s *simulation) wasOn(p *pod, n *node) {
	p.ready = p.is.NotReady.IsZero() && !p.is.Finished
	p.starts = n.silent && !p.ready && !p.is.Finished
	p.facts = state.FactsOf(p.Pod, s.start)
	s.put(p, n)
	s.recount(p)
	if p.DeletionTimestamp == nil {
		return
	}
	p.stage = terminating
	s.recount(p)
	if !p.stays() { // the deletion timestamp includes the grace period
		s.goneFrom(p, instant.Later(s.start, p.DeletionTimestamp.Time))
	}
}

// newPod returns a pod without a node.
func (s *simulation) newPod(object *corev1.Pod) *pod {
	object = state.WithUID(object)
	p := &pod{Pod: object, owner: s.cluster.Owner(object), is: policies.PodOf(object), number: 1}
	if p.owner != nil && !p.is.Finished && !state.IsStatic(object) { // a static pod's owner is its node
		p.workload = s.workload(object.Namespace, *p.owner)
	}
	if !p.is.Finished {
		p.budgets, p.volumes = s.budgetsOf(object), s.attachments.exclusive.Of(object)
	}
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil && s.makers[controller.UID] != nil {
		s.ofJob[controller.UID] = append(s.ofJob[controller.UID], p)
	}
	s.sets.add(p)
	return p
}

// put binds a pod to a node.
func (s *simulation) put(p *pod, n *node) {
	p.stage, p.on = bound, n
	n.pods = append(n.pods, p)
	if s.policies != nil {
		p.selecting = s.policies.set.Selecting(p.is, policies.NodeOf(n.Node))
		s.policies.selects(p.selecting, 1)
		s.stale(n)
	}
}

// isGone removes a pod from its node for good.
func (s *simulation) isGone(p *pod, now time.Time) {
	if p.stage == gone {
		return
	}
	if n := p.on; n != nil {
		n.pods = slices.DeleteFunc(n.pods, func(other *pod) bool { return other == p })
	}
	s.remove(p, now)
	if p.on != nil && s.room != nil && !p.is.Finished {
		s.fail(s.room.Remove(p.Pod))
		s.roomFor(now)
	}
	if s.makers.WhyWait(p.Pod) != "" {
		s.succeed(p, now)
	}
}

// remove notes that a pod does not exist, or is never created.
func (s *simulation) remove(p *pod, now time.Time) {
	p.stage = gone
	s.release(p)
	s.sets.changes(p)
	if s.quotas.release(p) {
		s.roomFor(now)
	}
}

// roomFor lets waiting pods look for room again.
func (s *simulation) roomFor(now time.Time) {
	if len(s.waiting) > 0 {
		s.again = true
		s.placing.set(now)
	}
}

// servesPods reports whether the pods of a node can be ready: the node is ready, or does not say that it is not.
func servesPods(node *corev1.Node) bool {
	return readiness.IsReady(node) || readiness.Condition(node, corev1.NodeReady) == nil
}

// becomes replaces a node with its new state.
func (s *simulation) becomes(object *corev1.Node, now time.Time) {
	n := s.nodes[object.Name]
	retainted := !state.SameNoExecute(n.Spec.Taints, object.Spec.Taints)
	n.Node = object
	n.taints = verdict.Advance(n.taints, object.Spec.Taints, verdict.SeenAt(now))
	if s.policies != nil {
		s.policies.engine.SetTaints(n.Name, n.taints)
	}
	if ready := servesPods(object); ready != n.ready {
		n.ready = ready
		for _, p := range n.pods {
			s.recount(p)
		}
	}
	if state.IsOutOfService(object) {
		for _, p := range n.pods {
			if p.stage == terminating {
				s.goneFrom(p, now)
			}
		}
	}
	if s.room != nil {
		s.room.Update(object)
	}
	s.roomFor(now)
	s.unmountAll(n)
	s.stale(n)
	if retainted {
		s.builtIn.look(now, n.pods...)
	}
	n.look.set(now)
}

// stale notes that policies may say something else about the pods of a node.
func (s *simulation) stale(n *node) {
	if s.policies != nil {
		s.policies.engine.MarkStale(n.Name)
		s.policies.turn.set(s.now)
	}
}

// admits reports whether a pod tolerates the taints of a node. The DaemonSet controller creates no pod otherwise.
func (s *simulation) admits(n *node, p *pod) bool {
	_, refused := state.Rule.Matcher.Untolerated(n.Spec.Taints, p.Spec.Tolerations)
	return !refused
}

// recount updates whether a pod counts as ready.
func (s *simulation) recount(p *pod) {
	counts := p.stage == bound && p.ready && (p.on == nil || p.on.ready)
	if counts == p.counted {
		return
	}
	p.counted = counts
	s.sets.changes(p)
	if counts && p.set != "" {
		s.waiting = append(s.waiting, s.sets.released(p.set)...)
		s.roomFor(s.now)
	}
	change := 1
	if !counts {
		change = -1
	}
	if p.workload != nil {
		s.add(p.workload, change)
	}
	for _, b := range p.budgets {
		s.add(&b.counter, change)
		s.allow(b)
	}
}

// happen performs a step of the scenario.
func (s *simulation) happen(is step, now time.Time) {
	switch {
	case is.kind == serverDown:
		s.goesDown(is, now)
		return
	case is.kind == retaints && now.Before(s.down):
		s.note("Step %d is skipped: the API server is down at that time, so taints cannot be changed.", is.number)
		return
	}
	nodes := s.nodesOf(is, now)
	changed, refused := false, map[string][]string{} // nodes, by reason
	for _, n := range nodes {
		name := n.Name
		happened, err := s.happenTo(n, is, now)
		switch {
		case err != nil:
			refused[err.Error()] = append(refused[err.Error()], name)
		case happened:
			changed = true
			s.story.add(now, stories[is.kind], zoneOf(n.Node), does(is.edit), name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		s.note("Step %d skips %s: %s.", is.number, nameNodes(refused[why], ""), why)
	}
	if !changed && len(refused) == 0 {
		s.note("Step %d changes nothing because its nodes are %s.", is.number, unchanged[is.kind])
	}
	s.health.set(s.play.Next())
}

// nodesOf returns the nodes of a step. It reports why node health has not tainted those that come back, before the
// first of them is ready, and which of those that fall silent were last heard at an unknown time.
func (s *simulation) nodesOf(is step, now time.Time) (nodes []*node) {
	var unheard []string
	for _, name := range s.names {
		n := s.nodes[name]
		if !is.nodes(n.Node) {
			continue
		}
		nodes = append(nodes, n)
		if is.kind == comesBack {
			s.tellHeld(n)
		}
		ready := readiness.Condition(n.Node, corev1.NodeReady)
		reports := ready != nil && ready.Status != corev1.ConditionUnknown
		if _, known := s.cluster.Renewed[name]; is.kind == falls && now.Equal(s.start) && reports && !known {
			unheard = append(unheard, name)
		}
	}
	if len(unheard) > 0 {
		s.note("The last Lease renewal of %s is not known, so the simulation assumes that it happened just now. "+
			"Kubelets renew every 10s, so all of this may happen up to 10s earlier.", sentence.Some(unheard))
	}
	return nodes
}

// unchanged describes nodes on which a step has no effect.
var unchanged = map[stepKind]string{falls: "silent already", comesBack: "not silent"}

// goesDown makes the API server unavailable, or prolongs that.
func (s *simulation) goesDown(is step, now time.Time) {
	from, until := instant.Later(now, s.down), now.Add(is.down)
	if !until.After(from) {
		s.note("Step %d changes nothing because the API server is already down at that time.", is.number)
		return
	}
	s.down = until
	s.play.Outage(from, until)
	s.builtIn.loses(s, now, until)
	s.story.add(now, serverIsDown, "", sentence.Duration(is.down), "")
	s.health.set(s.play.Next())
}

// happenTo performs a step on a node. It reports whether that changed anything.
func (s *simulation) happenTo(n *node, is step, now time.Time) (bool, error) {
	switch is.kind {
	case falls:
		if n.silent && !n.waits {
			return false, nil
		}
		n.silent, n.waits = true, false
		var sign time.Time // the last sign before the start is known; later ones are not
		if now.Equal(s.start) {
			sign = s.cluster.Renewed[n.Name]
		}
		s.play.Fall(n.Name, sign, now)
	case comesBack:
		if !n.silent || n.waits {
			return false, nil
		}
		s.comesBack(n, now)
	case retaints:
		edited, err := is.edit.Apply(n.Spec.Taints, taints.OverwriteExisting)
		if err != nil {
			return false, err
		}
		s.play.Retaint(n.Name, edited, now)
		s.retainted(n, s.play.Node(n.Name), now)
	}
	return true, nil
}

// comesBack lets the kubelet of a node continue once the API server answers: it ends the pods that leave, and starts
// those that were bound meanwhile.
func (s *simulation) comesBack(n *node, now time.Time) {
	if n.waits = now.Before(s.down); n.waits {
		s.queue.add(s.down, stepped, func(now time.Time) {
			if n.waits {
				s.comesBack(n, now)
			}
		})
		return
	}
	n.silent = false
	s.play.Back(n.Name, now)
	s.health.set(s.play.Next())
	s.becomes(s.play.Node(n.Name), now)
	for _, p := range n.pods {
		switch {
		case p.stage == terminating:
			s.endAfterGrace(p, now)
		case p.starts:
			p.starts = false
			s.begin(p, now)
		}
	}
}

// retainted changes the taints of a node.
func (s *simulation) retainted(n *node, object *corev1.Node, now time.Time) {
	told, taints := s.tellNode(n), state.FormatAll(object.Spec.Taints)
	told.Steps = append(told.Steps, cliv1alpha1.SimulatedTaints{At: s.offset(now), Taints: taints})
	s.becomes(object, now)
}

// checkHealth lets node health act at an instant.
func (s *simulation) checkHealth(now time.Time) {
	for _, turned := range s.play.Run(now) {
		n := s.nodes[turned.Node.Name]
		if len(turned.Conditions) > 0 {
			told := s.tellNode(n)
			if told.UnreachableAt == nil {
				told.UnreachableAt = new(s.offset(now))
			}
			s.story.add(now, unreachable, zoneOf(n.Node), "", n.Name)
		}
		if turned.Retainted {
			if len(taints.NoExecute(turned.Node.Spec.Taints)) > len(taints.NoExecute(n.Spec.Taints)) {
				s.story.add(now, tainted, zoneOf(n.Node), "", n.Name)
			}
			s.retainted(n, turned.Node, now)
		} else {
			s.becomes(turned.Node, now)
		}
	}
	s.health.set(s.play.Next())
}

func zoneOf(node *corev1.Node) string { return node.Labels[corev1.LabelTopologyZone] }

// note adds a sentence about something that could not be done.
func (s *simulation) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}
