// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// await follows feeds until look returns an empty line, and reports whether it did. Otherwise the deadline, if there is
// one, has passed, or the context has ended. It announces each new line. It returns an error if the user may not watch.
// It announces and retries failed calls.
func (t *tainting) await(
	ctx context.Context, f *follow.Follower, deadline time.Time, look func(ctx context.Context) string,
) (bool, error) {
	defer t.reader.Progress.End()
	said, done := "", false
	f.Called = func(ctx context.Context, feed follow.Feed, verb string, err error) {
		if apierrors.IsForbidden(err) {
			f.Stop(fmt.Errorf("wait: %w", source.Failed(ctx, t.reader.Server, verb, feed.Kind, err)))
		}
	}
	f.Act = func() time.Duration {
		line, broken := "", f.Broken()
		if f.Synced() {
			line = look(ctx)
			done = line == "" && broken == nil
		}
		left := untilDeadline(deadline, t.machineTime())
		switch {
		case done, left <= 0:
			f.Stop(nil)
			return follow.NotYet
		case broken != nil:
			line = "Waiting, will retry: " + strings.ReplaceAll(broken.Error(), "\n", "; ")
		case line == "":
			return follow.NotYet
		}
		if line != said {
			said = line
			t.reader.Progress.Announce("%s", line)
		}
		return min(left, time.Second) // for the countdown in the line
	}
	err := f.Run(ctx)
	return done, err
}

// mayWait returns an error if this command waits for pods that the user is not allowed to watch, before anything is
// changed. It tries one of the nodes: a watch of all begins with all their pods.
func (t *tainting) mayWait(ctx context.Context, nodes []*corev1.Node) error {
	if len(nodes) == 0 || !t.wait {
		return nil
	}
	for _, feed := range follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, namesOf(nodes[:1]), &departures{}) {
		if err := feed.TryWatch(ctx); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed: wait: %w", source.Failed(ctx, t.reader.Server, "watch", feed.Kind, err))
		}
	}
	return nil
}

// untilDeadline returns how long it is until a deadline, or a long time if there is none.
func untilDeadline(deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return time.Hour
	}
	return deadline.Sub(now)
}

// giveUpAt returns when a wait that begins now gives up. If --timeout is 0, that is never.
func (t *tainting) giveUpAt() time.Time {
	if t.timeout == 0 {
		return time.Time{}
	}
	return t.machineTime().Add(t.timeout)
}

// departures follows nodes whose taints were changed until all pods have left that NoExecute taints make leave, no
// matter who set the taints. It implements follow.Cluster.
type departures struct {
	*tainting

	live   state.Live
	unread map[string]bool // nodes that the watch has not brought yet
	ours   map[string]bool // all nodes whose taints were changed
	there  map[types.UID]bool
	had    map[types.UID]bool // pods that had to leave at some time
	warned bool               // about pods that came
}

func newDepartures(t *tainting, done []changed) *departures {
	d := &departures{
		tainting: t, unread: map[string]bool{}, ours: map[string]bool{},
		there: map[types.UID]bool{}, had: map[types.UID]bool{},
	}
	d.live.Evictor = t.cluster.Evictor
	for _, one := range done {
		d.ours[one.node.Name], d.unread[one.node.Name] = true, true
		before := state.SlimNode(one.node)
		before.Spec.Taints = one.before
		d.live.SetNode(before, one.at)
		d.live.SetNode(state.SlimNode(one.node), one.at)
		for _, pod := range t.cluster.Pods {
			if pod.Spec.NodeName == one.node.Name {
				d.there[pod.UID] = true
				d.live.SetPod(pod, one.at)
			}
		}
	}
	d.left()
	for uid := range d.there { // some are gone before the watch starts
		d.live.DeletePod(uid)
	}
	return d
}

// SetNode implements follow.Cluster.
func (d *departures) SetNode(node *corev1.Node) {
	if d.ours[node.Name] {
		delete(d.unread, node.Name)
		d.live.SetNode(node, d.now())
	}
}

// DeleteNode implements follow.Cluster.
func (d *departures) DeleteNode(name string) { d.live.DeleteNode(name) }

// SetPod implements follow.Cluster.
func (d *departures) SetPod(pod *corev1.Pod) {
	if d.ours[pod.Spec.NodeName] {
		d.live.SetPod(pod, d.now())
	}
}

