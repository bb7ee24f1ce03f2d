// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

const (
	randomHistories  = 5
	actionsOfHistory = 300
	longestPause     = 12 // seconds, after an action
	mostDeadlocked   = 2  // nodes that the rule of a history may taint
	mostClear        = 10 // seconds, of clearAfter
)

// foreign is a taint of another client, which each node has.
var foreign = corev1.Taint{Key: "foreign", Value: "x", Effect: corev1.TaintEffectNoExecute}

// history is a random one: eight nodes, a rule, and what can befall them. It is the same for the same seed; only in
// which order goroutines run in an instant is not.
type history struct {
	*world

	seed   uint64
	random *rand.Rand // of the next action
	nodes  []string
	log    []string
	calls  atomic.Uint64
	most   func() int32 // nodes that had the rule's taint at once
	refuse atomic.Pointer[refusedWrites]
}

// refusedWrites are patches of nodes that the API server does not accept.
type refusedWrites struct {
	node string // empty: of all
	err  error
}

// happening is something that happens, more or less often. The node that it gets is a random one.
type happening struct {
	name    string
	weight  int
	happens func(h *history, node string)
}

var happenings = []happening{
	{"is deadlocked:", 8, func(h *history, node string) { h.locks(node) }},
	{"is deadlocked no longer:", 6, func(h *history, node string) { h.unlocks(node) }},
	{"loses the rule's taint:", 2, (*history).losesTheTaint},
	{"loses the rule's label:", 1, (*history).losesTheLabel},
	{"is recreated:", 1, (*history).isRecreated},
	{"the rule comes or goes, near", 2, (*history).ruleComesOrGoes},
	{"a rule with the same taint comes or goes, near", 2, (*history).twinComesOrGoes},
	{"the rule changes, near", 2, (*history).ruleChanges},
	{"the Controller restarts, near", 2, func(h *history, _ string) { h.Stop(); h.run() }},
	{"writes are refused, perhaps of", 3, (*history).writesAreRefused},
	{"all trouble ends, near", 4, func(h *history, _ string) { h.refuse.Store(nil) }},
}

func (h *history) losesTheTaint(name string) {
	h.ChangeNode(name, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" })
	})
}

// losesTheLabel waits until this process has seen the label: otherwise nothing says whose the taint is.
func (h *history) losesTheLabel(name string) {
	if h.wrote != nil { // the watch may be late
		return
	}
	h.waitForPlans()
	if !h.isGone("deadlock") && h.rule("deadlock").DeletionTimestamp.IsZero() && !h.rule("deadlock").Spec.DryRun && has(h.Node(name), corev1.ConditionTrue) {
		h.ChangeNode(name, func(n *corev1.Node) { delete(n.Labels, v1alpha1.TaintedLabelPrefix+"deadlock") })
		h.waitForPlans()
	}
}

func (h *history) isRecreated(name string) {
	h.Must(nil, h.Client.CoreV1().Nodes().Delete(h.T.Context(), name, metav1.DeleteOptions{}))
	h.AddNode(name, "a", withForeignTaint, func(n *corev1.Node) {
		n.UID = types.UID(fmt.Sprint(name, time.Now().UnixNano()))
	})
}

func (h *history) ruleComesOrGoes(string) { h.comesOrGoes("deadlock") }

func (h *history) twinComesOrGoes(string) { h.comesOrGoes("twin") }

func (h *history) comesOrGoes(name string) {
	if !h.isGone(name) {
		h.deleteRule(name) // again, if it is already being deleted
		return
	}
	seconds := func() time.Duration { return time.Duration(h.random.IntN(mostClear)) * time.Second }
	h.addRule(name, atMost(intstr.FromInt32(mostDeadlocked)), comesAfter(seconds()), goesAfter(seconds()))
}

// ruleChanges makes the rule report only, or do its work again.
func (h *history) ruleChanges(string) {
	if !h.isGone("deadlock") && h.rule("deadlock").DeletionTimestamp.IsZero() {
		h.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = !r.Spec.DryRun })
	}
}

func (h *history) writesAreRefused(name string) {
	h.refuse.Store(&refusedWrites{
		node: []string{name, name, ""}[h.random.IntN(3)],
		err:  []error{errForbidden, errNotNow, context.DeadlineExceeded}[h.random.IntN(3)],
	})
}

func withForeignTaint(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{foreign} }

func has(node *corev1.Node, status corev1.ConditionStatus) bool {
	c := condition(node, deadlock)
	return c != nil && c.Status == status
}

// Of five seeds at least one fails with each of these faults: one node more than maxTainted, and a label whose loss
// makes the taint another client's. What happens to calls that are not answered, and to a watch that is late, has tests
// of its own.
func TestRandomHistories(t *testing.T) { playHistories(t, func(*history) {}) }

