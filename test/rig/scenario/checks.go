// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// NoneAfterUntaint fails if a delete is accepted after the last change of a node's taints, except deletes that were
// already in flight.
func NoneAfterUntaint(node string) Check {
	const underWay = time.Second
	return func(ctx context.Context, p *Play) (Finding, error) {
		if err := p.awaitQuiet(ctx); err != nil {
			return Finding{}, err
		}
		deletes, err := p.Calls(auditlog.In(p.Namespace), auditlog.Deletes, auditlog.Accepted)
		if err != nil {
			return Finding{}, err
		}
		versions := p.nodes[node]
		untainted := versions[len(versions)-1].At.To
		return noneAfter(deletes, len(p.pods), untainted, func(answered time.Time) bool {
			return answered.Sub(untainted) > underWay+p.Stalled(untainted, answered)
		}), nil
	}
}

func noneAfter(deletes []auditlog.Event, pods int, untainted time.Time, tooLate func(answered time.Time) bool) Finding {
	after, right := 0, true
	for _, c := range deletes {
		if c.Answered.After(untainted) {
			after++
		}
		right = right && !tooLate(c.Answered)
	}
	seen := fmt.Sprintf("%d of %d deleted before the untaint, %d after it", len(deletes)-after, pods, after)
	return Finding{Seen: seen, Right: right}
}

// awaitQuiet returns once all pods have left, or no pod has left for 15 s.
func (p *Play) awaitQuiet(ctx context.Context) error {
	const quiet = 15 * time.Second // longer than reading all pods takes at 20 calls per second
	for before := -1; ; {
		left, err := p.Seen().Await(ctx, time.Now().Add(quiet), p.Everyone()...)
		if err != nil || left == 0 || left == before {
			return err
		}
		before = left
	}
}

// ByContestant fails if anyone else deleted a pod that has left. The audit log shows the calls after a moment; a
// contestant that was killed did not wait for the answer to its last one.
func ByContestant(ctx context.Context, p *Play) (Finding, error) {
	err := await.Poll(ctx, func(context.Context) error {
		calls, err := p.Calls(auditlog.Deletes, auditlog.AcceptedOrUnheard, auditlog.In(p.Namespace))
		if err != nil {
			return err
		}
		for _, pod := range p.pods {
			_, left := p.Seen().Left(pod.UID)
			if left && !pod.ended && !slices.ContainsFunc(calls, of(pod)) {
				return fmt.Errorf("%s deleted by somebody else", pod.Name)
			}
		}
		return nil
	})
	if err != nil {
		return Finding{Seen: err.Error()}, context.Cause(ctx)
	}
	return Finding{Right: true}, nil
}

// Everyone returns all pods that the scenario created.
func (p *Play) Everyone() []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range p.pods {
		all = append(all, pod.Pod)
	}
	return all
}

// Events returns the events of pods with this name whose message begins with words.
func (p *Play) Events(ctx context.Context, pod, words string) ([]corev1.Event, error) {
	all, err := p.Admin.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	var found []corev1.Event
	for _, event := range all.Items {
		if event.InvolvedObject.Name == pod && strings.HasPrefix(event.Message, words) {
			found = append(found, event)
		}
	}
	return found, nil
}

// Cancelling is how the message of an event begins if it says that a pod stays.
const Cancelling = "Cancelling deletion"

// SaysCancelled fails unless this many events, with the pod's UID, say that its deletion is cancelled. It waits for
// them, because events are written in the background at a limited rate, and then a little longer for one too many.
func SaysCancelled(pod string, times int) Check {
	const background = 3 * time.Second
	return func(ctx context.Context, p *Play) (Finding, error) {
		_ = await.Poll(ctx, func(ctx context.Context) error {
			said, err := p.Events(ctx, pod, Cancelling)
			if err == nil && len(said) < times {
				err = errors.New("not yet")
			}
			return err
		})
		if err := await.Pause(ctx, background); err != nil {
			return Finding{}, err
		}
		said, err := p.Events(ctx, pod, Cancelling)
		right := len(said) == times && !slices.ContainsFunc(said, func(event corev1.Event) bool {
			return event.InvolvedObject.UID != p.Named(pod).UID
		})
		return Finding{Seen: "event '" + Cancelling + "': " + Times(len(said)), Right: right}, err
	}
}
