// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// vigil waits until no pod is left that a NoExecute taint makes leave. It reads the nodes again and again, and goes by
// what it finds: a taint that somebody takes off keeps nobody waiting.
type vigil struct {
	*tainting

	nodes []*watchedNode
	// seen are all pods that had to leave, by UID.
	seen map[types.UID]bool
	// came are those of them that were put on a node since it was looked at first.
	came int
	// failing is what went wrong when the cluster was last looked at.
	failing error
}

// watchedNode is a node and, for those of its NoExecute taints that go on, from when they count.
type watchedNode struct {
	name   string
	taints []verdict.Taint
	node   *corev1.Node // as it was read last
	pods   []duePod     // that have to leave yet
	// there are the pods that were on it when it was looked at first.
	there map[types.UID]bool
}

// duePod is a pod that has to leave, or is leaving.
type duePod struct {
	*corev1.Pod

	node    *watchedNode
	verdict verdict.Verdict
}

func newVigil(t *tainting, done []changed) *vigil {
	v := &vigil{tainting: t, seen: map[types.UID]bool{}}
	for _, one := range done {
		before := verdict.Advance(nil, one.before, verdict.SeenAt(one.at))
		after := verdict.Advance(before, one.node.Spec.Taints, verdict.SeenAt(one.at))
		v.nodes = append(v.nodes, &watchedNode{name: one.node.Name, taints: after, node: one.node})
	}
	return v
}

// await waits until all pods have left, until --timeout, or until the taints are taken off again at an instant, if
// there is one.
func (t *tainting) await(ctx context.Context, done []changed, end time.Time) error {
	began := t.machineTime()
	v := newVigil(t, done)
	said := ""
	for {
		left, err := v.look(ctx, v.untilEnd(t.machineTime(), began, end))
		if err != nil {
			return err
		}
		if left == 0 && v.failing == nil {
			v.end()
			t.tell("%s", v.farewell())
			return nil
		}
		said = v.progress(said, left, t.now())
		now := t.machineTime()
		switch over := !end.IsZero() && !now.Before(end); {
		case over:
			v.end()
			t.tell("The %s are over, and %s not left.", t.lasts, podsThat(left, "has", "have"))
			return nil
		case t.timeout > 0 && !now.Before(began.Add(t.timeout)):
			v.end()
			return v.giveUp(ctx, left)
		}
		if !pause(ctx, v.untilNext(now, began, end)) {
			v.end()
			return fmt.Errorf("interrupted: %s not left", podsThat(left, "has", "have"))
		}
	}
}

// look reads all nodes and the pods on them, within some time, and returns how many have to leave yet. What goes wrong
// is tried again, but for a lack of rights.
func (v *vigil) look(ctx context.Context, within time.Duration) (int, error) {
	const least = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, max(within, least))
	defer cancel()
	left := 0
	v.failing = nil
	for _, node := range v.nodes {
		err := v.visit(ctx, node)
		switch {
		case apierrors.IsForbidden(err):
			return 0, fmt.Errorf("wait: %w: ask for the right to get nodes and to list pods", err)
		case err != nil:
			v.failing = err
		}
		left += len(node.pods)
	}
	return left, nil
}

// visit reads a node and the pods on it that have to leave.
func (v *vigil) visit(ctx context.Context, watched *watchedNode) error {
	node, err := v.node(ctx, watched.name)
	if apierrors.IsNotFound(err) {
		watched.pods = nil // what is on it is no longer about taints
		return nil
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", watched.name, err)
	}
	pods, err := v.podsOn(ctx, watched.name)
	if err != nil {
		return err
	}
	now := v.now()
	watched.node, watched.pods = node, nil
	// Between two reads a taint may have been taken off and set again.
	seen := verdict.SeenAt(now)
	seen.Gap, seen.NeverStamped = true, true
	watched.taints = verdict.Advance(watched.taints, node.Spec.Taints, seen)
	if watched.there == nil {
		watched.there = map[types.UID]bool{}
		for _, pod := range pods {
			watched.there[pod.UID] = true
		}
	}
	for _, pod := range pods {
		if plan.IsStatic(pod) {
			continue
		}
		facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(now).Start(verdict.Bound(pod))}
		if decided := (verdict.Rule{}).Decide(facts, watched.taints); decided.Leaves {
			watched.pods = append(watched.pods, duePod{pod, watched, decided})
			if !watched.there[pod.UID] && !v.seen[pod.UID] {
				v.came++
			}
			v.seen[pod.UID] = true
		}
	}
	return nil
}

