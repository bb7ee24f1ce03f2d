// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationconfig "k8s.io/client-go/applyconfigurations/coordination/v1"
	metaconfig "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

const (
	// OwnLease is the Lease in kube-node-lease that Taintkeeper renews next to the kubelets'. It belongs to no node.
	OwnLease = v1alpha1.NodeHealthLease
	// DryRunLease is the Lease that a dry run renews instead, so that it does not disturb a process that acts.
	DryRunLease = v1alpha1.NodeHealthDryRunLease
	// nonceAnnotation identifies a renewal.
	nonceAnnotation = "taintkeeper.dev/renewal"

	renewEach     = time.Second      // how often the lease is renewed
	renewalLimit  = 10 * time.Second // how long a renewal may take
	renewalsAtOne = 10               // how many renewals may be under way
)

// echoes renews our own lease. Records recognize its renewals when the watch of leases brings them.
type echoes struct {
	client    kubernetes.Interface
	clock     *timeline.Clock
	records   *records
	reconnect func()                    // closes the connection of the watch of leases
	lease     string                    // the name of our lease
	owner     atomic.Pointer[types.UID] // the UID of the namespace, or nil if not known yet
}

// ownLease returns the name of the lease that this process renews.
func ownLease(dryRun bool) string {
	if dryRun {
		return DryRunLease
	}
	return OwnLease
}

// run renews the lease once a second until the context ends, even while earlier renewals are under way.
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
		if e.hangs() {
			logf.FromContext(ctx).Info("The watch of leases hangs: it has delivered nothing since the API server accepted our own renewal; connecting again")
			e.reconnect()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew renews the lease. It applies by force, because all replicas renew the same lease and the last write wins.
func (e *echoes) renew(running context.Context) {
	ctx, cancel := context.WithTimeout(running, renewalLimit)
	defer cancel()
	begun, nonce := e.clock.Now(), rand.Text()
	lease := coordinationconfig.Lease(e.lease, corev1.NamespaceNodeLease).
		WithAnnotations(map[string]string{nonceAnnotation: nonce}).
		WithSpec(coordinationconfig.LeaseSpec().WithHolderIdentity("taintkeeper").WithRenewTime(metav1.NewMicroTime(e.clock.Latest())))
	if owner := e.namespace(ctx); owner != "" { // some clusters delete leases without an owner
		lease.WithOwnerReferences(metaconfig.OwnerReference().
			WithAPIVersion("v1").WithKind("Namespace").WithName(corev1.NamespaceNodeLease).WithUID(owner))
	}
	e.records.do(func() { e.records.renewals.begin(nonce, begun) })
	_, err := e.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "taintkeeper", Force: true})
	if apicall.Stopping(running) {
		return
	}
	if e.nowFails(err) {
		logf.FromContext(ctx).Info("Cannot renew our own lease in kube-node-lease; until that works, no node is considered silent",
			"lease", e.lease, "reason", err.Error())
	}
}

// nowFails notes how a renewal ended, and reports whether renewals have just begun to fail.
func (e *echoes) nowFails(err error) (news bool) {
	e.records.do(func() { news = e.records.renewals.ended(err, e.clock.Now()) })
	return news
}

// hangs reports whether the watch of leases has brought nothing for too long.
func (e *echoes) hangs() (hangs bool) {
	e.records.do(func() { hangs = e.records.renewals.hangs(e.clock.Now()) })
	return hangs
}

// namespace returns the UID of the namespace of the leases, or nothing if it cannot be read now.
func (e *echoes) namespace(ctx context.Context) types.UID {
	if owner := e.owner.Load(); owner != nil {
		return *owner
	}
	namespace, err := e.client.CoreV1().Namespaces().Get(ctx, corev1.NamespaceNodeLease, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	e.owner.Store(&namespace.UID)
	return namespace.UID
}
