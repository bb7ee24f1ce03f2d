// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	taintKeys   = []string{"power", "maintenance", "spot"}
	taintValues = []string{"", "off", "soon"}
	// toleratedKeys are those that pods tolerate, now and then.
	toleratedKeys = append([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, template}, taintKeys...)
)

// ours reports whether a taint is one of those that users set, and not a controller's.
func ours(taint corev1.Taint) bool { return slices.Contains(taintKeys, taint.Key) }

func (a *actor) aTaint() corev1.Taint {
	taint := corev1.Taint{
		Key:    pick(a.random, taintKeys...),
		Value:  pick(a.random, taintValues...),
		Effect: corev1.TaintEffectNoExecute,
	}
	if a.chance(0.12) {
		taint.Effect = corev1.TaintEffectNoSchedule
		return taint
	}
	taint.TimeAdded = a.timeAdded()
	return taint
}

// timeAdded draws one: none as with kubectl, the present one, or one from a clock that is slow or fast.
func (a *actor) timeAdded() *metav1.Time {
	now := metav1.Now()
	switch drawn := a.random.IntN(100); {
	case drawn < 50:
		return nil
	case drawn < 65:
		return &now
	case drawn < 85:
		now.Time = now.Add(-time.Duration(a.random.Int64N(int64(time.Minute))))
	default:
		now.Time = now.Add(time.Duration(a.random.Int64N(int64(20 * time.Second))))
	}
	return &now
}

// finalTaints are all there are, in some order and without a timeAdded.
func (a *actor) finalTaints() []corev1.Taint {
	var all []corev1.Taint
	for _, i := range a.random.Perm(len(taintKeys)) {
		all = append(all, corev1.Taint{Key: taintKeys[i], Effect: corev1.TaintEffectNoExecute})
	}
	return all
}

// taint sets a taint, often with a second one; one of the same key and effect is overwritten.
func (a *actor) taint(ctx context.Context) error {
	taints := []corev1.Taint{a.aTaint()}
	if a.chance(0.4) {
		taints = append(taints, a.aTaint())
	}
	return a.change(ctx, setTaints(taints...))
}

func setTaints(added ...corev1.Taint) func([]corev1.Taint) []corev1.Taint {
	return func(taints []corev1.Taint) []corev1.Taint {
		for _, taint := range added {
			taints = append(without(taints, taint), taint)
		}
		return taints
	}
}

func unsetTaint(gone corev1.Taint) func([]corev1.Taint) []corev1.Taint {
	return func(taints []corev1.Taint) []corev1.Taint { return without(taints, gone) }
}

func without(taints []corev1.Taint, gone corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return taint.MatchTaint(&gone) })
}

// untaint takes one taint, or now and then all, from a node that has some.
func (a *actor) untaint(ctx context.Context) error {
	all := a.chance(0.4)
	drawn := a.random.IntN(1 << 16)
	for _, name := range a.someNodes(len(a.nodes)) {
		removed := false
		err := a.changeNode(ctx, name, func(taints []corev1.Taint) []corev1.Taint {
			removable := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return !ours(taint) })
			if len(removable) == 0 {
				return taints
			}
			removed = true
			if all {
				return slices.DeleteFunc(slices.Clone(taints), ours)
			}
			return without(taints, removable[drawn%len(removable)])
		})
		if err != nil || removed {
			return err
		}
	}
	return nil
}

// retime gives the NoExecute taints of a node another timeAdded, or takes it from them as `kubectl taint --overwrite`
// does.
func (a *actor) retime(ctx context.Context) error {
	timeAdded := a.timeAdded()
	return a.change(ctx, func(taints []corev1.Taint) []corev1.Taint {
		taints = slices.Clone(taints)
		for i := range taints {
			if ours(taints[i]) && taints[i].Effect == corev1.TaintEffectNoExecute {
				taints[i].TimeAdded = timeAdded
			}
		}
		return taints
	})
}

