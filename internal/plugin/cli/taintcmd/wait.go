// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
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
	if len(nodes) == 0 || !t.wait && t.maxUnavailable == 0 {
		return nil
	}
	for _, feed := range follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, namesOf(nodes[:1]), &vigil{}) {
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

// vigil waits until all pods that NoExecute taints make leave have left. It implements follow.Cluster.
type vigil struct {
	*tainting

	departures plan.Departures
	nodes      map[string]*corev1.Node
	pods       map[string]map[types.UID]*corev1.Pod // by node
	news       map[string]bool                      // nodes to read again
	warned     bool                                 // about pods that came
}

func newVigil(t *tainting, done []changed) *vigil {
	v := &vigil{
		tainting: t, nodes: map[string]*corev1.Node{}, pods: map[string]map[types.UID]*corev1.Pod{}, news: map[string]bool{},
	}
	for _, one := range done {
		v.departures.Changed(one.before, one.node, one.at)
		v.departures.Read(one.node, t.plannedOn(one.node.Name), one.at) // some may be gone before the watch starts
		v.pods[one.node.Name], v.news[one.node.Name] = map[types.UID]*corev1.Pod{}, true
	}
	return v
}

// plannedOn returns the pods that the plan found on a node.
func (t *tainting) plannedOn(node string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(t.cluster.Pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != node })
}

// SetNode implements follow.Cluster.
func (v *vigil) SetNode(node *corev1.Node) {
	if _, ours := v.pods[node.Name]; ours {
		v.nodes[node.Name], v.news[node.Name] = state.SlimNode(node), true
	}
}

// DeleteNode implements follow.Cluster.
func (v *vigil) DeleteNode(name string) {
	if _, ours := v.pods[name]; ours {
		delete(v.nodes, name)
		v.news[name] = true
	}
}

// SetPod implements follow.Cluster.
func (v *vigil) SetPod(pod *corev1.Pod) {
	if pods, ours := v.pods[pod.Spec.NodeName]; ours {
		pods[pod.UID], v.news[pod.Spec.NodeName] = state.SlimPod(pod), true
	}
}

// DeletePod implements follow.Cluster.
func (v *vigil) DeletePod(uid types.UID, _ *corev1.Pod) {
	for node, pods := range v.pods {
		if _, there := pods[uid]; there {
			delete(pods, uid)
			v.news[node] = true
		}
	}
}

// awaitDepartures waits until all pods have left, until --timeout, or until the taints are removed again, if there is
// such a time.
func (t *tainting) awaitDepartures(ctx context.Context, done []changed, end time.Time) error {
	v := newVigil(t, done)
	deadline := t.giveUpAt()
	if deadline.IsZero() || !end.IsZero() && end.Before(deadline) {
		deadline = end
	}
	f := follow.New(time.Second)
	f.Feeds = follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, nodesOf(done), v)
	all, err := t.await(ctx, f, deadline, func(context.Context) string { return v.look() })
	remaining := len(v.departures.Left())
	left := sentence.Do(remaining, "pod", "has", "have") + " not left"
	if !f.Synced() || remaining == 0 { // none is known to remain while a watch is broken
		left = "it is unknown which pods have left"
	}
	switch {
	case err != nil:
		return err
	case all:
		t.tell("%s", v.farewell())
		return nil
	case apicall.Stopping(ctx):
		return fmt.Errorf("interrupted: %s", left)
	case !end.IsZero() && !t.machineTime().Before(end):
		t.tell("After %s, %s.", t.lasts, left)
		return nil
	}
	return v.giveUp(ctx, left, f.Broken())
}

// look reads what is new, and returns a line about the progress, which is empty if no pod is left.
func (v *vigil) look() string {
	now := v.now()
	for name := range v.news {
		node := v.nodes[name]
		if node == nil {
			v.departures.Gone(name)
			continue
		}
		v.departures.Read(node, slices.Collect(maps.Values(v.pods[name])), now)
	}
	clear(v.news)
	pods := v.departures.Left()
	if len(pods) == 0 {
		return ""
	}
	v.warn()
	had := v.departures.Had()
	line := "Waiting: " + sentence.Part(had-len(pods), had, "pod", "has left", "have left")
	last := len(pods) - 1
	switch next := slices.IndexFunc(pods, func(pod plan.Leaving) bool { return pod.Verdict.PendingAt(now) }); next {
	case -1:
	case last:
		line += sentence.Agree(had, ", it is due ", ", the last is due ") + v.when(pods[last].Verdict.Due, now)
	default:
		line += ", the next is due " + v.when(pods[next].Verdict.Due, now) +
			", the last " + v.when(pods[last].Verdict.Due, now)
	}
	return line
}

// warn warns once if pods come to the nodes while others leave, because then the wait may never end.
func (v *vigil) warn() {
	if v.warned || v.departures.Came() == 0 {
		return
	}
	v.warned = true
	v.reader.Progress.End()
	v.tell("Note: %s scheduled to the nodes in the meantime: add a second taint with the effect NoSchedule to keep off pods that do not tolerate it",
		sentence.Do(v.departures.Came(), "pod", "was", "were"))
}

// when writes an instant. On a terminal it is relative and counts down. Otherwise it is absolute, so that the line
// stays the same.
func (v *vigil) when(at, now time.Time) string {
	if v.reader.Progress.Moves {
		return "in " + output.Relative(now, at)
	}
	return "at " + output.Absolute(at)
}

func (v *vigil) farewell() string {
	if v.departures.Had() == 0 {
		return "No pod needs to leave."
	}
	return "All pods that must leave have left."
}

// giveUp says how many pods are left, and what keeps each of them.
func (v *vigil) giveUp(ctx context.Context, left string, broken error) error {
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", v.timeout, left), broken}
	obstacles := &obstacles{vigil: v}
	for _, pod := range v.departures.Left() {
		errs = append(errs, fmt.Errorf("pod %s/%s on node %s: %s",
			pod.Namespace, pod.Name, pod.Node.Name, obstacles.of(ctx, pod)))
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
