// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// Departure is how a pod left, or did not. Its times count from when its story began.
type Departure struct {
	Due     time.Duration // when it must leave, or [Never]
	Late    time.Duration // by how much it may be late
	Left    bool
	After   time.Duration // when it left
	Watched time.Duration // how long it was looked at, if it did not
}

// Never is when a pod that stays is due.
const Never time.Duration = math.MaxInt64

func (d Departure) early() time.Duration { return max(0, d.Due-d.After) }

func (d Departure) late() time.Duration { return max(0, d.After-d.Due) }

// Right reports whether the pod did what was promised.
func (d Departure) Right() bool {
	if d.Due == Never {
		return !d.Left
	}
	return d.Left && d.early() == 0 && d.late() <= d.Late
}

func (d Departure) String() string {
	switch {
	case !d.Left:
		return "still there after " + Seconds(d.Watched)
	case d.Right() || d.Due == Never:
		return "left after " + Seconds(d.After)
	case d.early() > 0:
		return fmt.Sprintf("left after %s, %s early", Seconds(d.After), Seconds(d.early()))
	default:
		return fmt.Sprintf("left after %s, %s late", Seconds(d.After), Seconds(d.late()))
	}
}

// Finding says how the pod left.
func (d Departure) Finding() Finding { return Finding{Seen: d.String(), Right: d.Right()} }

const (
	// soon limits how long a scenario waits for pods that are due: those that are due later must still be there.
	soon = time.Minute
	// If there are more pods than this, those that did what was promised are not listed one by one.
	many = 4
)

// ByRule wants every pod to leave when the rule says, once, and the others to be left alone.
func ByRule(ctx context.Context, p *Play) (Finding, error) { return p.judgeAll(ctx, p.pods) }

// ByRuleFor is ByRule for one pod.
func ByRuleFor(name string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) { return p.judgeAll(ctx, []*Pod{p.Named(name)}) }
}

func (p *Play) judgeAll(ctx context.Context, pods []*Pod) (Finding, error) {
	if err := p.watch(ctx, pods); err != nil {
		return Finding{}, err
	}
	all := Finding{Right: true}
	for _, pod := range pods {
		found, err := p.judge(pod)
		if err != nil {
			return all, err
		}
		if len(pods) > 1 {
			found.Seen = pod.Name + ": " + found.Seen
		}
		if len(pods) <= many || !found.Right {
			all = all.And(found)
		}
	}
	if all.Seen == "" {
		all.Seen = fmt.Sprintf("%d pods, each evicted on time", len(pods))
	}
	return all, nil
}

// Stays wants a pod to stay, whatever the rule says about it.
func Stays(name string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		pod := p.Named(name)
		_, err := p.Seen().Await(ctx, time.Now().Add(p.watched), pod.Pod)
		return p.departure(pod, Never, 0).Finding(), err
	}
}

// watch returns when nothing new can be learned about the pods.
func (p *Play) watch(ctx context.Context, pods []*Pod) error {
	until := time.Now().Add(p.watched)
	var staying []*corev1.Pod
	for _, pod := range pods {
		promise := p.promise(pod)
		if due := promise.Due.To; due.Before(time.Now().Add(soon)) {
			leaves := max(p.watched, p.Patience()+stall.TooLong)
			if _, err := p.Seen().Await(ctx, oracle.Later(due, p.excused).Add(leaves), pod.Pod); err != nil {
				return err
			}
			continue
		}
		if !pod.ended {
			staying = append(staying, pod.Pod)
		}
		for _, cancelled := range promise.Cancelled {
			if cancelled.To.Before(time.Now().Add(soon)) {
				until = oracle.Later(until, cancelled.To.Add(p.Patience()))
			}
		}
	}
	for _, pod := range staying { // once one has left, enough was seen
		if left, err := p.Seen().Await(ctx, until, pod); err != nil || left == 0 {
			return err
		}
	}
	return nil
}

// judge compares what is promised to a pod with what was seen of it, and with the calls about it: one delete of a pod
// that leaves, and not even a mark on one that stays.
func (p *Play) judge(pod *Pod) (Finding, error) {
	calls, err := p.Calls(auditlog.Accepted, auditlog.In(p.Namespace), of(pod))
	if err != nil {
		return Finding{}, err
	}
	deletes, marks := auditlog.Choose(calls, auditlog.Deletes), auditlog.Choose(calls, marks)
	d := p.byRule(pod)
	found := d.Finding()
	if pod.ended { // it may have been due before
		found = Finding{Seen: "deleted by somebody else", Right: d.Due != Never || len(deletes) == 0}
	}
	if len(deletes) > 1 {
		found = found.And(Finding{Seen: Deleted(len(deletes))})
	}
	if d.Due == Never && len(marks) > 0 {
		found = found.And(Finding{Seen: "marked as evicted"})
	}
	tooLate := d.Due != Never && d.early() == 0 && len(deletes) <= 1
	p.certain = p.certain || !found.Right && !tooLate
	return found, nil
}

// marks wants the calls that mark pods as evicted, not those that say that they are not ready. If the stage does not
// know the answers, each patch may be such a mark.
func marks(c auditlog.Event) bool {
	maybe := len(c.Response) == 0 || bytes.Contains(c.Response, []byte(corev1.DisruptionTarget))
	return maybe && auditlog.StatusPatches(c)
}

// of wants the calls about a pod, even from a contestant that identifies pods by name, although names can be reused.
func of(pod *Pod) auditlog.Filter {
	return func(c auditlog.Event) bool {
		return c.Name == pod.Name && (c.UID == pod.UID || c.UID == "" && !pod.ended)
	}
}

// byRule compares how a pod left with the rule. A restarted contestant knows since when taints count only to the
// second.
func (p *Play) byRule(pod *Pod) Departure {
	due := p.promise(pod).Due
	_, left := p.Seen().Left(pod.UID)
	if stays := due.To.Equal(oracle.Never) || due.From.After(time.Now()); stays && !left || due.From.Equal(oracle.Never) {
		return p.departure(pod, Never, 0)
	}
	latest, at := oracle.Later(due.To, p.excused), time.Now()
	if left, ok := p.Seen().Left(pod.UID); ok {
		at = left
	}
	late := latest.Sub(due.From) + p.judged(latest, at)
	if p.restarted {
		late += time.Second
	}
	return p.departure(pod, due.From.Sub(p.Began(pod)), late)
}

// departure is how a pod left, given when it was due after its story began, and how late it may be.
func (p *Play) departure(pod *Pod, due, late time.Duration) Departure {
	began := p.Began(pod)
	d := Departure{Due: due, Late: late, Watched: time.Since(began)}
	if at, left := p.Seen().Left(pod.UID); left {
		d.Left, d.After = true, at.Sub(began)
	}
	return d
}