// storm taints half of the nodes at once and, every other time, takes the taints off again some moments later. It ends
// within a few seconds, before the built-in has finished the evictions that it began.
func (a *actor) storm(ctx context.Context) error {
	taint := corev1.Taint{Key: pick(a.random, taintKeys...), Value: "off", Effect: corev1.TaintEffectNoExecute}
	half := a.someNodes(len(a.nodes) / 2)
	steps := []func([]corev1.Taint) []corev1.Taint{setTaints(taint)}
	if a.chance(0.5) {
		steps = append(steps, unsetTaint(taint))
	}
	for _, step := range steps {
		if err := a.changeNodes(ctx, half, step); err != nil {
			return err
		}
		pause(ctx, time.Duration(200+a.random.IntN(3000))*time.Millisecond)
	}
	return nil
}

// someNodes picks some of the nodes, in random order.
func (a *actor) someNodes(n int) []string {
	var names []string
	for _, i := range a.random.Perm(len(a.nodes))[:n] {
		names = append(names, a.nodes[i])
	}
	return names
}

// taintAgain sets a taint, removes it and sets it again, all within two seconds: a replica that cannot watch meanwhile
// sees one taint where there were two.
func (a *actor) taintAgain(ctx context.Context) error {
	name := pick(a.random, a.nodes...)
	taint := a.aTaint()
	set := setTaints(taint)
	for _, step := range []func([]corev1.Taint) []corev1.Taint{set, unsetTaint(taint), set} {
		if err := a.changeNode(ctx, name, step); err != nil {
			return err
		}
		pause(ctx, time.Duration(a.random.IntN(900))*time.Millisecond)
	}
	return nil
}

// template is the key of the taint that somebody writes again and again, always with the present time. Nobody else sets
// it.
const template = "template"

// conditionSeconds is how long a pod tolerates not-ready and unreachable if it does not say otherwise.
const conditionSeconds = "12"

// fallSick makes a node not ready and unreachable by turns, and then ready. Each time the one taint comes before the
// other goes, and has the present time.
func (a *actor) fallSick(ctx context.Context) error {
	node := pick(a.random, a.nodes...)
	now, next := corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	if a.chance(0.5) {
		now, next = next, now
	}
	if err := a.changeNode(ctx, node, setTaints(presentTaint(now))); err != nil {
		return err
	}
	for range 2 + a.random.IntN(5) {
		a.wait(ctx, time.Second, 5*time.Second)
		if err := a.changeNode(ctx, node, setTaints(presentTaint(next))); err != nil {
			return err
		}
		a.wait(ctx, time.Millisecond, 50*time.Millisecond)
		if err := a.changeNode(ctx, node, unsetTaint(presentTaint(now))); err != nil {
			return err
		}
		a.ledger.inject(swapped)
		now, next = next, now
	}
	a.wait(ctx, time.Second, 10*time.Second)
	return a.changeNode(ctx, node, unsetTaint(presentTaint(now)))
}

// rewrite sets a taint, and sets it again before the pods that tolerate it for a while must leave.
func (a *actor) rewrite(ctx context.Context) error {
	node := pick(a.random, a.nodes...)
	for range 4 + a.random.IntN(12) {
		if err := a.changeNode(ctx, node, setTaints(presentTaint(template))); err != nil {
			return err
		}
		a.ledger.inject(rewritten)
		a.wait(ctx, 300*time.Millisecond, 3*time.Second)
	}
	return a.changeNode(ctx, node, unsetTaint(presentTaint(template)))
}

func presentTaint(key string) corev1.Taint {
	now := metav1.Now()
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now}
}

// change changes the taints of a node that is picked at random, under an optimistic lock.
func (a *actor) change(ctx context.Context, change func([]corev1.Taint) []corev1.Taint) error {
	return a.changeNode(ctx, pick(a.random, a.nodes...), change)
}

func (a *actor) changeNode(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	return persist(ctx, "change the taints of node "+name, func(ctx context.Context) error {
		node, err := a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		_, err = a.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (a *actor) changeNodes(ctx context.Context, names []string, change func([]corev1.Taint) []corev1.Taint) error {
	for _, name := range names {
		if err := a.changeNode(ctx, name, change); err != nil {
			return err
		}
	}
	return nil
}
