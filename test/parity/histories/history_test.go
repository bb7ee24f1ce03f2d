// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	ms  = time.Millisecond
	sec = time.Second
	// never is after the end of every history.
	never = time.Duration(1<<63 - 1)
)

// epoch is when every synctest bubble begins. All instants of a history count from it.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// now is the virtual instant.
func now() time.Duration { return time.Since(epoch) }

// sleepUntil lets virtual time pass. It is for bubbles only.
func sleepUntil(at time.Duration) { pass(at - now()) }

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // this is the one helper
}

// instant is the instant of a history as the API writes it: to the second, rounded down. As in objects that were decoded,
// it is in local time, because upstream compares heartbeats with !=.
func instant(at time.Duration) metav1.Time { return metav1.Unix(epoch.Add(at).Unix(), 0) }

// history is what happens in a cluster, no matter which contestant works there. Ties are kept out, so that who came
// first is never a matter of how goroutines run: no two things that a history decides happen at the same instant.
type history struct {
	Start time.Duration // when the contestant starts for the first time
	Steps []step        // in the order of their instants
	Nodes []nodeSpec    // that are there from the beginning
	Pods  []podSpec     // that are there from the beginning
}

// step is one thing that happens. No step but a restart concerns the contestant itself.
type step struct {
	At time.Duration
	Do action
}

type nodeSpec struct {
	Name    string
	Taints  []corev1.Taint
	Zone    string
	Created time.Duration
	// Phase is when the kubelet renews its lease, within renewEvery. It is zero in histories without kubelets.
	Phase    time.Duration
	Excluded bool // from disruption checks
	Mute     bool // its kubelet has not posted its status yet
	Absent   bool // nor ever renewed its lease: there is no kubelet
	Cordoned bool
}

// podSpec is a pod as it is created. Its UID names it in a history; several pods can have one name, one after the
// other.
type podSpec struct {
	UID, Name, Node string
	Tolerations     []corev1.Toleration
	Created         time.Duration  // recorded by the API to the second
	Scheduled       *time.Duration // recorded by the API to the second; nil without condition PodScheduled
	Grace           int64          // terminationGracePeriodSeconds
	Phase           corev1.PodPhase
	Mirror          bool
	Terminating     bool // created so: only for pods that are there from the beginning
	Held            bool // by a finalizer: once terminating it stays until it is removed by force
}

func (p podSpec) object() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: p.Name, UID: types.UID(p.UID), Generation: 1, CreationTimestamp: instant(p.Created),
		},
		Spec:   corev1.PodSpec{NodeName: p.Node, Tolerations: p.Tolerations, TerminationGracePeriodSeconds: &p.Grace},
		Status: corev1.PodStatus{Phase: p.Phase},
	}
	if p.Scheduled != nil {
		pod.Status.Conditions = []corev1.PodCondition{scheduled(*p.Scheduled)}
	}
	if p.Mirror {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of a static pod"}
	}
	if p.Held {
		pod.Finalizers = []string{"example.com/held"}
	}
	if p.Terminating {
		pod.DeletionTimestamp = new(instant(p.Created + 2*sec))
	}
	return pod
}

func scheduled(at time.Duration) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: instant(at)}
}

// A kubelet renews its lease, and posts its status though nothing has changed.
const (
	renewEvery = 10 * sec
	postEvery  = 60 * sec
	postAfter  = 5 * sec // not together with a renewal
)

// occasions returns all there is to happen, in its order: the steps, starts of the contestant, and what kubelets do.
func (h *history) occasions() []step {
	all := []step{{h.Start, start{}}}
	for _, s := range h.Steps {
		all = append(all, s)
		switch do := s.Do.(type) {
		case restart:
			all = append(all, step{h.startAgain(s.At + do.Down), start{}})
		case addNode:
			all = append(all, h.ofKubelet(do.Node, s.At)...)
		}
	}
	for _, spec := range h.Nodes {
		all = append(all, h.ofKubelet(spec, 0)...)
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return all
}

// startAgain is when a contestant that is started again at an instant really starts. Where upstream ticks, that is at a
// whole tenth of a second, when nothing else happens.
func (h *history) startAgain(at time.Duration) time.Duration {
	if h.hasKubelets() {
		return at.Truncate(tick) + tick
	}
	return at
}

// ofKubelet returns what a kubelet that comes at an instant does, until it goes.
func (h *history) ofKubelet(spec nodeSpec, from time.Duration) (all []step) {
	until := h.end()
	for _, s := range h.Steps {
		if s.Do == (removeNode{spec.Name}) && s.At > from {
			until = s.At
			break
		}
	}
	each := func(first, period time.Duration, do action) {
		for at := first; at < until; at += period {
			if at > from {
				all = append(all, step{at, do})
			}
		}
	}
	if spec.Phase > 0 {
		each(spec.Phase, renewEvery, renew{spec.Name})
		each(spec.Phase+postAfter, postEvery, post{spec.Name})
	}
	return all
}

// starts are the instants at which the contestant starts.
func (h *history) starts() (all []time.Duration) {
	for _, s := range h.occasions() {
		if s.Do == (start{}) {
			all = append(all, s.At)
		}
	}
	return all
}

// longestCountdown is the longest tolerationSeconds that a history waits for.
const longestCountdown = 31 * sec

// end is when the history is over: when every countdown that is meant to end has ended, even one that restarts at the
// last occasion; and where there are kubelets, when what falls silent then is tainted, and the next in its zone as well.
func (h *history) end() time.Duration {
	last := h.Start
	for _, s := range h.Steps {
		last = max(last, s.At)
		if restart, ok := s.Do.(restart); ok {
			last = max(last, s.At+restart.Down)
		}
	}
	if h.hasKubelets() {
		return last + 100*sec
	}
	return last + longestCountdown + 5*sec
}

func (h *history) hasKubelets() bool {
	return slices.ContainsFunc(h.Nodes, func(spec nodeSpec) bool { return spec.Phase > 0 })
}

// nodeSpecs returns all nodes of the history.
func (h *history) nodeSpecs() []nodeSpec {
	all := slices.Clone(h.Nodes)
	for _, s := range h.Steps {
		if add, ok := s.Do.(addNode); ok {
			all = append(all, add.Node)
		}
	}
	return all
}

// podSpecs returns all pods of the history.
func (h *history) podSpecs() []podSpec {
	all := slices.Clone(h.Pods)
	for _, s := range h.Steps {
		if create, ok := s.Do.(create); ok {
			all = append(all, create.Pod)
		}
	}
	return all
}

// dice are what a history is made from.
type dice struct{ *rand.Rand }

func (d dice) between(least, most int) int { return least + d.IntN(most-least+1) }

// chance is true in the given percentage of cases.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// generator makes a history.
type generator struct {
	dice

	history history
	at      time.Duration // of the next step
	started time.Duration // when the contestant starts for the last time
}

// happen makes the steps of a history, given how to move on to the instant of the next one, and what may happen then:
// nil when what was drawn is not possible.
func (g *generator) happen(most int, advance func(), next func() action) *history {
	for range g.between(3, most) {
		advance()
		if do := next(); do != nil {
			g.history.Steps = append(g.history.Steps, step{g.at, do})
		}
	}
	return &g.history
}

// restart restarts a contestant that runs.
func (g *generator) restart(down func() time.Duration) action {
	if g.at < g.started {
		return nil
	}
	do := restart{down()}
	g.started = g.at + do.Down
	return do
}
