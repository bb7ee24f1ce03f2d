// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// collectFor is how long changes are collected before an update. In a storm, that makes ten updates a second instead of
// one for each event.
const collectFor = 100 * time.Millisecond

// update is what a follower reports: the pending pods, and what has changed since the last update.
type update struct {
	list    *cliv1alpha1.PendingList
	changes []cliv1alpha1.PendingChange
	broken  bool   // some of it may be out of date
	idle    string // as of state.Cluster
}

// follower watches nodes and pods, reads policies regularly, and reports pending pods. If a watch breaks, it continues
// with the last known state.
type follower struct {
	reader    *source.Reader
	clock     clock.PassiveClock
	namespace string
	nodes     nodeSelection
	breaks    *breaks

	follow  *follow.Follower
	live    state.Live
	pending plan.Pending
	missing []string // policies that could not be read, already noted
	read    bool     // the policies were read at least once
	unread  bool     // the last read of policies failed
	before  *cliv1alpha1.PendingList
	tell    func(update)
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
	if err := o.probe(ctx, reader.Server, reader.Clients, cmp.Or(config.Timeout, source.Patience)); err != nil {
		return err
	}
	return o.runLines(ctx, o.follower(reader, o.note))
}

// note prints a note on stderr.
func (o *leavingOptions) note(sentence string) { o.output.Notes([]string{sentence}) }

// follower returns a follower of a cluster, which notes its broken watches.
func (o *leavingOptions) follower(reader *source.Reader, note func(sentence string)) *follower {
	return &follower{
		reader: reader, clock: o.source.Env.Clock, namespace: o.namespace, nodes: o.nodes,
		breaks: newBreaks(o.source.Env.Clock, note), follow: follow.New(collectFor),
		pending: plan.Pending{Owner: (&state.Cluster{}).Owner}, before: &cliv1alpha1.PendingList{},
	}
}

// probe reads one object of each kind, so that the command fails at once if the cluster does not answer or refuses.
func (o *leavingOptions) probe(
	ctx context.Context, server string, clients kubernetes.Interface, timeout time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	one := metav1.ListOptions{Limit: 1}
	if _, err := clients.CoreV1().Nodes().List(ctx, one); err != nil {
		return source.Probed(ctx, server, "list", "nodes", err)
	}
	if _, err := clients.CoreV1().Pods(o.namespace).List(ctx, one); err != nil {
		return source.Probed(ctx, server, "list", "pods", err)
	}
	return nil
}

// run sends an update at the start and after every change, until the context ends.
func (f *follower) run(ctx context.Context, tell func(update)) error {
	f.tell = tell
	f.follow.Feeds = follow.ClusterFeeds(f.reader.Watches, f.namespace, f.nodes.Names, f)
	f.follow.Also = []func(context.Context){f.followPolicies}
	f.follow.Called, f.follow.Act = f.called, f.update
	return f.follow.Run(ctx)
}

// update sends an update once everything has been read, and returns how long to wait until the next pod is due.
func (f *follower) update() time.Duration {
	if !f.read || !f.follow.Synced() {
		return follow.NotYet
	}
	now := f.clock.Now()
	list := f.pending.In(&f.live, now)
	broken := f.unread || f.follow.Broken() != nil
	f.tell(update{list, plan.ChangesSince(f.before, list, f.stays), broken, f.live.Evictor.Idle})
	f.before = list
	return untilNext(list)
}

// untilNext returns how long it is until the next pod is due or no longer held. It is limited because the clock may be
// set.
func untilNext(list *cliv1alpha1.PendingList) time.Duration {
	next := time.Minute
	soon := func(instant time.Time) {
		if instant.After(list.At.Time) {
			next = min(next, instant.Sub(list.At.Time))
		}
	}
	for i := range list.Pods {
		pod := &list.Pods[i]
		soon(pod.Due.Time)
		if pod.Answer.Stays() && pod.Answer.LeavesAt != nil {
			soon(pod.Answer.LeavesAt.Time)
		}
	}
	return next
}

// called notes that a watch is broken. The watch is restarted unless the user may not watch.
func (f *follower) called(ctx context.Context, feed follow.Feed, verb string, err error) {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		f.follow.Stop(source.Failed(ctx, f.reader.Server, verb, feed.Kind, err))
	default:
		f.breaks.tell(feed.Kind, err)
	}
}

func (f *follower) followPolicies(ctx context.Context) {
	f.reader.FollowPolicies(ctx, f.namespace, func(cluster *state.Cluster, err error) {
		f.follow.Do(ctx, func() { f.setPolicies(cluster, err) })
	})
}

// setPolicies updates the policies.
func (f *follower) setPolicies(cluster *state.Cluster, err error) {
	f.read, f.unread = true, err != nil && f.pending.Policies != nil
	switch {
	case f.unread:
		f.breaks.tell(source.EvictionPolicies.Resource, err)
		return
	case err != nil:
		return
	}
	for _, sentence := range cluster.Unread() {
		if !slices.Contains(f.missing, sentence) {
			f.breaks.note(sentence)
		}
	}
	f.pending.Policies, f.missing, f.live.Evictor = cluster.PoliciesOf(), cluster.Unread(), cluster.Evictor
}

// SetNode implements follow.Cluster.
func (f *follower) SetNode(node *corev1.Node) {
	if !f.nodes.Selects(node) {
		f.live.DeleteNode(node.Name)
		return
	}
	f.live.SetNode(node, f.clock.Now())
}

// DeleteNode implements follow.Cluster.
func (f *follower) DeleteNode(name string) { f.live.DeleteNode(name) }

// SetPod implements follow.Cluster.
func (f *follower) SetPod(pod *corev1.Pod) { f.live.SetPod(pod, f.clock.Now()) }

// stays reports whether a pod is still on its node and not terminating.
func (f *follower) stays(uid types.UID) bool {
	pod := f.live.Pod(uid)
	return pod != nil && pod.DeletionTimestamp == nil
}

// DeletePod implements follow.Cluster.
func (f *follower) DeletePod(uid types.UID, _ *corev1.Pod) { f.live.DeletePod(uid) }
