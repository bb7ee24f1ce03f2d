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

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
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
func (o *taintOptions) mayWait(ctx context.Context, node string) error {
	if !o.wait {
		return nil
	}
	for _, feed := range follow.ClusterFeeds(o.reader.Watches, metav1.NamespaceAll, []string{node}, nil) {
		if err := feed.TryWatch(ctx); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed: wait: %w", source.Failed(ctx, o.reader.Server, "watch", feed.Kind, err))
		}
	}
	return nil
}

// departures follows nodes whose taints were changed until all pods have left that NoExecute taints make leave, no
// matter who set the taints.
type departures struct {
	*taintOptions

	follow *follow.Follower
	live   state.Live
	unread map[string]bool    // nodes that the watch has not brought yet
	there  map[types.UID]bool // pods that were on the nodes before
	had    map[types.UID]bool // pods that had to leave at some time
	warned bool               // about pods that came
}

// departures returns what must leave some changed nodes.
func (o *taintOptions) departures(changed []*corev1.Node) *departures {
	d := &departures{
		taintOptions: o, follow: follow.New(time.Second),
		unread: map[string]bool{}, there: map[types.UID]bool{}, had: map[types.UID]bool{},
	}
	d.live.Evictor = o.reader.Cluster.Evictor
	byNode := o.reader.Cluster.ByNode()
	for _, node := range changed {
		if before := o.reader.Cluster.Node(node.Name); before != nil { // so that its other taints count from then
			d.live.SetNode(before, o.now())
		}
		d.live.SetNode(state.SlimNode(node), o.now())
		d.unread[node.Name] = true
		for _, pod := range byNode[node.Name] {
			d.there[pod.UID] = true
			d.live.SetPod(pod, o.now())
		}
	}
	d.left()
	for uid := range d.there { // some are gone before the watch starts
		d.live.DeletePod(uid)
	}
	return d
}

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

// await waits until all pods have left, or until --timeout. It announces each change, and retries failed calls. It
// returns an error if the user may not watch.
func (o *taintOptions) await(ctx context.Context, changed []*corev1.Node) error {
	defer o.reader.Progress.End()
	d, names := o.departures(changed), namesOfNodes(changed)
	d.follow.Feeds = follow.ClusterFeeds(o.reader.Watches, metav1.NamespaceAll, names, &follow.Live{
		To: &d.live, Now: o.now, Selects: func(node *corev1.Node) bool {
			delete(d.unread, node.Name)
			return slices.Contains(names, node.Name)
		},
	})
	d.follow.Called = func(ctx context.Context, feed follow.Feed, verb string, err error) {
		if apierrors.IsForbidden(err) {
			d.follow.Stop(fmt.Errorf("wait: %w", source.Failed(ctx, o.reader.Server, verb, feed.Kind, err)))
		}
	}
	// Without a monotonic clock, which stops while a machine sleeps.
	machineTime := func() time.Time { return o.env.Clock.Now().Round(0) }
	const noLimit = 365 * 24 * time.Hour
	deadline := machineTime().Add(cmp.Or(o.timeout, noLimit))
	said, all := "", false
	d.follow.Act = func() time.Duration {
		line := ""
		if d.follow.Synced() {
			line = d.progress()
			all = line == "" && d.follow.Broken() == nil
		}
		left := deadline.Sub(machineTime())
		if all || left <= 0 {
			d.follow.Stop(nil)
			return follow.NotYet
		}
		if broken := d.follow.Broken(); broken != nil {
			line = "Waiting, will retry: " + strings.ReplaceAll(broken.Error(), "\n", "; ")
		}
		if line == "" {
			return follow.NotYet
		}
		if line != said {
			said = line
			o.reader.Progress.Announce("%s", line)
		}
		return min(left, time.Second) // for the countdown in the line
	}
	if err := d.follow.Run(ctx); err != nil {
		return err
	}
	switch {
	case !all:
		return d.giveUp(ctx)
	case len(d.had) == 0:
		o.tell("No pod needs to leave.")
	default:
		o.tell("All pods that must leave have left.")
	}
	return nil
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
	had, came, last := len(d.had), 0, pods[len(pods)-1]
	for uid := range d.had {
		if !d.there[uid] {
			came++
		}
	}
	if came > 0 && !d.warned { // the wait may never end
		d.warned = true
		d.reader.Progress.End()
		d.tell("Note: %s scheduled to the nodes in the meantime: add a second taint with the effect NoSchedule to keep off pods that do not tolerate it",
			sentence.Do(came, "pod", "was", "were"))
	}
	line := "Waiting: " + sentence.Part(had-len(pods), had, "pod", "has left", "have left")
	switch next := slices.IndexFunc(pods, func(pod state.Leaving) bool { return pod.Verdict.Due.After(now) }); next {
	case -1:
	case len(pods) - 1:
		line += sentence.Agree(had, ", it is due ", ", the last is due ") + d.when(last, now)
	default:
		line += ", the next is due " + d.when(pods[next], now) + ", the last " + d.when(last, now)
	}
	return line
}

// when says when a pod is due. On a terminal it counts down. Otherwise it is absolute, so that the line stays the same.
func (d *departures) when(pod state.Leaving, now time.Time) string {
	if d.reader.Progress.Moves {
		return "in " + sentence.Relative(now, pod.Verdict.Due)
	}
	return "at " + sentence.Absolute(pod.Verdict.Due)
}

// giveUp says how many pods are left, and what keeps each of them.
func (d *departures) giveUp(ctx context.Context) error {
	remaining, now := d.left(), d.now()
	left := sentence.Do(len(remaining), "pod", "has", "have") + " not left"
	if !d.follow.Synced() || len(remaining) == 0 { // none is known to remain while a watch is broken
		left = "it is unknown which pods have left"
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %s", left)
	}
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", d.timeout, left), d.follow.Broken()}
	untouched := false
	for _, pod := range remaining {
		why := whyStillThere(pod, now)
		if why == "" {
			untouched, why = true, wasDue(pod, now)+", but no controller has begun to evict it"
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
	due, stays := pod.Verdict.Due, v1alpha1.WhyItStays(pod.Pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return "is terminating: " + explain.Explain(explain.Subject{Pod: pod.Pod, Node: pod.Node.Node, At: now}).Reason
	case due.After(now):
		why := fmt.Sprintf("is not due until %s, in %s", sentence.Absolute(due), sentence.Relative(now, due))
		if pod.Verdict.Toleration != nil {
			why += fmt.Sprintf(": %s is tolerated: %s", taints.Format(pod.Verdict.Taint.Taint), show.Toleration(*pod.Verdict.Toleration))
		}
		return why
	case stays != "":
		return wasDue(pod, now) + ": " + stays
	case state.DisruptionOf(pod.Pod) != nil:
		return wasDue(pod, now) + ", and is marked for eviction, but not deleted: an admission webhook or a policy may refuse the delete"
	}
	return ""
}

func wasDue(pod state.Leaving, now time.Time) string {
	return "was due " + sentence.When(now, pod.Verdict.Due)
}

// whoEvicts says which controller should evict, as kubectl taintkeeper check does.
func (o *taintOptions) whoEvicts(ctx context.Context) error {
	fresh, err := o.reader.Signs(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether a controller evicts here: %w", err)
	}
	eviction := check.Make(fresh, nil, "", fresh.Signs.At).Controllers[0]
	known := slices.Concat([]string{eviction.Message}, eviction.Signs, fresh.Unread())
	return errors.New(strings.Join(known, " ") + " Check that no EvictionPolicy holds the pods, and read the log of the controller that should evict.")
}