// A write is done though its answer says that it failed, and the watch of nodes does not say so at once.
func TestRandomHistoriesInWhichAnswersAreLateOrLost(t *testing.T) {
	playHistories(t, func(h *history) {
		late := h.API.Watches("nodes")
		var held atomic.Bool
		h.wrote = func(ctx context.Context) error {
			if h.takes(time.Second) > 800*time.Millisecond && !held.Swap(true) {
				late.Hold()
				time.AfterFunc(3*time.Second, func() {
					late.Release()
					held.Store(false)
				})
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(h.takes(2 * time.Second)):
			}
			if h.takes(time.Second) > 700*time.Millisecond {
				return context.DeadlineExceeded
			}
			return nil
		}
	})
}

// takes draws how long a call takes.
func (h *history) takes(most time.Duration) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(h.seed, h.calls.Add(1))).Int64N(int64(most)))
}

func playHistories(t *testing.T, harsh func(*history)) {
	t.Helper()
	for _, seed := range sample.Seeds(t, randomHistories, 3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				h := &history{world: w, seed: seed}
				w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
					refused := h.refuse.Load()
					if refused == nil || refused.node != "" && refused.node != action.(clienttesting.PatchActionImpl).Name {
						return false, nil, nil
					}
					return true, nil, refused.err
				})
				for i := range 8 {
					h.nodes = append(h.nodes, fmt.Sprint("a-", i))
					h.AddNode(h.nodes[i], "a", withForeignTaint)
				}
				harsh(h)
				defer h.tell()
				h.play()
				h.heal()
			})
		})
	}
}

// play lets things happen, each with random numbers of its own, so that what one draws changes no other.
func (h *history) play() {
	h.most = h.mostDeadlocked()
	h.run()
	var deck []happening
	for _, one := range happenings {
		for range one.weight {
			deck = append(deck, one)
		}
	}
	for i := range actionsOfHistory {
		h.random = rand.New(rand.NewPCG(h.seed, uint64(i)))
		one, name := deck[h.random.IntN(len(deck))], h.nodes[h.random.IntN(len(h.nodes))]
		pause := 1 + h.random.IntN(longestPause)
		h.log = append(h.log, fmt.Sprintf("%9s %s %s", time.Since(h.Start).Round(time.Millisecond), one.name, name))
		one.happens(h, name)
		h.pass(time.Duration(pause) * time.Second)
		if h.T.Failed() {
			return
		}
	}
}

// pass lets virtual time pass, and looks at the cluster each second.
func (h *history) pass(d time.Duration) {
	for range d / time.Second {
		h.Pass(time.Second)
		if got := h.most(); got > mostDeadlocked {
			h.T.Errorf("after %s %d nodes have had the rule's taint at once, want %d at most", h.Now(), got, mostDeadlocked)
			return
		}
		for _, name := range h.nodes {
			if taints := h.Node(name).Spec.Taints; !slices.Contains(taints, foreign) {
				h.T.Errorf("after %s node %s has lost a foreign taint: %v", time.Since(h.Start), name, taints)
			}
		}
	}
}

// heal ends all trouble. Then every taint must be as the rule says, and go with it.
func (h *history) heal() {
	if h.T.Failed() {
		return
	}
	h.refuse.Store(nil)
	if !h.isGone("twin") {
		h.deleteRule("twin")
	}
	h.pass(2 * time.Minute) // a rule that was being deleted is gone by now
	if !h.isGone("twin") {
		h.T.Error("the rule with the same taint is still there")
	}
	if h.isGone("deadlock") {
		h.addRule("deadlock", atMost(intstr.FromInt32(mostDeadlocked)))
	}
	h.changeRule(func(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = false })
	h.pass(5 * time.Minute)
	locked := 0
	for _, name := range h.nodes {
		node := h.Node(name)
		switch {
		case has(node, corev1.ConditionTrue):
			locked++
		case len(node.Spec.Taints) > 1:
			h.T.Errorf("healed node %s has %v", name, node.Spec.Taints)
		}
	}
	if got := h.deadlocked(); len(got) != min(mostDeadlocked, locked) {
		h.T.Errorf("the nodes %q have the rule's taint, want %d of %d", got, mostDeadlocked, locked)
	}
	h.deleteRule("deadlock")
	h.pass(2 * time.Minute)
	h.wantDeadlocked()
	if !h.isGone("deadlock") {
		h.T.Error("the rule is still there")
	}
	for _, name := range h.nodes {
		if label, ok := h.Node(name).Labels[v1alpha1.TaintedLabelPrefix+"deadlock"]; ok {
			h.T.Errorf("node %s still has the rule's label: %s", name, label)
		}
	}
}

// tell says how a history that failed came to pass.
func (h *history) tell() {
	if !h.T.Failed() {
		return
	}
	const last = 40
	h.T.Logf("the last happenings of seed %d:", h.seed)
	for _, line := range h.log[max(0, len(h.log)-last):] {
		h.T.Log(line)
	}
}
