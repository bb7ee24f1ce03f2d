// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// triesWithin is how long after its beginning a try of the built-in may still set the mark: as long as the hold counts
	// on, which is longer than its rate limiter delays the tries of three pods.
	triesWithin = 110 * time.Second
	// deletesWithin is how long after the mark its delete may come (docs/coexistence.md).
	deletesWithin = 25 * time.Second
)

// kcm is the taint-eviction-controller in kube-controller-manager: its timers, which package builtin knows, and the
// tries that it has begun. It sees changes at once, and makes each call of a try at any later time. A try that would be
// refused now, or that would not find its pod, goes on instead: what it could still do is more than if it had ended.
type kcm struct {
	c      *cluster
	timers map[string]verdict.Verdict // by the name of the pod
	tries  []kcmTry
}

// kcmTry is a try to evict the pod of a name.
type kcmTry struct {
	name string
	at   time.Time // when it began, or when the pod was marked
	// marked is the pod on which it has set the mark, or found it; empty if there is none yet.
	marked types.UID
	// held means that it began while the eviction clock was fresh.
	held bool
	// alone means that no replica ran when it began.
	alone bool
	// unseen means that since it set the mark, or when it did, no replica had seen and recorded what had happened.
	unseen bool
}

func (k *kcm) nodeChanged(n *node) {
	for _, p := range k.c.pods {
		if p != nil && p.node == n.name {
			k.look(p)
		}
	}
}

func (k *kcm) podChanged(before, after *pod) {
	switch {
	case before != nil && (after == nil || after.name != before.name):
		delete(k.timers, before.name)
	case before != nil && before.uid == after.uid && len(before.tolerations) == len(after.tolerations):
		return
	case before != nil && before.uid != after.uid:
		delete(k.timers, before.name)
	}
	if after != nil {
		k.look(after)
	}
}

// look looks at a pod.
func (k *kcm) look(p *pod) {
	var taints []verdict.Taint
	for _, t := range k.c.nodes[p.node].taints {
		taints = append(taints, verdict.Taint{Taint: t, Since: k.c.now})
	}
	fired := k.timers[p.name].DueAt(k.c.now)
	is := verdict.Pod{Tolerations: p.tolerations, Bound: k.c.now}
	timer := builtin.Timers{}.Look(k.timers[p.name], is, taints, k.c.now)
	if k.timers[p.name] = timer; !timer.Leaves {
		delete(k.timers, p.name)
	}
	if timer.DueAt(k.c.now) && !fired {
		k.begin(p.name, k.c.now)
	}
}

func (k *kcm) begin(name string, at time.Time) {
	k.tries = append(k.tries, kcmTry{name: name, at: at, held: k.c.fresh(), alone: !k.c.attended})
}

// fire begins the tries of the timers that fire up to an instant.
func (k *kcm) fire(from, to time.Time) {
	for _, p := range k.c.pods {
		if p == nil {
			continue
		}
		if timer := k.timers[p.name]; timer.PendingAt(from) && timer.DueAt(to) {
			k.begin(p.name, timer.Due)
		}
	}
}

// restart ends the process and starts another, which tries each due pod twice, because both watches bring it.
func (k *kcm) restart() {
	k.timers, k.tries = map[string]verdict.Verdict{}, nil
	for _, p := range k.c.pods {
		if p != nil {
			k.look(p)
		}
	}
	k.tries = append(k.tries, k.tries...)
}

// deadline is when a try must have made its next call.
func (t kcmTry) deadline() time.Time {
	if t.marked != "" {
		return t.at.Add(deletesWithin)
	}
	return t.at.Add(triesWithin)
}

// mayRest reports whether time may pass: no try must make a call before, not even one that begins meanwhile.
func (k *kcm) mayRest(until time.Time) bool {
	for _, timer := range k.timers {
		if timer.PendingAt(k.c.now) && until.After(timer.Due.Add(triesWithin)) {
			return false
		}
	}
	return !slices.ContainsFunc(k.tries, func(t kcmTry) bool { return until.After(t.deadline()) && k.can(t) })
}

// rest ends the tries that could not do anything in time. Their pods are forgotten until the built-in looks at them
// again.
func (k *kcm) rest() {
	k.tries = slices.DeleteFunc(k.tries, func(t kcmTry) bool {
		over := k.c.now.After(t.deadline())
		if over && k.timers[t.name].DueAt(k.c.now) {
			delete(k.timers, t.name)
		}
		return over
	})
}

// works reports whether a pod of a name is being tried, or will be.
func (k *kcm) works(name string) bool {
	return k.timers[name].PendingAt(k.c.now) || slices.ContainsFunc(k.tries, func(t kcmTry) bool { return t.name == name })
}

// can reports whether the next call of a try changes something.
func (k *kcm) can(t kcmTry) bool {
	p := k.c.named(t.name)
	return p != nil && (t.marked != "" || p.mark == v1alpha1.MarkedByBuiltIn || k.c.refusesMark(p) == "")
}

// call makes the next call of a try. It returns what happened, and which promise was broken.
func (k *kcm) call(number int) (line, broken string) {
	t := &k.tries[number]
	p := k.c.named(t.name)
	switch {
	case t.marked != "":
		line = fmt.Sprintf("the built-in deletes pod %s by name: its UID is %s", t.name, p.uid)
		if t.held && !p.terminating && !k.c.due(p, k.c.now) {
			broken = BuiltInDeletes
		}
		k.tries = slices.Delete(k.tries, number, number+1)
		k.c.delete(p)
		return line, broken
	case p.mark == v1alpha1.MarkedByBuiltIn:
		line = fmt.Sprintf("the built-in finds its mark on pod %s", t.name)
	default:
		line = fmt.Sprintf("the built-in marks pod %s of UID %s", t.name, p.uid)
		if k.c.fresh() {
			broken = BuiltInMarks
		}
		k.c.edit(p, func(p *pod) { p.mark = v1alpha1.MarkedByBuiltIn })
	}
	t.marked, t.at = p.uid, k.c.now
	return line, broken
}
