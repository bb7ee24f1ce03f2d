// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// generate makes a history from a seed and an index.
//
// It keeps ties out, so that who came first is never a matter of the second's resolution: steps lie
// on even seconds plus a fraction of 20 to 400 ms that no other step has, every timeAdded is an
// even second, and tolerationSeconds that end within a history are odd. So whatever is due lies on
// an odd second plus a step's fraction, or, where the second was rounded up, on an even second, at
// least 20 ms before a step.
func generate(seed, index uint64) *history {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(seed, index)),
		keys:  map[string][]string{},
		pods:  map[string]*podSpec{},
		nodes: map[string]bool{},
	}
	g.begin()
	for range g.between(3, 25) {
		g.advance()
		if do := g.action(); do != nil {
			g.history.Steps = append(g.history.Steps, step{g.at, do})
		}
	}
	return &g.history
}

type generator struct {
	*rand.Rand
	history history

	at        time.Duration
	fractions []time.Duration // taken
	started   time.Duration   // when the contestant starts for the last time
	unseen    bool            // there is a createUnseen already: a second would meet a longer backoff

	keys  map[string][]string // of the taints on each node
	pods  map[string]*podSpec // by name, the last that was created
	nodes map[string]bool     // that are there
	uids  int

	planned []func() action // that usually come next
	soon    bool            // the next step follows within the second, if there is room
}

func (g *generator) between(least, most int) int { return least + g.IntN(most-least+1) }

// chance is true in the given percentage of cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// even returns an even number of seconds.
func (g *generator) even(least, most int) time.Duration {
	return time.Duration(2*g.between(least/2, most/2)) * sec
}

func (g *generator) begin() {
	g.started = -sec
	g.at = g.instantIn(0, 20)
	g.history.Start, g.started = g.at, g.at
	for i := range pick(g, 1, 1, 2, 2, 3, 4) {
		spec := nodeSpec{Name: "n" + strconv.Itoa(i+1)}
		g.nodes[spec.Name] = true
		for range pick(g, 0, 0, 0, 1, 2) {
			taint := g.taint()
			spec.Taints = withTaint(spec.Taints, taint)
			g.keys[spec.Name] = append(g.keys[spec.Name], taint.Key)
		}
		g.history.Nodes = append(g.history.Nodes, spec)
	}
	for range g.between(0, 5) {
		g.history.Pods = append(g.history.Pods, g.oldPod())
	}
}

// advance moves on to the instant of the next step.
func (g *generator) advance() {
	second := g.at.Truncate(sec)
	least := 20
	if into := int((g.at - second) / ms); (g.soon || g.chance(15)) && into < 300 {
		least = into + int(spacing/ms)
	} else {
		second += time.Duration(pick(g, 2, 2, 4, 4, 6, 8, 10, 12)) * sec
	}
	if len(g.history.Steps) > 0 {
		if last, ok := g.history.Steps[len(g.history.Steps)-1].Do.(createUnseen); ok && last.Pod.UID != "" {
			second, least = (g.at + 2*blindFor).Truncate(sec), 20
		}
	}
	g.at = g.instantIn(second, least)
}

// instantIn returns an instant with a fraction of a second that is not taken, at least the given number of milliseconds
// into the second, or in a later second. At that fraction, no timeAdded may be written because of another step, and the
// contestant may not have started.
func (g *generator) instantIn(second time.Duration, least int) time.Duration {
	const tries = 30
	for try := 1; ; try++ {
		f := time.Duration(g.between(least, 400)) * ms
		taken := slices.ContainsFunc(g.fractions, func(other time.Duration) bool {
			return f == other || f == other+stampAfter || f == other-stampAfter
		})
		if !taken && (second+f-g.started).Abs() > spacing {
			g.fractions = append(g.fractions, f)
			return second + f
		}
		if try%tries == 0 {
			second, least = second+2*sec, 20
		}
	}
}

// spacing is the least time between two steps: when it starts, upstream may delete a pod twice, and tries the second
// delete again for 50 ms.
const spacing = 60 * ms

// seconds returns tolerationSeconds: nil, short, zero or less, or longer than any history, the
// overflowing ones among them.
func (g *generator) seconds() *int64 {
	switch n := g.IntN(100); {
	case n < 28:
		return nil
	case n < 34:
		return new(pick[int64](g, 0, 0, -1, -3, math.MinInt64))
	case n < 44:
		return new(pick[int64](g, 1<<31, 18446744074, 18446744077, 9223372036, 9223372037, 1<<62, math.MaxInt64))
	}
	return new(pick[int64](g, 1, 3, 5, 7, 9, 11, 15, 21, int64(longestCountdown/sec)))
}

func (g *generator) key() string {
	return pick(g, "a", "a", "a", "b", "b", "b", "c", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
}

func (g *generator) value() string { return pick(g, "", "", "x", "5", "12", "09", "-7") }

func (g *generator) toleration() corev1.Toleration {
	toleration := corev1.Toleration{
		Key:      g.key(),
		Operator: pick(g, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
		Effect:   pick(g, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, "", corev1.TaintEffectNoSchedule),
	}
	switch {
	case g.chance(12):
		toleration.Key, toleration.Operator = "", corev1.TolerationOpExists
	case g.chance(8):
		toleration.Operator = pick(g, corev1.TolerationOpGt, corev1.TolerationOpLt)
	}
	if toleration.Operator != corev1.TolerationOpExists {
		toleration.Value = g.value()
	}
	if toleration.Effect == corev1.TaintEffectNoExecute {
		toleration.TolerationSeconds = g.seconds()
	}
	return toleration
}

func (g *generator) tolerations() []corev1.Toleration {
	var list []corev1.Toleration
	for range pick(g, 0, 1, 1, 1, 2, 2, 3, 4) {
		list = append(list, g.toleration())
	}
	if g.chance(35) {
		list = append(list, g.defaultTolerations()...)
	}
	return list
}

// defaultTolerations are the ones that the API server gives to pods, usually with the same seconds for both.
func (g *generator) defaultTolerations() []corev1.Toleration {
	list := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	both := new(pick[int64](g, 5, 15, 21, 31))
	for i := range list {
		list[i].TolerationSeconds = both
		if g.chance(25) {
			list[i].TolerationSeconds = g.seconds()
		}
	}
	return list
}

// retolerated changes tolerations as the API lets those of a running pod change: some may be added,
// and the tolerationSeconds of those there are may change.
func (g *generator) retolerated(current []corev1.Toleration) []corev1.Toleration {
	list := slices.Clone(current)
	for i := range list {
		if list[i].Effect == corev1.TaintEffectNoExecute && g.chance(60) {
			list[i].TolerationSeconds = g.seconds()
		}
	}
	if len(list) == 0 || g.chance(40) {
		list = slices.Insert(list, g.IntN(len(list)+1), g.toleration())
	}
	return list
}

func (g *generator) taint() corev1.Taint {
	taint := corev1.Taint{Key: g.key(), Value: g.value(), Effect: corev1.TaintEffectNoExecute}
	if g.chance(12) {
		taint.Effect = pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
	}
	if at := g.timeAdded(); at != nil {
		taint.TimeAdded = instant(*at)
	}
	return taint
}

// timeAdded is missing, or now, or in the past, or in the future.
func (g *generator) timeAdded() *time.Duration {
	now := g.at.Truncate(sec)
	switch n := g.IntN(100); {
	case n < 55:
		return nil
	case n < 75:
		return new(now)
	case n < 92:
		return new(now - g.even(2, 30))
	}
	return new(now + g.even(2, 20))
}