// DeletePod implements follow.Cluster.
func (d *departures) DeletePod(uid types.UID, _ *corev1.Pod) { d.live.DeletePod(uid) }

// left returns the pods that must leave or are leaving, soonest first. Nothing waits for a node that does not exist.
func (d *departures) left() (all []state.Leaving) {
	for node := range d.live.Nodes() {
		all = append(all, node.Leaving()...)
	}
	for _, pod := range all {
		d.had[pod.UID] = true
	}
	slices.SortFunc(all, func(a, b state.Leaving) int {
		return cmp.Or(a.Verdict.Due.Compare(b.Verdict.Due),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// awaitDepartures waits until all pods have left, or until --timeout.
func (t *tainting) awaitDepartures(ctx context.Context, done []changed) error {
	d := newDepartures(t, done)
	f := follow.New(time.Second)
	f.Feeds = follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, nodesOf(done), d)
	all, err := t.await(ctx, f, t.giveUpAt(), func(context.Context) string { return d.progress() })
	remaining := len(d.left())
	left := sentence.Do(remaining, "pod", "has", "have") + " not left"
	if !f.Synced() || remaining == 0 { // none is known to remain while a watch is broken
		left = "it is unknown which pods have left"
	}
	switch {
	case err != nil:
		return err
	case all:
		t.tell("%s", d.farewell())
		return nil
	case apicall.Stopping(ctx):
		return fmt.Errorf("interrupted: %s", left)
	}
	return d.giveUp(ctx, left, f.Broken())
}

// progress returns a line about the progress, which is empty if no pod is left. All objects were read once.
func (d *departures) progress() string {
	for name := range d.unread {
		d.live.DeleteNode(name)
	}
	pods, now := d.left(), d.now()
	if len(pods) == 0 {
		return ""
	}
	d.warn()
	had := len(d.had)
	line := "Waiting: " + sentence.Part(had-len(pods), had, "pod", "has left", "have left")
	last := len(pods) - 1
	switch next := slices.IndexFunc(pods, func(pod state.Leaving) bool { return pod.Verdict.PendingAt(now) }); next {
	case -1:
	case last:
		line += sentence.Agree(had, ", it is due ", ", the last is due ") + d.when(pods[last].Verdict.Due, now)
	default:
		line += ", the next is due " + d.when(pods[next].Verdict.Due, now) +
			", the last " + d.when(pods[last].Verdict.Due, now)
	}
	return line
}

// warn warns once if pods come to the nodes while others leave, because then the wait may never end.
func (d *departures) warn() {
	came := 0
	for uid := range d.had {
		if !d.there[uid] {
			came++
		}
	}
	if d.warned || came == 0 {
		return
	}
	d.warned = true
	d.reader.Progress.End()
	d.tell("Note: %s scheduled to the nodes in the meantime: add a second taint with the effect NoSchedule to keep off pods that do not tolerate it",
		sentence.Do(came, "pod", "was", "were"))
}

// when writes an instant. On a terminal it is relative and counts down. Otherwise it is absolute, so that the line
// stays the same.
func (d *departures) when(at, now time.Time) string {
	if d.reader.Progress.Moves {
		return "in " + output.Relative(now, at)
	}
	return "at " + output.Absolute(at)
}

func (d *departures) farewell() string {
	if len(d.had) == 0 {
		return "No pod needs to leave."
	}
	return "All pods that must leave have left."
}

// giveUp says how many pods are left, and what keeps each of them.
func (d *departures) giveUp(ctx context.Context, left string, broken error) error {
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", d.timeout, left), broken}
	obstacles := &obstacles{tainting: d.tainting}
	for _, pod := range d.left() {
		errs = append(errs, fmt.Errorf("pod %s/%s on node %s: %s",
			pod.Namespace, pod.Name, pod.Node.Name, obstacles.of(ctx, pod)))
	}
	return errors.Join(append(errs, obstacles.notes(ctx)...)...)
}

// tolerated says which toleration lets a pod stay for a while.
func tolerated(pod state.Leaving) string {
	if pod.Verdict.Toleration == nil {
		return taints.Format(pod.Verdict.Taint.Taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s is tolerated: %s", taints.Format(pod.Verdict.Taint.Taint), output.Toleration(*pod.Verdict.Toleration))
}
