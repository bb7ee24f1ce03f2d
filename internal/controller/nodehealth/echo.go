// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	"github.com/taintkeeper/taintkeeper/internal/readiness"
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

// renewEachSecond renews the lease once a second until the context ends, even while earlier renewals are under way.
func (e *echoes) renewEachSecond(ctx context.Context) {
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

// clock measures how long nodes have been silent. It runs only while this process receives its own renewals. The echo
// of a renewal that began at b shows that everything that kubelets stored before b has arrived, too. Of a time in which
// no renewal could arrive, or in which this process was paused, at most five seconds count as silence of any node. See
// "Node health on one page" in docs/design.md.
type clock struct {
	now        time.Duration
	began      time.Time     // this process
	echoed     time.Time     // when the renewal of the latest echo began, or zero before the first
	extraUntil time.Duration // until then, nodes get [readiness.ExtraGrace] on top of their grace
}

// echo notes that a renewal that began at an instant has come back. It reports whether that is news.
func (c *clock) echo(begun time.Time) bool {
	if !begun.After(c.echoed) {
		return false
	}
	if !c.echoed.IsZero() {
		gap := begun.Sub(c.echoed)
		c.now += min(gap, readiness.CountedMost)
		if gap > readiness.CountedMost {
			c.giveExtraGrace()
		}
	}
	c.echoed = begun
	return true
}

// giveExtraGrace gives nodes that seem silent from now on some extra time to be heard.
func (c *clock) giveExtraGrace() { c.extraUntil = c.now + readiness.ExtraGrace }

// freshAt reports whether the latest echo is recent enough at an instant to act on a verdict.
func (c *clock) freshAt(at time.Time) bool {
	return !c.echoed.IsZero() && at.Sub(c.echoed) < readiness.CountedMost
}

// sinceEcho returns how long ago the renewal of the latest echo began, or this process if there was none.
func (c *clock) sinceEcho(at time.Time) time.Duration {
	if c.echoed.IsZero() {
		return at.Sub(c.began)
	}
	return at.Sub(c.echoed)
}

// sign is a sign of life of a node: when it came, on the clock and by this process.
type sign struct {
	on time.Duration
	at time.Time
}

// sign returns a sign of life that arrived at an instant, which is after the latest echo.
func (c *clock) sign(at time.Time) sign {
	if c.echoed.IsZero() {
		return sign{c.now, at}
	}
	return sign{c.now + min(at.Sub(c.echoed), readiness.CountedMost), at}
}

// silence returns how long ago a sign of life came. What arrives by another watch than the echoes do can be newer than
// the clock: when late echoes then come all at once, the clock jumps, but no more time has passed than this process
// knows of. Before the first echo, nothing is known about silence.
func (c *clock) silence(s sign) time.Duration {
	if c.echoed.IsZero() {
		return 0
	}
	return min(c.now-s.on, c.echoed.Sub(s.at))
}

// earlier returns the sign of life as if it had come earlier.
func (s sign) earlier(by time.Duration) sign { return sign{s.on - by, s.at.Add(-by)} }

// latest returns the later of two signs of life.
func (s sign) latest(other sign) sign {
	if other.at.After(s.at) {
		s.at = other.at
	}
	return sign{max(s.on, other.on), s.at}
}

// blindAfter is how long after the last echo this process reports that it is blind and not ready. It calls no node
// silent until the next echo.
const blindAfter = time.Minute

// checkBlindnessEvery is how often that is checked.
const checkBlindnessEvery = 10 * time.Second

// Ready returns why no node can be considered silent at present. It returns nil if nodes can be, or could be until less
// than blindAfter ago.
func (c *Controller) Ready() error {
	if since := c.records.sinceEcho(c.config.Clock.Now()); since > blindAfter {
		return fmt.Errorf("no renewal of our own lease %s in kube-node-lease has come back on the watch for %s, so no node is considered silent; see docs/node-health.md",
			ownLease(c.config.DryRun), since.Truncate(time.Second))
	}
	return nil
}

// watchBlindness logs and writes an event when this process can no longer detect silence, and when it can again, until
// the context ends.
func (c *Controller) watchBlindness(ctx context.Context) {
	ticker := time.NewTicker(checkBlindnessEvery)
	defer ticker.Stop()
	blind := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		why := c.Ready()
		if was := blind; was == (why != nil) {
			continue
		}
		blind = why != nil
		if blind {
			c.config.Logger.Info("Node health is blind: its own Lease renewals do not arrive on the watch", "why", why.Error())
		} else {
			c.config.Logger.Info("Node health is no longer blind: its own Lease renewals arrive on the watch again")
		}
		if c.looks.started() {
			c.events.blindness(why)
		}
	}
}
