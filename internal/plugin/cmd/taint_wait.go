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

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
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
	first := taintNamesOf(nodes[:1])
	for _, feed := range follow.ClusterFeeds(t.reader.Watches, metav1.NamespaceAll, first, &departures{}) {
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
func (d *departures) giveUp(ctx context.Context, left string, broken error) error {
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", d.timeout, left), broken}
	obstacles := &obstacles{tainting: d.tainting}
	for _, pod := range d.left() {
		errs = append(errs, command.ErrorAbout("pod", show.FullName(pod.Namespace, pod.Name)+" on node "+pod.Node.Name,
			errors.New(obstacles.of(ctx, pod))))
	}
	return errors.Join(append(errs, obstacles.notes(ctx)...)...)
}

// tolerated says which toleration lets a pod stay for a while.
func tolerated(pod state.Leaving) string {
	if pod.Verdict.Toleration == nil {
		return taints.Format(pod.Verdict.Taint.Taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s is tolerated: %s", taints.Format(pod.Verdict.Taint.Taint), show.Toleration(*pod.Verdict.Toleration))
}

// obstacles finds out why pods that must leave are still there.
type obstacles struct {
	*tainting

	asked     int  // calls for events so far
	mute      bool // events may not be listed
	abandoned int  // pods that no controller has begun to evict
}

// mostEvents limits the pods for which events are read, because each needs a call.
const mostEvents = 100

// of says what keeps a pod.
func (o *obstacles) of(ctx context.Context, pod state.Leaving) string {
	now := o.now()
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating(pod, now)
	case pod.Verdict.PendingAt(now):
		return fmt.Sprintf("is not due until %s, in %s: %s",
			sentence.Absolute(pod.Verdict.Due), sentence.Relative(now, pod.Verdict.Due), tolerated(pod))
	}
	due := overdue(pod.Verdict.Due, now)
	if why := v1alpha1.WhyItStays(pod.Pod); why != "" {
		return fmt.Sprintf("%s: %s", due, why)
	}
	if why := o.event(ctx, pod.Pod); why != "" {
		return fmt.Sprintf("%s: %s", due, why)
	}
	if isMarked(pod.Pod) {
		return fmt.Sprintf("%s, and is marked for eviction, but not deleted: an admission webhook or a policy may refuse the delete", due)
	}
	o.abandoned++
	return fmt.Sprintf("%s, but no controller has begun to evict it", due)
}

// overdue says how long ago an instant was.
func overdue(due, now time.Time) string {
	if ago := now.Sub(due).Round(time.Second); ago > 0 {
		return fmt.Sprintf("was due %s ago", duration.HumanDuration(ago))
	}
	return "is due now"
}

// terminating says what keeps a pod that was deleted. Its deletionTimestamp is the end of its grace period.
func terminating(pod state.Leaving, now time.Time) string {
	over := pod.DeletionTimestamp.Time
	held := ""
	if len(pod.Finalizers) > 0 {
		held = sentence.Agree(len(pod.Finalizers), "finalizer ", "finalizers ") + strings.Join(pod.Finalizers, ", ")
	}
	switch {
	case over.After(now) && held != "":
		return fmt.Sprintf("is terminating: its grace period ends in %s, and then deletion still waits for %s", sentence.Relative(now, over), held)
	case over.After(now):
		return fmt.Sprintf("is terminating: its grace period ends in %s", sentence.Relative(now, over))
	case held != "":
		return fmt.Sprintf("is terminating: deletion waits for a controller to remove %s", held)
	}
	return fmt.Sprintf("is terminating: its grace period ended %s ago, but the kubelet has not reported that the pod's containers have stopped%s", max(now.Sub(over), 0).Round(time.Second), notReady(pod.Node.Node))
}

// notReady says that a node is not ready. It is empty if the node is ready.
func notReady(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Sprintf(": condition Ready of the node is %s", condition.Status)
		}
	}
	return ""
}

