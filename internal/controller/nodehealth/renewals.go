// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A watch that brings nothing for as long after a renewal was accepted hangs. After each reconnection it has twice the
// time.
const (
	hangsAfter    = 10 * time.Second
	hangsAfterMax = 300 * time.Second
)

// renewals are the renewals of our own lease, which the watch of leases brings back.
type renewals struct {
	sent     map[string]time.Time // by nonce: when the renewal was begun
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

// ended notes how a renewal ended, and reports whether it is news that they fail.
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

// hangs reports whether the watch of leases has brought nothing for too long. Then it has twice the time.
func (r *renewals) hangs(now time.Time) bool {
	if r.accepted.IsZero() || now.Sub(r.accepted) < r.patience {
		return false
	}
	r.accepted, r.patience = time.Time{}, min(2*r.patience, hangsAfterMax)
	return true
}

// begunAt returns when the renewal was begun that a lease shows, if it is one of this process. Other replicas renew the
// same lease.
func (r *renewals) begunAt(lease *coordinationv1.Lease) (time.Time, bool) {
	begun, ours := r.sent[lease.Annotations[nonceAnnotation]]
	return begun, ours
}
