// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

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
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// mayWait returns an error if this command waits for pods that the user is not allowed to watch, before anything is
// changed. It tries one of the nodes: a watch of all begins with all their pods.
func (t *tainting) mayWait(ctx context.Context, nodes []*corev1.Node) error {
	if len(nodes) == 0 || !t.wait {
		return nil
	}
	first := taintNamesOf(nodes[:1])
	for _, feed := range follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, first, &departures{}) {
		if err := feed.TryWatch(ctx); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed: wait: %w", source.Failed(ctx, t.reader.Server, "watch", feed.Kind, err))
		}
	}
	return nil
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

// awaitDepartures waits until all pods have left, or until --timeout. It announces each change, and retries failed
// calls.
// It returns an error if the user may not watch.
func (t *tainting) awaitDepartures(ctx context.Context, done []changed) error {
	defer t.reader.Progress.End()
	d, f := newDepartures(t, done), follow.New(time.Second)
	f.Feeds = follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, nodesOf(done), d)
	f.Called = func(ctx context.Context, feed follow.Feed, verb string, err error) {
		if apierrors.IsForbidden(err) {
			f.Stop(fmt.Errorf("wait: %w", source.Failed(ctx, t.reader.Server, verb, feed.Kind, err)))
		}
	}
	const noLimit = 365 * 24 * time.Hour
	deadline := t.machineTime().Add(cmp.Or(t.timeout, noLimit))
	said, all := "", false
	f.Act = func() time.Duration {
		line, broken := "", f.Broken()
		if f.Synced() {
			line = d.progress()
			all = line == "" && broken == nil
		}
		left := deadline.Sub(t.machineTime())
		switch {
		case all, left <= 0:
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
	if err == nil && !all {
		return d.giveUp(ctx, f)
	}
	if err == nil {
		t.tell("%s", d.farewell())
	}
	return err
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
		return "in " + sentence.Relative(now, at)
	}
	return "at " + sentence.Absolute(at)
}

func (d *departures) farewell() string {
	if len(d.had) == 0 {
		return "No pod needs to leave."
	}
	return "All pods that must leave have left."
}

// giveUp says how many pods are left, and what keeps each of them.
func (d *departures) giveUp(ctx context.Context, f *follow.Follower) error {
	remaining, now := d.left(), d.now()
	left := sentence.Do(len(remaining), "pod", "has", "have") + " not left"
	if !f.Synced() || len(remaining) == 0 { // none is known to remain while a watch is broken
		left = "it is unknown which pods have left"
	}
	if apicall.Stopping(ctx) {
		return fmt.Errorf("interrupted: %s", left)
	}
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", d.timeout, left), f.Broken()}
	untouched := false
	for _, pod := range remaining {
		why := whyStillThere(pod, now)
		if why == "" {
			untouched, why = true, overdue(pod.Verdict.Due, now)+", but no controller has begun to evict it"
		}
		name := show.FullName(pod.Namespace, pod.Name) + " on node " + pod.Node.Name
		errs = append(errs, sentence.ErrorAbout("pod", name, errors.New(why)))
	}
	if untouched {
		errs = append(errs, d.whoEvicts(ctx))
	}
	return errors.Join(errs...)
}

// whyStillThere says what keeps a pod that must leave. It is empty if no controller has begun to evict it.
func whyStillThere(pod state.Leaving, now time.Time) string {
	switch stays := v1alpha1.WhyItStays(pod.Pod); {
	case pod.DeletionTimestamp != nil:
		explained := explain.Explain(explain.Subject{Pod: pod.Pod, Node: pod.Node.Node, At: now})
		return "is terminating: " + explained.Reason
	case pod.Verdict.PendingAt(now):
		return fmt.Sprintf("is not due until %s, in %s: %s",
			sentence.Absolute(pod.Verdict.Due), sentence.Relative(now, pod.Verdict.Due), tolerated(pod))
	case stays != "":
		return overdue(pod.Verdict.Due, now) + ": " + stays
	case state.DisruptionOf(pod.Pod) != nil:
		return overdue(pod.Verdict.Due, now) + ", and is marked for eviction, but not deleted: an admission webhook or a policy may refuse the delete"
	}
	return ""
}

// tolerated says which toleration lets a pod stay for a while.
func tolerated(pod state.Leaving) string {
	if pod.Verdict.Toleration == nil {
		return taints.Format(pod.Verdict.Taint.Taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s is tolerated: %s", taints.Format(pod.Verdict.Taint.Taint), show.Toleration(*pod.Verdict.Toleration))
}

// overdue says how long ago an instant was.
func overdue(due, now time.Time) string {
	if ago := now.Sub(due).Round(time.Second); ago > 0 {
		return fmt.Sprintf("was due %s ago", duration.HumanDuration(ago))
	}
	return "is due now"
}

// whoEvicts says which controller should evict, as kubectl taintkeeper check does.
func (t *tainting) whoEvicts(ctx context.Context) error {
	fresh, err := t.reader.Signs(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether a controller evicts here: %w", err)
	}
	eviction := check.Make(fresh, nil, "", fresh.Signs.At).Controllers[0]
	known := slices.Concat([]string{eviction.Message}, eviction.Signs, fresh.Unread())
	return errors.New(strings.Join(known, " ") + " Check that no EvictionPolicy holds the pods, and read the log of the controller that should evict.")
}
