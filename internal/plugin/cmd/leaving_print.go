// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

// runLines prints a line, an object or a name for each change.
func (o *leavingOptions) runLines(ctx context.Context, f *follower) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	printer := o.changePrinter()
	var unread error
	idle := ""
	err := f.run(ctx, func(update update) {
		if idle == "" && update.idle != "" {
			o.note(update.idle)
		}
		idle = update.idle
		for i := range update.changes {
			if unread = printer(&update.changes[i]); unread != nil {
				cancel() // stdout was closed
				return
			}
		}
	})
	if unread != nil {
		return fmt.Errorf("print pending pods: %w", unread)
	}
	return err
}

// changePrinter returns a function that prints one change.
func (o *leavingOptions) changePrinter() func(*cliv1alpha1.PendingChange) error {
	out := o.source.Env.Out
	switch o.output.Format {
	case output.JSON:
		encoder := json.NewEncoder(out)
		return func(change *cliv1alpha1.PendingChange) error { return encoder.Encode(change) }
	case output.YAML:
		between := ""
		return func(change *cliv1alpha1.PendingChange) error {
			data, err := yaml.Marshal(change)
			if err == nil {
				_, err = fmt.Fprint(out, between, string(data))
			}
			between = "---\n"
			return err
		}
	case output.Name:
		return func(change *cliv1alpha1.PendingChange) error {
			_, err := fmt.Fprintln(out, output.Printable(output.PodName(change.Pod.Namespace, change.Pod.Name)))
			return err
		}
	}
	return func(change *cliv1alpha1.PendingChange) error {
		line := inLine(change)
		if o.output.Format == output.Wide {
			line += fmt.Sprintf(", toleration: %s, owner: %s, priority: %d",
				leavingTolerationOf(&change.Pod), cmp.Or(output.OwnerOf(change.Pod.Owner), "none"), change.Pod.Priority)
		}
		_, err := fmt.Fprintln(out, output.Printable(line))
		return err
	}
}

// inLine says in one line what happened to a pod, and when.
func inLine(change *cliv1alpha1.PendingChange) string {
	pod, now := &change.Pod, change.At.Time
	what := ""
	switch change.Change {
	case cliv1alpha1.PendingLeaves:
		what = whenLeaves(now, pod) + heldBy(change)
	case cliv1alpha1.PendingMoved:
		what = "has a new due time: it " + whenLeaves(now, pod) + heldBy(change)
	case cliv1alpha1.PendingDueNow:
		what = fmt.Sprintf("is due now, because of taint %s", pod.Taint) + heldBy(change)
	case cliv1alpha1.PendingHeld:
		what = "stays" + heldBy(change)
	case cliv1alpha1.PendingReleased:
		what = "is no longer held"
	case cliv1alpha1.PendingCancelled:
		what = fmt.Sprintf("may stay, instead of leaving at %s", output.Absolute(pod.Due.Time))
	case cliv1alpha1.PendingGone:
		what = "is gone, " + beforeOrAfter(now, pod.Due.Time)
	}
	return fmt.Sprintf("%s pod %s/%s on node %s %s", output.Absolute(now), pod.Namespace, pod.Name, pod.Node, what)
}

// whenLeaves says when a pod leaves or was due, and why.
func whenLeaves(now time.Time, pod *cliv1alpha1.PendingPod) string {
	leaves := "leaves"
	if pod.Due.Time.Before(now) {
		leaves = "was due"
	}
	return fmt.Sprintf("%s %s, at %s, because of taint %s",
		leaves, output.When(now, pod.Due.Time), output.Absolute(pod.Due.Time), pod.Taint)
}

// heldBy names the policy that keeps the pod when it is due. It is empty if none does.
func heldBy(change *cliv1alpha1.PendingChange) string {
	if !change.Pod.Answer.Stays() {
		return ""
	}
	return ", held by policy " + output.HeldBy(change.At.Time, change.Pod.Answer)
}

func beforeOrAfter(now, due time.Time) string {
	if now.Before(due) {
		return output.Span(now, due) + " before it was due"
	}
	return output.Span(due, now) + " after it was due"
}
