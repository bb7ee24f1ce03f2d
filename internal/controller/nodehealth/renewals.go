// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A watch hangs if it brings nothing for this long after a renewal was accepted. Each reconnection doubles the time.
const (
	hangsAfter    = 10 * time.Second
	hangsAfterMax = 300 * time.Second
)

// renewals are the renewals of our own lease, which the watch of leases brings back.
type renewals struct {
	sent     map[string]time.Time // when each renewal began, by nonce
	failing  bool                 // the last renewal failed
	accepted time.Time            // the first renewal since the watch brought anything, or zero
	patience time.Duration
}

func newRenewals() renewals {
	return renewals{sent: map[string]time.Time{}, patience: hangsAfter}
}

func (r *renewals) begin(nonce string, begun time.Time) {
	for old, at := range r.sent {
		if begun.Sub(at) > time.Minute {
			delete(r.sent, old)
		}
	}
	r.sent[nonce] = begun
}

// ended notes how a renewal ended, and reports whether renewals have just begun to fail.
func (r *renewals) ended(err error, now time.Time) bool {
	was := r.failing
	r.failing = err != nil
	if err == nil && r.accepted.IsZero() {
		r.accepted = now
	}
	return r.failing && !was
}

// came notes that the watch of leases has brought something.
func (r *renewals) came() { r.accepted, r.patience = time.Time{}, hangsAfter }

// hangs reports whether the watch of leases has brought nothing for too long. If so, it doubles the time.
func (r *renewals) hangs(now time.Time) bool {
	if r.accepted.IsZero() || now.Sub(r.accepted) < r.patience {
		return false
	}
	r.accepted, r.patience = time.Time{}, min(2*r.patience, hangsAfterMax)
	return true
}

// begunAt returns when the renewal that a lease shows began, if this process made it. Other replicas renew the same
// lease.
func (r *renewals) begunAt(lease *coordinationv1.Lease) (time.Time, bool) {
	begun, ours := r.sent[lease.Annotations[nonceAnnotation]]
	return begun, ours
}
