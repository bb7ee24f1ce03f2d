// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// The state of a node after a write of the contestant: it is considered silent, or has the taints of these keys and
// effects, in alphabetical order.
const (
	Silent      = "silent"
	Untainted   = ""
	Unscheduled = "unreachable:NoSchedule"
	Unreachable = "unreachable:NoExecute unreachable:NoSchedule"
	NotReady    = "not-ready:NoExecute not-ready:NoSchedule"
)

// write is a change of a node by the contestant, and the node as it was then.
type write struct {
	auditlog.Event

	node corev1.Node
}

// String says what the write made of the node.
func (w write) String() string {
	if w.Resource == "nodes/status" {
		return Silent
	}
	return strings.Join(bubble.TaintsOf(&w.node), " ")
}

// noExecute is the NoExecute taint that the node has then, if any.
func (w write) noExecute() *corev1.Taint {
	for i := range w.node.Spec.Taints {
		if taint := &w.node.Spec.Taints[i]; taint.Effect == corev1.TaintEffectNoExecute {
			return taint
		}
	}
	return nil
}

// writes are the contestant's changes of a node since it had no taint, as far as the stage knows, which may lag a
// little.
func (p *Play) writes(k *kubelet) (all []write, err error) {
	calls, err := p.Calls(auditlog.Accepted, auditlog.Named(p.NodeName(k.name)), func(c auditlog.Event) bool {
		return c.Verb == "patch" && strings.HasPrefix(c.Resource, "nodes") && !before(c, k.untaintedAt)
	})
	for _, c := range calls {
		w := write{Event: c}
		err = errors.Join(err, json.Unmarshal(c.Response, &w.node))
		all = append(all, w)
	}
	for ; k.told < len(all); k.told++ { // what it wrote holds for pods
		if w := all[k.told]; w.Resource == "nodes" {
			p.Tainted(k.name, scene.Span{From: w.Received, To: w.Answered}, w.node.Spec.Taints)
		}
	}
	return all, err
}

// before reports whether a call came before an instant, as the audit log writes it.
func before(c auditlog.Event, at time.Time) bool {
	return c.Received.Before(at.Truncate(time.Microsecond))
}

// since are the writes since the latest change of a kubelet.
func (p *Play) since(k *kubelet) ([]write, error) {
	all, err := p.writes(k)
	return slices.DeleteFunc(all, func(w write) bool { return before(w.Event, k.changed) }), err
}

// Then checks something in the middle of a scenario, and ends the scenario if it is wrong.
func Then(checks ...Check) Step {
	return func(ctx context.Context, p *Play) error {
		for _, check := range checks {
			if found, err := check(ctx, p); err != nil || !found.Right {
				return errors.Join(err, errors.New(found.String()))
			}
		}
		return nil
	}
}

// Perhaps is a state that may be left out.
func Perhaps(state string) string { return "?" + state }

// matches reports whether a story goes through just these states.
func matches(story, states []string) bool {
	if len(states) == 0 {
		return len(story) == 0
	}
	state, optional := strings.CutPrefix(states[0], "?")
	return len(story) > 0 && story[0] == state && matches(story[1:], states[1:]) || optional && matches(story, states[1:])
}

// Becomes wants a node to have gone through exactly these states since the previous check, and the first of them to
// have come on time after its latest change.
func Becomes(node string, states ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		right := func(story []string) bool { return matches(story, states) }
		writes, found, err := p.awaitStory(ctx, node, func(story []string) bool {
			return right(story) || len(story) > len(states)
		}, right)
		if found.Right && len(writes) > 0 {
			found = found.And(p.onTime(p.kubelets[node], writes[0]))
		}
		return found, err
	}
}

// Ends is Becomes for only the last states, if the first ones depend on which of several nodes was faster.
func Ends(node string, states ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		right := func(story []string) bool {
			return len(story) >= len(states) && slices.Equal(story[len(story)-len(states):], states)
		}
		_, found, err := p.awaitStory(ctx, node, right, right)
		return found, err
	}
}

// awaitStory waits until the states of a node since the previous check are complete, and says whether they are right.
func (p *Play) awaitStory(ctx context.Context, node string, isTold, isRight func(story []string) bool,
) (writes []write, found Finding, err error) {
	k, story := p.kubelets[node], []string{}
	_ = await.Poll(ctx, func(context.Context) error {
		if writes, err = p.writes(k); err != nil {
			return err
		}
		writes, story = writes[k.checked:], []string{}
		for _, w := range writes {
			story = append(story, w.String())
		}
		if !isTold(story) {
			return errors.New("not yet")
		}
		return nil
	})
	k.checked += len(writes)
	return writes, Finding{fmt.Sprintf("%s went through the states %q", node, story), isRight(story)}, err
}

// onTime judges when the contestant wrote what was due.
func (p *Play) onTime(k *kubelet, w write) Finding {
	due := k.due.Truncate(time.Microsecond) // as the audit log writes it
	latest := due
	if w.String() == Silent {
		latest = oracle.Later(due, p.started.Add(extraGrace))
	}
	late := latest.Sub(due) + NodeTokenEvery + 2*renewEvery + p.judged(latest, w.Received)
	if after := w.Received.Sub(due); after >= 0 {
		return Finding{Seconds(after) + " after it was due", after <= late}
	}
	return Finding{Seen: Seconds(due.Sub(w.Received)) + " early"}
}