func isMarked(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// event returns the newest warning about the eviction of a pod.
func (o *obstacles) event(ctx context.Context, pod *corev1.Pod) string {
	if o.asked++; o.mute || o.asked > mostEvents {
		return ""
	}
	list, err := o.reader.Clients.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil {
		o.mute = o.mute || apierrors.IsForbidden(err)
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		event := &list.Items[i]
		if event.InvolvedObject.UID == pod.UID && event.Reason == v1alpha1.EventEvictionRefused &&
			(newest == nil || lastSeen(newest).Before(lastSeen(event))) {
			newest = event
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Message
}

func lastSeen(event *corev1.Event) time.Time {
	if event.LastTimestamp.IsZero() {
		return event.EventTime.Time
	}
	return event.LastTimestamp.Time
}

// notes returns what applies to all pods.
func (o *obstacles) notes(ctx context.Context) []error {
	var notes []error
	if o.abandoned > 0 {
		notes = append(notes, o.evictors(ctx))
	}
	if o.mute {
		notes = append(notes, errors.New("you may not list events, so refused evictions may not be reported"))
	}
	return notes
}

// evictors says why no controller has begun to evict some pods, and what to do. A missing Lease shows nothing, because
// a managed control plane may elect its leader elsewhere.
func (o *obstacles) evictors(ctx context.Context) error {
	known, err := o.reader.Who(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether a controller evicts here: %w", err)
	}
	switch ours, builtIn := known.Eviction.Taintkeeper, known.Eviction.BuiltIn; {
	case ours.State == who.Running:
		return evicting(state.Taintkeeper)
	case ours.State == who.Unknown && known.Process.Held:
		return leading(known, known.Process.Lease, state.Taintkeeper, who.Eviction)
	case builtIn.State != who.NotRunning && known.BuiltInLease != nil:
		return leading(known, known.BuiltInLease, builtin.Program, builtin.TaintEviction[0])
	case !known.LeasesKnown:
		return errors.New("cannot tell whether a controller evicts here: you may not list leases; ask for the right to list them in all namespaces")
	case builtIn.State == who.Running:
		return evicting(builtin.Program)
	case ours.Why != "":
		return fmt.Errorf("cannot tell whether a controller evicts here: %s", ours.Why)
	}
	return noneEvicts(known)
}

// noneEvicts says why no controller evicts, as far as is known.
func noneEvicts(known *who.Answer) error {
	var stopped []string
	if known.Eviction.Taintkeeper.State == who.NotRunning {
		stopped = append(stopped, reason(known, known.Process.Lease, known.WhyNot()))
	}
	if known.Eviction.BuiltIn.State == who.NotRunning {
		without := builtin.Program + " runs without its " + builtin.TaintEviction[0]
		stopped = append(stopped, reason(known, known.BuiltInLease, without))
	}
	if len(stopped) > 0 {
		return fmt.Errorf("no running controller was found that evicts: %s; see the logs of the controller that should evict", strings.Join(stopped, ", and "))
	}
	return errors.New("no lease of taintkeeper or kube-controller-manager was found in any namespace; a managed control plane may hide its Lease: 'kubectl taintkeeper check' looks for other signs of which controller evicts")
}

// evicting is for a program that evicts, but not these pods.
func evicting(program string) error {
	return fmt.Errorf("%s evicts here, but it has not begun to evict these pods: check that no EvictionPolicy holds them, and that its clock is right", program)
}

// leading is for a program that runs, and perhaps evicts.
func leading(known *who.Answer, lease *coordinationv1.Lease, program, controller string) error {
	return fmt.Errorf("according to its Lease, %s is running, but it has not begun to evict these pods: %s; check that no EvictionPolicy holds them, that its --controllers include %s, and that its clock is right", program, renewed(lease, known.At), controller)
}

// reason says why a program does not evict: its Lease if that is the reason, or else why.
func reason(known *who.Answer, lease *coordinationv1.Lease, why string) string {
	if lease != nil && !state.IsHeld(lease, known.At) {
		return renewed(lease, known.At)
	}
	return why
}

// renewed says when a Lease was last renewed.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	ago := max(now.Sub(lease.Spec.RenewTime.Time), 0)
	return fmt.Sprintf("Lease %s/%s was last renewed %s ago", lease.Namespace, lease.Name, duration.HumanDuration(ago))
}
