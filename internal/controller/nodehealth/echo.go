// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationconfig "k8s.io/client-go/applyconfigurations/coordination/v1"
	metaconfig "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

const (
	// OwnLease is the Lease in kube-node-lease that Taintkeeper renews next to the kubelets'. It stands for no node.
	OwnLease = "taintkeeper.dev"
	// DryRunLease is the one that a dry run renews instead, so that it does not disturb a process that acts.
	DryRunLease = "dry-run.taintkeeper.dev"
	// nonceAnnotation tells one of its renewals from another.
	nonceAnnotation = "taintkeeper.dev/renewal"

	renewEach     = time.Second      // how often it is renewed
	renewalLimit  = 10 * time.Second // how long a renewal may take
	renewalsAtOne = 10               // how many may be under way

	// A watch that brings nothing for as long after a renewal was accepted hangs. After each reconnection it has twice the
	// time.
	hangsAfter    = 10 * time.Second
	hangsAfterMax = 300 * time.Second
)

// echoes renews our own lease, and knows its renewals again when the watch of leases brings them. Safe for concurrent
// use.
type echoes struct {
	client    kubernetes.Interface
	clock     *timeline.Clock
	reconnect func() // closes the connection of the watch of leases
	lease     string // the name of our own

	mu       sync.Mutex
	owner    types.UID            // of the namespace; empty: not known yet
	sent     map[string]time.Time // by nonce: when the renewal was begun
	failing  bool                 // the last renewal failed
	accepted time.Time            // the first renewal since the watch brought anything; zero: none
	patience time.Duration
}

// ownLease returns the name of the lease that this process renews.
func ownLease(dryRun bool) string {
	if dryRun {
		return DryRunLease
	}
	return OwnLease
}

func newEchoes(client kubernetes.Interface, clock *timeline.Clock, reconnect func(), lease string) *echoes {
	return &echoes{
		client: client, clock: clock, reconnect: reconnect, lease: lease,
		sent: map[string]time.Time{}, patience: hangsAfter,
	}
}

// run renews the lease once a second until the context ends, also while earlier renewals are under way.
func (e *echoes) run(ctx context.Context) {
	ticker := time.NewTicker(renewEach)
	defer ticker.Stop()
	underWay := make(chan struct{}, renewalsAtOne)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case underWay <- struct{}{}:
			all.Go(func() {
				defer func() { <-underWay }()
				e.renew(ctx)
			})
		default:
		}
		if e.hangs(e.clock.Now()) {
			logf.FromContext(ctx).Info("The watch of leases hangs: it has brought nothing since a renewal of our own was accepted; connecting anew")
			e.reconnect()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew renews the lease. It is applied by force: all replicas renew the same, and the last one's word stands.
func (e *echoes) renew(running context.Context) {
	ctx, cancel := context.WithTimeout(running, renewalLimit)
	defer cancel()
	begun, nonce := e.clock.Now(), rand.Text()
	lease := coordinationconfig.Lease(e.lease, corev1.NamespaceNodeLease).
		WithAnnotations(map[string]string{nonceAnnotation: nonce}).
		WithSpec(coordinationconfig.LeaseSpec().WithHolderIdentity("taintkeeper").WithRenewTime(metav1.NewMicroTime(e.clock.Latest())))
	if owner := e.namespace(ctx); owner != "" { // some clusters delete leases that nobody owns
		lease.WithOwnerReferences(metaconfig.OwnerReference().
			WithAPIVersion("v1").WithKind("Namespace").WithName(corev1.NamespaceNodeLease).WithUID(owner))
	}
	e.begin(nonce, begun)
	_, err := e.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "taintkeeper", Force: true})
	if apicall.Stopping(running) {
		return
	}
	if e.ended(err, e.clock.Now()) {
		logf.FromContext(ctx).Info("Cannot renew our own lease in kube-node-lease; until that works, no node is called silent",
			"lease", e.lease, "reason", err.Error())
	}
}

// namespace returns the UID of the namespace of the leases, or nothing if it cannot be read now.
func (e *echoes) namespace(ctx context.Context) types.UID {
	e.mu.Lock()
	owner := e.owner
	e.mu.Unlock()
	if owner != "" {
		return owner
	}
	namespace, err := e.client.CoreV1().Namespaces().Get(ctx, corev1.NamespaceNodeLease, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner = namespace.UID
	return e.owner
}

func (e *echoes) begin(nonce string, begun time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for old, at := range e.sent {
		if begun.Sub(at) > time.Minute {
			delete(e.sent, old)
		}
	}
	e.sent[nonce] = begun
}

// ended notes how a renewal ended, and reports whether it is news that they fail.
func (e *echoes) ended(err error, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.failing
	e.failing = err != nil
	if err == nil && e.accepted.IsZero() {
		e.accepted = now
	}
	return e.failing && !was
}

// came notes that the watch of leases has brought something.
func (e *echoes) came() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accepted, e.patience = time.Time{}, hangsAfter
}

// hangs reports whether the watch of leases has brought nothing for too long. Then it has twice the time.
func (e *echoes) hangs(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.accepted.IsZero() || now.Sub(e.accepted) < e.patience {
		return false
	}
	e.accepted, e.patience = time.Time{}, min(2*e.patience, hangsAfterMax)
	return true
}

// begunAt returns when the renewal was begun that a lease shows, if it is one of this process. Other replicas renew the
// same lease.
func (e *echoes) begunAt(lease *coordinationv1.Lease) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begun, ours := e.sent[lease.Annotations[nonceAnnotation]]
	return begun, ours
}
