// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

const (
	randomHistories  = 3
	actionsOfHistory = 300
	longestPause     = 12 // seconds, after an action
)

// TestRandomHistories plays random histories of a cluster with the whole Controller, and checks the invariants after each
// action and each second. A history is the same for the same seed; only in which order the Controller's goroutines run in
// an instant is not. To play others, raise randomHistories.
//
// Three are enough: with each of two faults put into the Controller (a zone whose rate changes begins a full limiter, a
// lease that is gone takes its last sign of life with it) at least one of them fails.
func TestRandomHistories(t *testing.T) { playHistories(t, func(*history) {}) }

// Echoes then come in bursts, and out of order.
func TestRandomHistoriesInWhichOurOwnRenewalsTakeTime(t *testing.T) {
	playHistories(t, func(h *history) {
		h.renewing = func(ctx context.Context) error { return bubble.Takes(ctx, h.takes(4*time.Second)) }
	})
}

func TestRandomHistoriesInWhichOurOwnRenewalsAreRefused(t *testing.T) {
	playHistories(t, func(h *history) {
		h.noticesWithin = time.Hour // no node is considered silent until everything heals
		h.renewing = func(context.Context) error {
			if h.healed.Load() {
				return nil
			}
			return apierrors.NewForbidden(coordinationv1.Resource("leases"), OwnLease, errors.New("no"))
		}
	})
}

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
			if err := bubble.Takes(ctx, h.takes(4*time.Second)/2); err != nil {
				return err
			}
			if h.takes(time.Second) > 850*time.Millisecond {
				return context.DeadlineExceeded
			}
			return nil
		}
	})
}

// playHistories plays a history for each seed, in a world that is made as harsh as wanted.
func playHistories(t *testing.T, harsh func(*history)) {
	t.Helper()
	for _, seed := range sample.Seeds(t, randomHistories, 2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				h := newHistory(w, seed)
				harsh(h)
				defer h.tell()
				h.play()
				h.heal()
			})
		})
	}
}

// takes draws how long a call takes.
func (h *history) takes(most time.Duration) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(h.seed, h.calls.Add(1))).Int64N(int64(most)))
}

// history is a random one: three zones of six nodes, and what can befall them.
type history struct {
	*world

	seed   uint64
	random *rand.Rand // of the next action
	nodes  []string
	watch  *bubble.Watches
	log    []string

	calls   atomic.Uint64
	healed  atomic.Bool
	refusal atomic.Pointer[refusedWrites]

	renewed  time.Time // when the kubelets last did
	troubled time.Time // when the last trouble ended, or the world began
	blind    time.Time // when the watch of leases last hung, or had not come back from that
	refused  time.Time // when a write could last be refused
	known    map[string]*witness

	noticesWithin time.Duration
	tokens        map[string][]time.Time // of zones: when a first NoExecute taint came
	lost          map[string][]time.Time // of zones: when a restart found no taint that reports the latest token
}

// witness is what a history knows about a node.
type witness struct {
	lastSign  time.Time     // that its kubelet really gave
	unnoticed time.Duration // of silence in which a Controller with a fair chance has not called it silent
	ready     time.Duration // for how long it has said so without anything that keeps its taints from being removed
	posted    bool          // it has a condition Ready
	silent    bool          // it is called so
	executed  bool          // it has a NoExecute taint for its readiness
}

// gives notes a sign of life.
func (w *witness) gives(sign time.Time) { w.lastSign, w.unnoticed = sign, 0 }

// refusedWrites are patches that the API server does not accept.
type refusedWrites struct {
	node string // empty: of all
	sub  string // subresource
	err  error
}

// foreign is a taint of another client, which each node has.
var foreign = corev1.Taint{Key: "foreign", Value: "x", Effect: corev1.TaintEffectNoExecute}

