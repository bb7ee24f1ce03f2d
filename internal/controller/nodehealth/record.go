// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// record is all that is known of one node. It has no lock: records have.
type record struct {
	member readiness.Member // how its zone counts it

	seen   bool // its object was. Otherwise only its lease was
	uid    types.UID
	posted bool          // there was a Ready condition
	beat   metav1.Time   // the heartbeat of that
	sign   time.Duration // when on the clock its latest sign of life came: of the object, or a renewal of its lease

	lease *renewal // nil: there is none

	awaits  bool         // it must be planned again at the next echo
	written *corev1.Node // as a change of ours left it, until the watch has brought that
	held    *wait        // nil: no zone holds it back
	would   []string     // the taints that a dry run has said it would get
	unheard string       // its version when a dry run said that it is silent
}

// renewal is a lease as it was last renewed, and when on the clock that was news.
type renewal struct {
	at   time.Duration
	last time.Time // by the kubelet's clock
}

// wait is why a node is held back, and since when.
type wait struct {
	held  readiness.Held
	since time.Time
	told  bool
}

// sayAfter is how long a node must be held back for the same reason before an event says so. While a zone falls, its
// state changes within moments.
const sayAfter = time.Second

// isOf reports whether the record is of exactly this node. One that was recreated under its name must not be judged by
// the signs of the one before.
func (k *record) isOf(node *corev1.Node) bool { return k.seen && k.uid == node.UID }

// renewed notes a renewal of its lease, and when it was news. Any other time than before is a sign of life: the
// kubelet's clock may be set back.
func (k *record) renewed(last time.Time, at time.Duration) {
	if k.lease != nil && last.Equal(k.lease.last) {
		return
	}
	k.lease = &renewal{at: at, last: last}
	k.sign = max(k.sign, at)
}

// waits notes that its zone holds it back. It reports whether an event should say so now, and otherwise how long to
// wait before one may; zero if one has said it. The counts alone are no news.
func (k *record) waits(held readiness.Held, now time.Time) (tell bool, in time.Duration) {
	held.Size, held.NotReady = 0, 0
	if k.held == nil || k.held.held != held {
		k.held = &wait{held: held, since: now}
	}
	if in = k.held.since.Add(sayAfter).Sub(now); !k.held.told && in <= 0 {
		k.held.told, tell = true, true
	}
	return tell, max(in, 0)
}
