// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

func (o *leavingOptions) print(list *cliv1alpha1.PendingList, elsewhere int) {
	now := list.At.Time
	rows, names := make([]*cliv1alpha1.PendingPod, 0, len(list.Pods)), []string(nil)
	for i := range list.Pods {
		rows = append(rows, &list.Pods[i])
		names = append(names, show.PodName(list.Pods[i].Namespace, list.Pods[i].Name))
	}
	if o.output.Format == show.Name {
		o.output.Names(list.Notes, names)
		return
	}
	o.output.Notes(list.Notes)
	if len(rows) == 0 {
		fmt.Fprintln(o.output.Env.ErrOut, o.none(elsewhere))
		o.printStuck(list)
		return
	}
	if !o.output.NoHeaders {
		o.output.Line("%s", show.EvictedBy(list.EvictedBy, headline(list)))
		o.output.Line("")
	}
	leaves := func(pod *cliv1alpha1.PendingPod) string { return leavesIn(now, pod) }
	show.Pods(&o.output, o.columns(list, leaves), rows, func(pod *cliv1alpha1.PendingPod) show.Pod {
		return show.Pod{
			Namespace: pod.Namespace, Name: pod.Name, Node: pod.Node, Owner: pod.Owner,
			With: leaves(pod) + show.HeldBy(now, pod.Answer),
		}
	})
	o.printStuck(list)
}

// printStuck prints the pods that were evicted and still exist, at most ten unless all details are asked for.
func (o *leavingOptions) printStuck(list *cliv1alpha1.PendingList) {
	const most = 10
	if len(list.Stuck) == 0 {
		return
	}
	if len(list.Pods) > 0 {
		o.output.Line("")
	}
	o.output.Line("%s evicted and still %s (kubectl taintkeeper why POD says what helps):",
		sentence.Do(len(list.Stuck), "pod", "was", "were"), sentence.Agree(len(list.Stuck), "exists", "exist"))
	for i := range list.Stuck {
		pod := &list.Stuck[i]
		if i == most && o.output.Format != show.Wide {
			o.output.Line("  and %d more: -o wide", len(list.Stuck)-most)
			return
		}
		o.output.Line("  %s on node %s, terminating for %s: waits for %s",
			show.FullName(pod.Namespace, pod.Name), pod.Node, sentence.Between(pod.Since.Time, list.At.Time),
			waitWords[pod.WaitsFor])
	}
}

// waitWords name what terminating pods wait for.
var waitWords = map[cliv1alpha1.TerminationWait]string{
	cliv1alpha1.WaitsForContainers:        "its containers",
	cliv1alpha1.WaitsForKubelet:           "its kubelet, which is alive",
	cliv1alpha1.WaitsForSilentKubelet:     "its kubelet, which is silent",
	cliv1alpha1.WaitsForFinalizers:        "its finalizers",
	cliv1alpha1.WaitsForGarbageCollection: "pod garbage collection",
}

// columns returns the columns of the table, the most important first.
func (o *leavingOptions) columns(
	list *cliv1alpha1.PendingList, leaves func(*cliv1alpha1.PendingPod) string,
) []show.Column[*cliv1alpha1.PendingPod] {
	type pod = cliv1alpha1.PendingPod
	title := "Leaves"
	if slices.ContainsFunc(list.Pods, func(pod pod) bool { return pod.Answer != nil }) {
		title = "Due"
	}
	now := list.At.Time
	return []show.Column[*pod]{
		{Title: title, Cell: leaves},
		{Title: "At", Cell: func(pod *pod) string { return o.output.Instant(now, &pod.Due) }},
		{Title: "Pod"},
		{Title: "Held by", Cell: func(pod *pod) string { return show.HeldBy(now, pod.Answer) }},
		{Title: "Node", Shared: true, Counts: "node", Cell: func(pod *pod) string { return pod.Node }},
		{Title: "Taint", Shared: true, Cell: func(pod *pod) string { return pod.Taint }},
		{Title: "Owner", Wide: true, Cell: func(pod *pod) string { return show.OwnerOf(pod.Owner) }},
		{Title: "Toleration", Wide: true, Cell: leavingTolerationOf},
		{Title: "Priority", Wide: true, Cell: func(pod *pod) string { return strconv.Itoa(int(pod.Priority)) }},
	}
}