func newHistory(w *world, seed uint64) *history {
	h := &history{
		world: w, seed: seed, watch: w.API.Watches("leases"), renewed: time.Now(), troubled: time.Now(),
		noticesWithin: noticesWithin, known: map[string]*witness{}, tokens: map[string][]time.Time{}, lost: map[string][]time.Time{},
	}
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, refused := action.(clienttesting.PatchActionImpl), h.refusal.Load()
		if refused == nil || refused.sub != patch.GetSubresource() || refused.node != "" && refused.node != patch.Name {
			return false, nil, nil
		}
		return true, nil, refused.err
	})
	for _, zone := range []string{"a", "b", "c"} {
		for i := range 6 {
			name := fmt.Sprintf("%s-%d", zone, i)
			h.nodes = append(h.nodes, name)
			h.addNode(name, zone, withForeignTaint)
			h.known[name] = &witness{lastSign: time.Now(), posted: true}
		}
	}
	return h
}

func withForeignTaint(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{foreign} }

// play lets things happen, each with random numbers of its own, so that what one draws changes no other.
func (h *history) play() {
	h.run(h.connectsAnew)
	var deck []action
	for _, a := range actions {
		for range a.weight {
			deck = append(deck, a)
		}
	}
	for i := range actionsOfHistory {
		h.random = rand.New(rand.NewPCG(h.seed, uint64(i)))
		a, name := deck[h.random.IntN(len(deck))], h.nodes[h.random.IntN(len(h.nodes))]
		pause := 1 + h.random.IntN(longestPause)
		h.say("%s %s", a.name, name)
		a.happens(h, name)
		h.look()
		h.pass(time.Duration(pause) * time.Second)
		if h.T.Failed() {
			return
		}
	}
}

// heal ends all trouble. Then every node and taint must be as its kubelet says, and the Controller as able as
// ever.
func (h *history) heal() {
	if h.T.Failed() {
		return
	}
	h.say("everything heals")
	h.healed.Store(true)
	h.troubleEnds("")
	for _, name := range h.nodes {
		h.resume(name)
	}
	h.pass(6 * time.Minute)
	h.onlyTheForeignTaintIsLeft()

	h.say("two nodes fall")
	h.Report(h.nodes[0], corev1.NodeReady, corev1.ConditionFalse)
	h.silence(h.nodes[1])
	h.pass(min(h.noticesWithin, 5*time.Minute) + 30*time.Second)
	h.wantTainted(2, h.nodes[:2]...)
}

// pass lets virtual time pass, and looks at the cluster each second.
func (h *history) pass(d time.Duration) {
	for range d / time.Second {
		if h.T.Failed() {
			return
		}
		h.Pass(time.Second)
		if time.Since(h.renewed) >= bubble.RenewEvery {
			h.renewed = time.Now()
			for _, name := range h.nodes {
				if !h.Silent[name] {
					h.renews(name)
				}
			}
			h.Pass(0)
		}
		h.notices(time.Second)
		h.look()
	}
}

// connectsAnew ends a watch of leases that hangs when the Controller asks for that.
func (h *history) connectsAnew(c *Config) { c.Reconnect = h.reconnects }

// renews renews a kubelet's lease, or makes it again as kubelets do.
func (h *history) renews(name string) {
	h.T.Helper()
	if h.NoLeases.Load() {
		return
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	err := h.API.Update(bubble.Leases, lease, lease.Namespace)
	if apierrors.IsNotFound(err) {
		err = h.API.Create(bubble.Leases, lease, lease.Namespace)
	}
	h.Must(nil, err)
	h.known[name].gives(time.Now())
}

func (h *history) say(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%9s ", time.Since(h.Start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// tell says how a history that failed came to pass, and how to play it again.
func (h *history) tell() {
	if !h.T.Failed() {
		return
	}
	const last = 40
	h.T.Logf("the last actions of seed %d:", h.seed)
	for _, line := range h.log[max(0, len(h.log)-last):] {
		h.T.Log(line)
	}
	h.T.Logf("play it again: go test ./internal/controller/nodehealth -run '^%s$'", h.T.Name())
}