// left returns all pods that have to leave yet, the soonest first.
func (v *vigil) left() []duePod {
	var all []duePod
	for _, node := range v.nodes {
		all = append(all, node.pods...)
	}
	slices.SortFunc(all, func(a, b duePod) int {
		return cmp.Or(a.verdict.Due.Compare(b.verdict.Due),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// progress says how far it is, if that has changed; on a terminal it counts down. It returns what it has said.
func (v *vigil) progress(said string, left int, now time.Time) string {
	line := fmt.Sprintf("Waiting: %d of %s left", len(v.seen)-left, podsThat(len(v.seen), "has", "have"))
	pods := v.left()
	if next := slices.IndexFunc(pods, func(pod duePod) bool { return pod.verdict.PendingAt(now) }); next >= 0 {
		line += ", the next is due " + v.when(pods[next].verdict.Due, now) +
			", the last " + v.when(pods[len(pods)-1].verdict.Due, now)
	}
	if v.failing != nil {
		line = "Waiting, and trying again: " + v.failing.Error()
	}
	if line != said {
		v.reader.Progress.Announce("%s", line)
	}
	return line
}

// podsThat is the subject and the verb of a sentence about pods.
func podsThat(n int, ifOne, ifMore string) string {
	verb := ifMore
	if n == 1 {
		verb = ifOne
	}
	return sentence.Counted(n, "pod") + " " + verb
}

// when says an instant: relative where somebody watches it count down, else absolute, so that the line does not change.
func (v *vigil) when(at, now time.Time) string {
	if v.reader.Progress.Moves {
		return "in " + output.Relative(now, at)
	}
	return "at " + output.Absolute(at)
}

func (v *vigil) end() { v.reader.Progress.End() }

func (v *vigil) farewell() string {
	if len(v.seen) == 0 {
		return "No pod has to leave."
	}
	return "All pods have left that have to."
}

// untilNext returns how long to pause, so that some 50 nodes are read in a second.
func (v *vigil) untilNext(now, began, end time.Time) time.Duration {
	const each, least = 20 * time.Millisecond, time.Second
	return min(max(time.Duration(len(v.nodes))*each, least), v.untilEnd(now, began, end))
}

// untilEnd returns how long it takes until --timeout or --for is over: a long time if there is neither.
func (v *vigil) untilEnd(now, began, end time.Time) time.Duration {
	left := time.Hour
	if v.timeout > 0 {
		left = min(left, began.Add(v.timeout).Sub(now))
	}
	if !end.IsZero() {
		left = min(left, end.Sub(now))
	}
	return max(left, 0)
}

// giveUp says of each pod that is left what keeps it.
func (v *vigil) giveUp(ctx context.Context, left int) error {
	errs := []error{fmt.Errorf("after %s %s not left, and the taints stay", v.timeout, podsThat(left, "has", "have"))}
	if v.failing != nil {
		errs = append(errs, v.failing)
	}
	obstacles := &obstacles{vigil: v}
	for _, pod := range v.left() {
		errs = append(errs, fmt.Errorf("pod %s/%s on node %s: %s",
			pod.Namespace, pod.Name, pod.node.name, obstacles.of(ctx, pod)))
	}
	if v.came > 0 {
		errs = append(errs, fmt.Errorf("%s put on the nodes meanwhile: a second taint with the effect NoSchedule keeps off those that do not tolerate it",
			podsThat(v.came, "was", "were")))
	}
	return errors.Join(append(errs, obstacles.notes(ctx)...)...)
}

// tolerated says which toleration lets a pod stay for a while.
func tolerated(pod duePod) string {
	if pod.verdict.Toleration == nil {
		return taints.Format(pod.verdict.Taint.Taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s is tolerated: %s", taints.Format(pod.verdict.Taint.Taint), output.Toleration(*pod.verdict.Toleration))
}
