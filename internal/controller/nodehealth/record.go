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

// record is everything that is known about one node. It has no lock of its own; records has one.
type record struct {
	member readiness.Member // how its zone counts it

	seen   bool // its object was seen; otherwise only its lease was
	uid    types.UID
	posted bool        // it had a Ready condition
	beat   metav1.Time // the heartbeat of that condition
	sign   sign        // its latest sign of life, from the object or the lease

	lease *renewal // nil if there is none

	awaits  bool         // it must be planned again at the next echo
	written *corev1.Node // as our last write left it, until the watch has brought that
	held    *wait        // nil if its zone does not hold it back
	would   []string     // the taints that a dry run reported it would get
	unheard string       // its version when a dry run reported it as silent
}

// renewal is the latest renewal of a lease, and when it was first seen.
type renewal struct {
	sign
	last time.Time // on the kubelet's clock
}

// wait is why a node is held back, and since when.
type wait struct {
	held  readiness.Held
	since time.Time
	told  bool
}

// sayAfter is how long a node must be held back for the same reason before an event says so. While a zone fails, its
// state changes quickly.
const sayAfter = time.Second

// isOf reports whether the record is of exactly this node. A node that was recreated under its name must not be judged
// by the signs of life of its predecessor.
func (k *record) isOf(node *corev1.Node) bool { return k.seen && k.uid == node.UID }

// renewed notes a renewal of its lease, and when it was news. Any different time is a sign of life, because the
// kubelet's clock may be set back.
func (k *record) renewed(last time.Time, now sign) {
	if k.lease != nil && last.Equal(k.lease.last) {
		return
	}
	k.lease = &renewal{now, last}
	k.sign = k.sign.latest(now)
}

// waits notes that its zone holds it back. It reports whether an event should say so now. If not, it returns how long
// to wait for that, or zero if an event has said it. Changed counts alone are not news.
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