// Dated wants the NoExecute taint of a node to say since when the node has had it, or the other taint with the same
// cause.
func Dated(node string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		writes, err := p.writes(p.kubelets[node])
		if err != nil || len(writes) == 0 || writes[len(writes)-1].noExecute() == nil {
			return Finding{Seen: node + " has no NoExecute taint"}, err
		}
		first := len(writes) - 1
		for first > 0 && writes[first-1].noExecute() != nil {
			first--
		}
		began, added := writes[first], writes[len(writes)-1].noExecute().TimeAdded
		right := added != nil && !added.After(began.Answered.Add(time.Second)) &&
			began.Answered.Sub(added.Time) <= p.judged(added.Time, began.Answered)+time.Second
		return Finding{fmt.Sprintf("tainted at %s, timeAdded %s", began.Answered.Format(time.RFC3339Nano), added), right}, nil
	}
}

// Missed wants the four conditions of a silent node to be Unknown for a reason.
func Missed(node, reason, message string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
		if err != nil {
			return Finding{}, err
		}
		missed := 0
		for _, c := range found.Status.Conditions {
			_, known := healthy[c.Type]
			if known && c.Status == corev1.ConditionUnknown && c.Reason == reason && c.Message == message {
				missed++
			}
		}
		return Finding{fmt.Sprintf("the conditions of node %s are %v", node, found.Status.Conditions), missed == len(healthy)}, nil
	}
}

// Tainted waits until the given number of nodes have got a NoExecute taint since their latest changes.
func Tainted(count int, nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(context.Context) error {
			tainted, err := p.tainted(nodes)
			if err == nil && len(tainted) < count {
				err = fmt.Errorf("of the nodes %q, %d have got a NoExecute taint", nodes, len(tainted))
			}
			return err
		})
	}
}

// tainted are the writes by which some nodes got their first NoExecute taint since their latest changes, in order.
func (p *Play) tainted(nodes []string) (all []write, err error) {
	for _, name := range nodes {
		writes, err := p.since(p.kubelets[name])
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(writes, func(w write) bool { return w.noExecute() != nil }); i >= 0 {
			all = append(all, writes[i])
		}
	}
	slices.SortFunc(all, func(a, b write) int { return a.Received.Compare(b.Received) })
	return all, nil
}

// OneByOne wants nodes of a zone to get their NoExecute taints one token apart. No node had a token before the zone was
// last disturbed: since the latest change of any node or, if nodes were considered silent, since the first of them was.
// A restart gives no token, because the timeAdded of a taint tells when the latest token was taken, in whole seconds.
func OneByOne(nodes ...string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		tainted, err := p.tainted(nodes)
		if err != nil || len(tainted) < len(nodes) {
			return Finding{Seen: fmt.Sprintf("of the nodes %q, %d were tainted", nodes, len(tainted))}, err
		}
		last, err := p.disturbed(nodes)
		found := Finding{Right: true}
		for _, w := range tainted[1:] {
			gap := w.Received.Sub(last)
			found = found.And(Finding{"a token after " + Seconds(gap), gap >= NodeTokenEvery})
			last = w.noExecute().TimeAdded.Time
		}
		return found, err
	}
}

func (p *Play) disturbed(nodes []string) (at time.Time, err error) {
	for _, k := range p.kubelets {
		at = oracle.Later(at, k.changed)
	}
	var silent time.Time
	for _, name := range nodes {
		writes, err := p.since(p.kubelets[name])
		if err != nil {
			return at, err
		}
		if w := writes[0]; w.String() == Silent && (silent.IsZero() || w.Received.Before(silent)) {
			silent = w.Received
		}
	}
	return oracle.Later(at, silent), nil
}

// SaysOfNode wants one event about one of some nodes, of a type and a reason, and with some words.
func SaysOfNode(kind, words string, nodes ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		var names []string
		for _, name := range nodes {
			names = append(names, p.NodeName(name))
		}
		said, found, err := p.said(ctx, metav1.NamespaceDefault, kind, words, names)
		return found.And(Finding{"said " + Times(int(said.Count)), said.Count <= 1}), err
	}
}

// SaysOfPod wants such an event about a pod, however often.
func SaysOfPod(kind, words, pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		_, found, err := p.said(ctx, p.Namespace, kind, words, []string{pod})
		return found, err
	}
}

// said returns an event of node health's about one of some objects.
func (p *Play) said(ctx context.Context, namespace, kind, words string, about []string,
) (said corev1.Event, found Finding, err error) {
	_ = await.Poll(ctx, func(ctx context.Context) error {
		var events *corev1.EventList
		events, err = p.Admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(events.Items, func(e corev1.Event) bool {
			return slices.Contains(about, e.InvolvedObject.Name) && e.Type+" "+e.Reason == kind &&
				strings.Contains(e.Message, words) && e.Source.Component == "node-controller"
		})
		if i < 0 {
			found.Seen = fmt.Sprintf("there is no event %s about one of %q: %q", kind, about, words)
			return errors.New(found.Seen)
		}
		said, found = events.Items[i], Finding{Seen: events.Items[i].Message, Right: true}
		return nil
	})
	return said, found, err
}

// MarkedNotReady wants the condition Ready of a pod to be False, with the reason that its kubelet gave.
func MarkedNotReady(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		found, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return Finding{}, err
		}
		right := slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == "Posted"
		})
		return Finding{fmt.Sprintf("the conditions of pod %s are %v", pod, found.Status.Conditions), right}, nil
	}
}
