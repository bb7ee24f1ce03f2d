// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
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

func (t *troublemaker) aTaint() corev1.Taint {
	taint := corev1.Taint{
		Key:    pick(t.random, taintKeys...),
		Value:  pick(t.random, taintValues...),
		Effect: corev1.TaintEffectNoExecute,
	}
	if t.chance(0.12) {
		taint.Effect = corev1.TaintEffectNoSchedule
		return taint
	}
	taint.TimeAdded = t.timeAdded()
	return taint
}

// timeAdded draws one: none as with kubectl, the present one, or one from a clock that is slow or fast.
func (t *troublemaker) timeAdded() *metav1.Time {
	now := metav1.Now()
	switch drawn := t.random.IntN(100); {
	case drawn < 50:
		return nil
	case drawn < 65:
		return &now
	case drawn < 85:
		now.Time = now.Add(-time.Duration(t.random.Int64N(int64(time.Minute))))
	default:
		now.Time = now.Add(time.Duration(t.random.Int64N(int64(20 * time.Second))))
	}
	return &now
}

// finalTaints are all there are, in some order and without a timeAdded.
func (t *troublemaker) finalTaints() []corev1.Taint {
	var all []corev1.Taint
	for _, i := range t.random.Perm(len(taintKeys)) {
		all = append(all, corev1.Taint{Key: taintKeys[i], Effect: corev1.TaintEffectNoExecute})
	}
	return all
}

// taint sets a taint, often with a second one; one of the same key and effect is overwritten.
func (t *troublemaker) taint(ctx context.Context) error {
	taints := []corev1.Taint{t.aTaint()}
	if t.chance(0.4) {
		taints = append(taints, t.aTaint())
	}
	return t.change(ctx, t.set(taints...))
}

func (t *troublemaker) set(added ...corev1.Taint) func([]corev1.Taint) []corev1.Taint {
	return func(taints []corev1.Taint) []corev1.Taint {
		for _, taint := range added {
			taints = append(without(taints, taint), taint)
		}
		return taints
	}
}

func (t *troublemaker) unset(gone corev1.Taint) func([]corev1.Taint) []corev1.Taint {
	return func(taints []corev1.Taint) []corev1.Taint { return without(taints, gone) }
}

func without(taints []corev1.Taint, gone corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return taint.MatchTaint(&gone) })
}

// untaint takes one taint, or now and then all, from a node that has some.
func (t *troublemaker) untaint(ctx context.Context) error {
	all := t.chance(0.4)
	drawn := t.random.IntN(1 << 16)
	for _, i := range t.random.Perm(len(t.nodes)) {
		removed := false
		err := t.changeNode(ctx, t.nodes[i], func(taints []corev1.Taint) []corev1.Taint {
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
func (t *troublemaker) retime(ctx context.Context) error {
	timeAdded := t.timeAdded()
	return t.change(ctx, func(taints []corev1.Taint) []corev1.Taint {
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
func (t *troublemaker) storm(ctx context.Context) error {
	taint := corev1.Taint{Key: pick(t.random, taintKeys...), Value: "off", Effect: corev1.TaintEffectNoExecute}
	half := t.random.Perm(len(t.nodes))[:len(t.nodes)/2]
	steps := []func([]corev1.Taint) []corev1.Taint{t.set(taint)}
	if t.chance(0.5) {
		steps = append(steps, t.unset(taint))
	}
	for _, step := range steps {
		for _, i := range half {
			if err := t.changeNode(ctx, t.nodes[i], step); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(200+t.random.IntN(3000))*time.Millisecond)
	}
	return nil
}

// taintAgain sets a taint, removes it and sets it again, all within two seconds: a replica that cannot watch meanwhile
// sees one taint where there were two.
func (t *troublemaker) taintAgain(ctx context.Context) error {
	name := pick(t.random, t.nodes...)
	taint := t.aTaint()
	set := t.set(taint)
	for _, step := range []func([]corev1.Taint) []corev1.Taint{set, t.unset(taint), set} {
		if err := t.changeNode(ctx, name, step); err != nil {
			return err
		}
		pause(ctx, time.Duration(t.random.IntN(900))*time.Millisecond)
	}
	return nil
}

// split takes a namespaced name apart.
func split(name string) (namespace, rest string) {
	namespace, rest, _ = strings.Cut(name, "/")
	return namespace, rest
}
