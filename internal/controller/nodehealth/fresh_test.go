// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The right to renew our lease is taken away while a silent node is next in line. Another node's kubelet says that it
// is not ready.
func TestANotReadyNodeIsTaintedAlthoughRenewalsAreRefused(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var refused atomic.Bool
		w.renewing = func(context.Context) error {
			if refused.Load() {
				return apierrors.NewForbidden(coordinationv1.Resource("leases"), OwnLease, errors.New("no"))
			}
			return nil
		}
		nodes := w.addZone("a", 20)
		w.run()
		w.Until(20 * time.Second)
		w.falls(nodes[0], nodes[1])
		for len(w.tainted(nodes[:2]...)) == 0 && time.Since(w.Start) < 3*time.Minute {
			w.Until(time.Since(w.Start) + time.Second)
		}
		refused.Store(true)
		w.Until(time.Since(w.Start) + 3*time.Second)
		w.Report(nodes[2], corev1.NodeReady, corev1.ConditionFalse)
		w.Until(30 * time.Minute)
		if len(w.tainted(nodes[2])) == 0 {
			t.Error("the node that says that it is not ready is not tainted within 30 minutes")
		}
	})
}

// Renewals take 6 s, so no echo is ever fresh. Five nodes said that they are not ready before they fell silent.
func TestAStandbyThatBecomesTheLeaderWithoutAFreshEchoKeepsToTheRate(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.renewalsTake(6 * time.Second)
		nodes := w.addZone("a", 20)
		leads := w.standsBy()
		w.Until(15 * time.Second)
		for _, name := range nodes[:5] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.falls(nodes[:5]...)
		w.Until(105 * time.Second)
		leads()
		w.Pass(3 * time.Second)
		if got := w.tainted(nodes...); len(got) > 1 {
			t.Errorf("within 3 s %q were tainted, want one in 10 s", got)
		}
	})
}
