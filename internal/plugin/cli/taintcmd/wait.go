// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// vigil waits until no pod is left that a NoExecute taint makes leave. It reads the nodes again and again.
type vigil struct {
	*tainting

	nodes      []string
	departures plan.Departures
	// failing is what went wrong when the cluster was last looked at.
	failing error
}

func newVigil(t *tainting, done []changed) *vigil {
	v := &vigil{tainting: t, nodes: nodesOf(done)}
	for _, one := range done {
		v.departures.Changed(one.before, one.node, one.at)
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
	v.failing = nil
	for _, node := range v.nodes {
		err := v.visit(ctx, node)
		switch {
		case apierrors.IsForbidden(err):
			return 0, fmt.Errorf("wait: %w: ask for the right to get nodes and to list pods", err)
		case err != nil:
			v.failing = err
		}
	}
	return len(v.departures.Left()), nil
}

// visit reads a node and the pods on it.
func (v *vigil) visit(ctx context.Context, name string) error {
	node, err := v.node(ctx, name)
	if apierrors.IsNotFound(err) {
		v.departures.Gone(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	pods, err := v.podsOn(ctx, name)
	if err != nil {
		return err
	}
	v.departures.Read(node, pods, v.now())
	return nil
}

// progress says how far it is, if that has changed; on a terminal it counts down. It returns what it has said.
func (v *vigil) progress(said string, left int, now time.Time) string {
	had := v.departures.Had()
	line := fmt.Sprintf("Waiting: %d of %s left", had-left, podsThat(had, "has", "have"))
	pods := v.departures.Left()
	if next := slices.IndexFunc(pods, func(pod plan.Leaving) bool { return pod.Verdict.PendingAt(now) }); next >= 0 {
		line += ", the next is due " + v.when(pods[next].Verdict.Due, now) +
			", the last " + v.when(pods[len(pods)-1].Verdict.Due, now)
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
	return sentence.Counted(n, "pod") + " " + sentence.Agree(n, ifOne, ifMore)
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
	if v.departures.Had() == 0 {
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
	for _, pod := range v.departures.Left() {
		errs = append(errs, fmt.Errorf("pod %s/%s on node %s: %s",
			pod.Namespace, pod.Name, pod.Node.Name, obstacles.of(ctx, pod)))
	}
	if came := v.departures.Came(); came > 0 {
		errs = append(errs, fmt.Errorf("%s put on the nodes meanwhile: a second taint with the effect NoSchedule keeps off those that do not tolerate it",
			podsThat(came, "was", "were")))
	}
	return errors.Join(append(errs, obstacles.notes(ctx)...)...)
}

// tolerated says which toleration lets a pod stay for a while.
func tolerated(pod plan.Leaving) string {
	if pod.Verdict.Toleration == nil {
		return taints.Format(pod.Verdict.Taint.Taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s is tolerated: %s", taints.Format(pod.Verdict.Taint.Taint), output.Toleration(*pod.Verdict.Toleration))
}
