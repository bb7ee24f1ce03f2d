// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

const (
	// collectFor is how long changes are collected before they are printed. In a storm, that makes ten updates a second
	// instead of one for each event.
	collectFor = 100 * time.Millisecond
	// troubleEvery is how often a broken watch is noted while it stays broken.
	troubleEvery = time.Minute
)

// leavingWatch watches nodes and pods, reads policies regularly, and prints what changes. Until it has read everything
// once, an error ends it. After that, it continues with the last known state if a watch breaks.
type leavingWatch struct {
	options *leavingOptions
	reader  *source.Reader
	follow  *follow.Follower
	live    state.Live
	pending plan.Pending
	read    bool                     // the policies were read at least once
	unread  []string                 // what the last read of the policies could not find out
	before  *cliv1alpha1.PendingList // what was printed last
	broke   map[string]time.Time     // when a broken watch was last noted, by kind
}

func (o *leavingOptions) runWatch(ctx context.Context) error {
	config, err := o.source.RESTConfig()
	if err != nil {
		return err
	}
	reader, err := source.Connect(config, show.NoProgress())
	if err != nil {
		return err
	}
	return o.watchCluster(ctx, reader)
}

// watchCluster prints what must leave, and then every change, until the context ends.
func (o *leavingOptions) watchCluster(ctx context.Context, reader *source.Reader) error {
	w := &leavingWatch{
		options: o, reader: reader, follow: follow.New(collectFor), before: &cliv1alpha1.PendingList{},
		pending: plan.Pending{Owner: (&state.Cluster{}).Owner}, broke: map[string]time.Time{},
	}
	now := o.source.Env.Clock.Now
	w.follow.Feeds = follow.ClusterFeeds(reader.Watches, o.namespace, o.nodes.Names,
		&follow.Live{To: &w.live, Now: now, Selects: o.nodes.Selects})
	w.follow.Also = []func(context.Context){func(ctx context.Context) {
		reader.FollowPolicies(ctx, o.namespace, func(cluster *state.Cluster, err error) {
			w.follow.Do(ctx, func() { w.setPolicies(cluster, err) })
		})
	}}
	w.follow.Called = func(ctx context.Context, feed follow.Feed, verb string, err error) {
		w.failed(feed.Kind, err, source.Failed(ctx, reader.Server, verb, feed.Kind, err))
	}
	w.follow.Act = func() time.Duration { return w.update(now()) }
	return w.follow.Run(ctx)
}

// setPolicies updates the policies.
func (w *leavingWatch) setPolicies(cluster *state.Cluster, err error) {
	if err != nil {
		w.failed(source.EvictionPolicies.Resource, err, err)
		return
	}
	for _, note := range cluster.Unread() {
		if !slices.Contains(w.unread, note) {
			w.note(note)
		}
	}
	if w.live.Evictor.Idle == "" && cluster.Idle != "" {
		w.note(cluster.Idle)
	}
	w.read, w.unread, w.pending.Policies, w.live.Evictor = true, cluster.Unread(), cluster.PoliciesOf(), cluster.Evictor
}

func (w *leavingWatch) note(sentence string) { w.options.output.Notes([]string{sentence}) }

// failed notes that something can no longer be read. If nothing has been shown yet, or if the user may not read it, it
// ends the command with an error that says what to do.
func (w *leavingWatch) failed(kind string, err, advice error) {
	now := w.options.source.Env.Clock.Now()
	switch {
	case err == nil:
	case !w.read, !w.follow.Synced(), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		w.follow.Stop(advice)
	case now.Sub(w.broke[kind]) >= troubleEvery:
		w.broke[kind] = now
		w.note(fmt.Sprintf("The watch of %s broke (%v). Until it is restarted, you see the last known state.", kind, err))
	}
}

// update prints what has changed, and returns how long to wait until the next pod is due or no longer held. That is
// limited because the clock may be set.
func (w *leavingWatch) update(now time.Time) time.Duration {
	if !w.read || !w.follow.Synced() {
		return follow.NotYet
	}
	list := w.pending.In(&w.live, now)
	for _, change := range plan.ChangesSince(w.before, list, w.stays) {
		if err := w.options.printChange(&change); err != nil {
			w.follow.Stop(fmt.Errorf("print pending pods: %w", err)) // stdout was closed
			return follow.NotYet
		}
	}
	w.before = list
	next := time.Minute
	for i := range list.Pods {
		pod := &list.Pods[i]
		instants := []time.Time{pod.Due.Time}
		if pod.Answer.Stays() && pod.Answer.LeavesAt != nil {
			instants = append(instants, pod.Answer.LeavesAt.Time)
		}
		for _, at := range instants {
			if at.After(now) {
				next = min(next, at.Sub(now))
			}
		}
	}
	return next
}

// stays reports whether a pod is still on its node and not terminating.
func (w *leavingWatch) stays(uid types.UID) bool {
	pod := w.live.Pod(uid)
	return pod != nil && pod.DeletionTimestamp == nil
}

// printChange prints a line, an object or a name for a change.
func (o *leavingOptions) printChange(change *cliv1alpha1.PendingChange) error {
	text := inLine(change)
	switch o.output.Format {
	case show.JSON:
		return json.NewEncoder(o.output.Env.Out).Encode(change)
	case show.YAML:
		o.output.Line("---")
		_, err := o.output.Object(change)
		return err
	case show.Name:
		text = show.PodName(change.Pod.Namespace, change.Pod.Name)
	case show.Wide:
		text += fmt.Sprintf(", toleration: %s, owner: %s, priority: %d",
			leavingTolerationOf(&change.Pod), cmp.Or(show.OwnerOf(change.Pod.Owner), "none"), change.Pod.Priority)
	}
	_, err := fmt.Fprintln(o.output.Env.Out, show.Printable(text))
	return err
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
