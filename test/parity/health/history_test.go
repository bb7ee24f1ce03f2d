// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// How both contestants are set up. The rates and the threshold are such that they make a difference even in small
// zones; the rest are kube-controller-manager's defaults.
var (
	grace  = readiness.Grace{Monitor: readiness.DefaultMonitorGrace, Startup: readiness.DefaultStartupGrace}
	policy = readiness.Policy{
		Rate: readiness.DefaultRate, SecondaryRate: 0.05, FullDisruptionRate: readiness.DefaultRate,
		LargeZone: 4, UnhealthyShare: readiness.DefaultUnhealthyShare,
	}
)

// period is how often upstream looks at all nodes (--node-monitor-period), and tick how often at the
// nodes that wait for a NoExecute taint.
const (
	period = 5 * sec
	tick   = 100 * ms
)

// A kubelet renews its lease, and posts its status though nothing has changed.
const (
	renewEvery = 10 * sec
	postEvery  = 60 * sec
	postAfter  = 5 * sec // not together with a renewal
)

// instant is the instant of a history as the API writes it: to the second, rounded down.
func instant(at time.Duration) metav1.Time { return metav1.Unix(arena.Epoch.Add(at).Unix(), 0) }

// history is what happens in a cluster, no matter which contestant monitors its nodes.
//
// Ties are kept out, so that who came first is never a matter of how goroutines run: the contestant starts, and
// upstream ticks, at whole tenths of a second; upstream's passes begin 20 to 80 ms after one; and kubelets and steps
// act 90 to 99 ms after one, no two of them at the same instant.
type history struct {
	Nodes []nodeSpec    // that are there from the beginning
	Start time.Duration // when the contestant starts for the first time
	Steps []step        // in the order of their instants, which all differ
}

// step is one thing that happens. No step but a restart concerns the contestant itself.
type step struct {
	At time.Duration
	Do action
}

type nodeSpec struct {
	Name, Zone string
	Created    time.Duration
	Phase      time.Duration // of the kubelet's renewals, within renewEvery
	Excluded   bool          // from disruption checks
	Mute       bool          // its kubelet has not posted its status yet
	Absent     bool          // nor ever renewed its lease: there is no kubelet
	Cordoned   bool
}

// action is what a step does.
type action interface{ String() string }

type (
	// fall makes kubelets silent from now on.
	fall struct{ Nodes []string }
	// resume makes a kubelet renew its lease and post its status, now and from now on.
	resume struct{ Node string }
	// ready makes a kubelet that is not silent post another readiness.
	ready struct {
		Node   string
		Status corev1.ConditionStatus
	}
	// pressure makes a kubelet that is not silent post another status of a condition.
	pressure struct {
		Node   string
		Type   corev1.NodeConditionType
		Status corev1.ConditionStatus
	}
	// network is NetworkUnavailable, which the network's controller posts, not the kubelet.
	network struct {
		Node   string
		Status corev1.ConditionStatus
	}
	cordon struct {
		Node     string
		Cordoned bool
	}
	// taint is set by another client.
	taint struct {
		Node, Key string
		Effect    corev1.TaintEffect
	}
	// untaint is another client's removal of a taint.
	untaint struct {
		Node, Key string
		Effect    corev1.TaintEffect
	}
	// touch is another client's write to a node's Lease, which does not renew it.
	touch      struct{ Node string }
	addNode    struct{ Node nodeSpec }
	removeNode struct{ Node string } // and its lease
	// restart kills the contestant and starts it again after a while.
	restart struct{ Down time.Duration }
)

// occasion is an instant at which something that the history decides happens: exactly one of the others is set.
type occasion struct {
	at     time.Duration
	step   *step
	renews string // a node whose kubelet renews its lease, if it is not silent
	posts  string // a node whose kubelet posts its status again, if it is not silent
	starts bool   // the contestant starts
}

// occasions returns all there is to happen, in its order.
func (h *history) occasions() []occasion {
	all := []occasion{{at: h.Start, starts: true}}
	for i := range h.Steps {
		s := &h.Steps[i]
		all = append(all, occasion{at: s.At, step: s})
		if restart, ok := s.Do.(restart); ok {
			all = append(all, occasion{at: (s.At + restart.Down).Truncate(tick) + tick, starts: true})
		}
	}
	for _, spec := range h.Nodes {
		all = append(all, h.ofKubelet(spec, 0)...)
	}
	for _, s := range h.Steps {
		if add, ok := s.Do.(addNode); ok {
			all = append(all, h.ofKubelet(add.Node, s.At)...)
		}
	}
	slices.SortStableFunc(all, func(a, b occasion) int { return cmp.Compare(a.at, b.at) })
	return all
}

// ofKubelet returns when a kubelet that comes at an instant acts, until it goes.
func (h *history) ofKubelet(spec nodeSpec, from time.Duration) []occasion {
	until := h.end()
	for _, s := range h.Steps {
		if remove, ok := s.Do.(removeNode); ok && remove.Node == spec.Name && s.At > from {
			until = s.At
			break
		}
	}
	var all []occasion
	for at := spec.Phase; at < until; at += renewEvery {
		if at > from {
			all = append(all, occasion{at: at, renews: spec.Name})
		}
	}
	for at := spec.Phase + postAfter; at < until; at += postEvery {
		if at > from {
			all = append(all, occasion{at: at, posts: spec.Name})
		}
	}
	return all
}

// end is when the history is over: long enough after the last step that what falls silent then is
// tainted, and the next in its zone as well.
func (h *history) end() time.Duration {
	last := h.Start
	if len(h.Steps) > 0 {
		last = max(last, h.Steps[len(h.Steps)-1].At)
	}
	return (last + 100*sec).Truncate(sec) + 50*ms
}

// specs returns all nodes of the history.
func (h *history) specs() []nodeSpec {
	all := slices.Clone(h.Nodes)
	for _, s := range h.Steps {
		if add, ok := s.Do.(addNode); ok {
			all = append(all, add.Node)
		}
	}
	return all
}
