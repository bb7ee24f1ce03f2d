// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/builtin"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// handBackTimeout bounds a hand-back, so that a shutdown always ends.
const handBackTimeout = 10 * time.Second

// seenAfter is how long API servers need to see, on their watches, that the clock is gone. A server that has not seen
// it still refuses the built-in, which gives up on a pod after five tries within about 50 ms.
const seenAfter = time.Second

// worthWaiting is how long a hand-back waits for the built-in to finish its remaining tries.
const worthWaiting = 3 * time.Second

// HandBack gives the evictions back to the built-in at once if this process led and no other takes over. It removes the
// clock. What is left of the built-in's backlog stays refused: see [builtin.Hold].
//
// Then it changes timeAdded on nodes with due pods. The built-in has forgotten these pods, and decides about a node
// again when a taint changes; their tolerationSeconds count again from then on. As long as the built-in still tries
// pods, it has not forgotten them, and nodes are left alone: a second try of a pod would delete whatever pod has taken
// its name, because of the mark of the first try.
//
// This process has seen nothing since it began to stop, but the built-in has continued. HandBack therefore reads nodes
// with due pods again, and records what it finds, for a successor too.
func (r *ClockRenewer) HandBack(ctx context.Context) error {
	r.mu.Lock()
	led, term := r.leads, r.term
	r.mu.Unlock()
	if !led {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.TakeOver+handBackTimeout)
	defer cancel()
	unrecorded := r.config.Account.record(ctx) // before the wait, in which this process may be killed
	succeeded := r.config.Lease != "" && r.succeeded(ctx, term)
	working := r.config.Account.Working()
	if working <= worthWaiting {
		pause(ctx, working)
	}
	nodes := r.leave(ctx)
	if succeeded {
		return errors.Join(unrecorded, r.config.Account.record(ctx))
	}
	defer r.logBacklog() // even without the permissions to hand back, because the backlog exists anyway
	if err := r.config.Account.HandBack(ctx); err != nil {
		return fmt.Errorf("hand the evictions back to kube-controller-manager: %w", err)
	}
	r.config.Logger.Info("Handed the evictions back to kube-controller-manager", "nodesWithDuePods", len(nodes))
	if working > worthWaiting {
		return r.config.Account.record(ctx)
	}
	pause(ctx, seenAfter)
	return errors.Join(r.touchAll(ctx, nodes), r.config.Account.record(ctx))
}

// leave records what is left on nodes with due pods, and returns the names of the nodes whose pods all leave.
func (r *ClockRenewer) leave(ctx context.Context) (nodes []string) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for name, overdue := range r.config.Evictor.Overdue() {
		group.Go(func() error {
			node, err := r.config.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			spared := apierrors.IsNotFound(err) || err == nil && r.config.Evictor.Spares(node)
			r.config.Account.Left(name, overdue.Pods, overdue.Since, spared)
			if !spared { // one that cannot be read is touched, which returns the error
				mu.Lock()
				defer mu.Unlock()
				nodes = append(nodes, name)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	return nodes
}

// logBacklog logs what is left of the built-in's evictions.
func (r *ClockRenewer) logBacklog() {
	backlog := r.config.Account.Backlog()
	if backlog.Until.IsZero() {
		r.config.Logger.Info("kube-controller-manager has no backlog of evictions")
		return
	}
	spared := strings.Join(backlog.Spared, " ")
	if backlog.AllSpared {
		spared = builtin.AllNodes
	}
	r.config.Logger.Info("kube-controller-manager still has a backlog of evictions; the admission policy keeps it from deleting pods that should stay",
		"until", backlog.Until.UTC().Format(time.RFC3339), "evictionsAtMost", backlog.Evictions, "sparedNodes", spared)
}

// nodesAtOnce is how many nodes are read or written at the same time. A zone can have hundreds.
const nodesAtOnce = 16

// touchAll touches many nodes within the time that is left. It returns the first error.
func (r *ClockRenewer) touchAll(ctx context.Context, nodes []string) error {
	var failed atomic.Int32
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for _, name := range nodes {
		group.Go(func() error {
			err := r.touch(ctx, name)
			if err != nil {
				failed.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("hand the evictions back to kube-controller-manager: could not update %d of %s with due pods; the first error: %w",
			failed.Load(), sentence.Counted(len(nodes), "node"), err)
	}
	return nil
}

// pause returns after a while, or when the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// noteTerm remembers the leaseTransitions of the Lease under which this process leads.
func (r *ClockRenewer) noteTerm(ctx context.Context) {
	r.mu.Lock()
	known := r.term >= 0
	r.mu.Unlock()
	if known || r.config.Lease == "" {
		return
	}
	if term, err := r.transitions(ctx); err == nil {
		r.mu.Lock()
		r.term = term
		r.mu.Unlock()
	}
}

// succeeded waits for as long as a standby may take to see that the Lease is free, and reports whether another took it.
func (r *ClockRenewer) succeeded(ctx context.Context, term int32) bool {
	const every = 500 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, every, r.config.TakeOver, true, func(ctx context.Context) (bool, error) {
		now, err := r.transitions(ctx)
		return err == nil && now > term, nil
	})
	return err == nil
}

// transitions returns how often the Lease has changed hands.
func (r *ClockRenewer) transitions(ctx context.Context) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	lease, err := r.config.Client.CoordinationV1().Leases(r.config.Namespace).Get(ctx, r.config.Lease, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return ptr.Deref(lease.Spec.LeaseTransitions, 0), nil
}

// touch sets the timeAdded of a node's NoExecute taints to now, unless the node has become spared.
func (r *ClockRenewer) touch(ctx context.Context, name string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := r.config.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if r.config.Evictor.Spares(node) {
			r.config.Account.Left(name, 0, time.Time{}, true)
			return nil
		}
		edit := apicall.NodeEdit{Taints: touched(node.Spec.Taints, r.config.Clock.Latest())}
		_, err = apicall.PatchTaints(ctx, r.config.Client, node, edit, metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("touch the taints of node %s, so that kube-controller-manager tries its pods again: %w", name, err)
	}
	return nil
}

// touched returns the taints, with another timeAdded if the effect is NoExecute. The API keeps whole seconds: a taint
// that was added within this second is dated a second later. Otherwise nothing would change, and the built-in would not
// look again.
func touched(taints []corev1.Taint, at time.Time) []corev1.Taint {
	taints = slices.Clone(taints)
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectNoExecute {
			taints[i].TimeAdded = otherThan(taints[i].TimeAdded, at)
		}
	}
	return taints
}

// otherThan returns an instant, truncated to the second, or one second more if the given time already equals that.
func otherThan(is *metav1.Time, at time.Time) *metav1.Time {
	at = at.Truncate(time.Second)
	if is != nil && is.Truncate(time.Second).Equal(at) {
		at = at.Add(time.Second)
	}
	return &metav1.Time{Time: at}
}