func leavingTolerationOf(pod *cliv1alpha1.PendingPod) string {
	if pod.Toleration == nil {
		return "none"
	}
	return show.Toleration(*pod.Toleration)
}

// none says that no pod must leave, and how many must in other namespaces.
func (o *leavingOptions) none(elsewhere int) string {
	if o.namespace == "" {
		return "No pod needs to leave."
	}
	line := fmt.Sprintf("No pods in namespace %s need to leave", o.namespace)
	if elsewhere > 0 {
		line += fmt.Sprintf("; %d in other namespaces (-A)", elsewhere)
	}
	return line + "."
}

// headline counts the pods that must leave.
func headline(list *cliv1alpha1.PendingList) string {
	return fmt.Sprintf("%s must leave: %s.", sentence.Counted(len(list.Pods), "pod"), show.PodsToGo(plan.CountPending(list, nil), list.At.Time))
}

// leavesIn says how long it is until a pod is due, or how late it is. A pod that is held is not late.
func leavesIn(now time.Time, pod *cliv1alpha1.PendingPod) string {
	due := pod.Due.Time
	switch {
	case !due.Before(now) && pod.About:
		return sentence.Roughly(now, due)
	case !due.Before(now):
		return sentence.Relative(now, due)
	case pod.Answer.Stays():
		return sentence.Between(due, now) + " ago"
	}
	return sentence.Between(due, now) + " late"
}

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
	case show.JSON:
		encoder := json.NewEncoder(out)
		return func(change *cliv1alpha1.PendingChange) error { return encoder.Encode(change) }
	case show.YAML:
		between := ""
		return func(change *cliv1alpha1.PendingChange) error {
			data, err := yaml.Marshal(change)
			if err == nil {
				_, err = fmt.Fprint(out, between, string(data))
			}
			between = "---\n"
			return err
		}
	case show.Name:
		return func(change *cliv1alpha1.PendingChange) error {
			_, err := fmt.Fprintln(out, show.Printable(show.PodName(change.Pod.Namespace, change.Pod.Name)))
			return err
		}
	}
	return func(change *cliv1alpha1.PendingChange) error {
		line := inLine(change)
		if o.output.Format == show.Wide {
			line += fmt.Sprintf(", toleration: %s, owner: %s, priority: %d",
				leavingTolerationOf(&change.Pod), cmp.Or(show.OwnerOf(change.Pod.Owner), "none"), change.Pod.Priority)
		}
		_, err := fmt.Fprintln(out, show.Printable(line))
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
		what = fmt.Sprintf("may stay, instead of leaving at %s", sentence.Absolute(pod.Due.Time))
	case cliv1alpha1.PendingGone:
		what = "is gone, " + beforeOrAfter(now, pod.Due.Time)
	}
	return fmt.Sprintf("%s pod %s/%s on node %s %s", sentence.Absolute(now), pod.Namespace, pod.Name, pod.Node, what)
}

// whenLeaves says when a pod leaves or was due, and why.
func whenLeaves(now time.Time, pod *cliv1alpha1.PendingPod) string {
	leaves := "leaves"
	if pod.Due.Time.Before(now) {
		leaves = "was due"
	}
	return fmt.Sprintf("%s %s, at %s, because of taint %s",
		leaves, sentence.When(now, pod.Due.Time), sentence.Absolute(pod.Due.Time), pod.Taint)
}

// heldBy names the policy that keeps the pod when it is due. It is empty if none does.
func heldBy(change *cliv1alpha1.PendingChange) string {
	if !change.Pod.Answer.Stays() {
		return ""
	}
	return ", held by policy " + show.HeldBy(change.At.Time, change.Pod.Answer)
}

func beforeOrAfter(now, due time.Time) string {
	if now.Before(due) {
		return sentence.Between(now, due) + " before it was due"
	}
	return sentence.Between(due, now) + " after it was due"
}
