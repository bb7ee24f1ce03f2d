// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// stamper writes the timeAdded of NoExecute taints from which they count. Only the node-lifecycle
// controller sets it (not kubectl, not the API server), and writes another when not-ready becomes unreachable; without
// the right one no deadline survives this process. Until it is written, and where that is refused, the instant of first
// sight serves.
type stamper struct {
	// sparing: nodes on which no countdown runs are left alone. Each write makes the built-in controller, where it runs,
	// try all due pods of the node once more.
	sparing bool
	judge   judge
	nodes   nodes
	pods    *podcache.Cache
	live    *liveNodes
	api     api
	metrics *metrics
	lag     workqueue.TypedRateLimiter[NodeRequest] // how long to wait for the watch, which is not a failure
	stamps  sync.Map                                // NodeRequest -> stamps
}

func newStamper(
	judge judge, nodes nodes, pods *podcache.Cache, live *liveNodes, api api, metrics *metrics,
) *stamper {
	return &stamper{
		judge: judge, nodes: nodes, pods: pods, live: live, api: api, metrics: metrics,
		lag: workqueue.NewTypedItemExponentialFailureRateLimiter[NodeRequest](firstUnconfirmed, lastUnconfirmed),
	}
}

// forget ends the waits of a node.
func (s *stamper) forget(req NodeRequest) {
	if past := s.past(req); past.failures > 0 {
		past.failures = 0
		s.stamps.Store(req, past)
	}
	s.lag.Forget(req)
}

// wait returns how long a node that could not be stamped waits for the next try.
func (s *stamper) wait(req NodeRequest) time.Duration {
	past := s.past(req)
	return apicall.Backoff(past.failures, past.failed)
}

// stampAfter is how long a taint is known before it is stamped. Pods that are due at once go first:
// in the outage of a zone every node must be read and written, just when the first pods must leave.
const stampAfter = 250 * time.Millisecond

// How often one node is stamped at most. Taintkeeper does not fight a client that writes its taints without timeAdded,
// or with another, again and again: each stamp that does not last doubles the time to the next.
const (
	firstStampAgain = time.Second
	lastStampAgain  = time.Hour
)

// stamps is how often a node was stamped in a row, and when the last time; and how often since then it could not be,
// and why.
type stamps struct {
	count    int
	last     time.Time
	failures int
	failed   error
}

// rest is how long the node is left alone. Stamps that lasted for so long once more are forgotten.
func (s stamps) rest() time.Duration {
	return apicall.Doubled(firstStampAgain, s.count, lastStampAgain)
}

func (s stamps) wait(at time.Time) time.Duration {
	if s.count == 0 {
		return 0
	}
	return s.rest() - at.Sub(s.last)
}

func (s stamps) another(at time.Time) stamps {
	if at.Sub(s.last) > 2*s.rest() {
		s.count = 0
	}
	return stamps{count: s.count + 1, last: at}
}

// Reconcile stamps one node, and comes back until it is stamped or there is nothing to stamp.
func (s *stamper) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	known, ok := s.nodes.get(req.Name)
	if !ok && !s.nodes.exists(req.Name) {
		s.stamps.Delete(req)
	}
	if !ok || !s.needs(known) {
		s.forget(req)
		return reconcile.Result{}, nil
	}
	past := s.past(req)
	if wait := max(past.wait(s.judge.clock.Now()), s.leaving(known)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := s.stamp(ctx, req.Name)
	switch {
	case apicall.Stopping(ctx): // the next process goes on
		return reconcile.Result{}, nil
	case err == nil || errors.Is(err, errStripped):
		s.forget(req)
		past = past.another(s.judge.clock.Now())
		s.stamps.Store(req, past)
		return reconcile.Result{RequeueAfter: past.rest()}, nil
	case apicall.IsNotFound(err) || errors.Is(err, errApplied):
		s.forget(req)
		return reconcile.Result{}, nil
	}
	s.metrics.retries.WithLabelValues(reason(err)).Inc()
	if errors.Is(err, errUnconfirmed) {
		return reconcile.Result{RequeueAfter: s.lag.When(req)}, nil
	}
	s.fail(ctx, req, err)
	return reconcile.Result{}, err // the queue asks for the wait
}

// needs reports whether a timeAdded of a node is to be written.
func (s *stamper) needs(tainted *nodecache.Node) bool {
	return unstamped(tainted) && (!s.sparing || s.counts(tainted))
}

// counts reports whether the countdown of a pod on a node runs.
func (s *stamper) counts(tainted *nodecache.Node) bool {
	at := s.judge.clock.Now()
	return slices.ContainsFunc(s.pods.OnNode(tainted.Name), func(pod *podcache.Pod) bool {
		v, _ := s.judge.over(pod, tainted.NoExecute)
		return v.PendingAt(at)
	})
}

// leaving returns how long to wait until the pods of a node that are due now have left it; zero if there are none. The
// built-in still holds their names. A second try of them, which the write would begin, deletes by the mark of the first
// what has taken their names. A pod that does not leave is not waited for.
func (s *stamper) leaving(tainted *nodecache.Node) time.Duration {
	if !s.sparing {
		return 0
	}
	at := s.judge.clock.Now()
	leaving := func(pod *podcache.Pod) bool {
		v, _ := s.judge.over(pod, tainted.NoExecute)
		return v.DueAt(at) && at.Sub(v.Due) < leavesWithin
	}
	if slices.ContainsFunc(s.pods.OnNode(tainted.Name), leaving) {
		return firstStampAgain
	}
	return 0
}

// leavesWithin is how long a node is not stamped because of a pod that is due.
const leavesWithin = time.Minute

// fail notes why a node could not be stamped.
func (s *stamper) fail(ctx context.Context, req NodeRequest, err error) {
	past := s.past(req)
	if past.failures == troubleAfter {
		logf.FromContext(ctx).Info("Cannot write timeAdded of a NoExecute taint: its countdowns will not survive "+
			"a restart; still trying", "node", req.Name, "reason", err.Error())
	}
	past.failures++
	past.failed = err
	s.stamps.Store(req, past)
}

func (s *stamper) past(req NodeRequest) stamps {
	known, ok := s.stamps.Load(req)
	if !ok {
		return stamps{}
	}
	return known.(stamps)
}

var (
	// errStripped: the answer to the write lacks what was written; somebody takes it away.
	errStripped = errors.New("the API server accepted timeAdded, but its answer does not have it: a webhook removes it")
	// errApplied: somebody owns the list of taints by server-side apply, and would meet a conflict with us from then on.
	errApplied = errors.New("the taints are managed by server-side apply")
)

func (s *stamper) stamp(ctx context.Context, name string) error {
	known, ok := s.nodes.get(name)
	if !ok {
		return nil
	}
	live, err := s.live.node(ctx, name, known.Tainted)
	if err != nil {
		return err
	}
	if err := s.api.token(ctx); err != nil {
		return err
	}
	// What was read may be a taint that was taken off and set again.
	known, ok = s.nodes.get(name)
	if !ok || !unstamped(known) {
		return nil
	}
	if wentBack(known, live) {
		return errUnconfirmed
	}
	now := s.judge.clock.See().Second()
	all, complete := stamp(known, live.node, now, s.lag.NumRequeues(NodeRequest{name}) >= unconfirmedTries)
	if !complete {
		return errUnconfirmed
	}
	return s.write(ctx, name, live.node, all)
}

// write writes the taints of a node as it was read, unless somebody owns them.
func (s *stamper) write(ctx context.Context, name string, live *corev1.Node, all []corev1.Taint) error {
	if manager := applierOfTaints(live); manager != "" {
		s.nodes.SetUnstampable(name, true)
		logf.FromContext(ctx).Info("timeAdded of a NoExecute taint is not written, as the node's taints are managed by server-side apply: its countdowns will not survive a restart", "node", name, "manager", manager)
		return errApplied
	}
	answer, err := s.api.patchTaints(ctx, live, all)
	switch {
	case err == nil && !hasStamps(answer, all):
		s.nodes.SetUnstampable(name, true)
		return errStripped
	case err == nil:
		s.nodes.SetUnstampable(name, false)
	case apicall.Refused(err):
		s.nodes.SetUnstampable(name, true)
	}
	return err
}

// unconfirmedTries is after how many tries, in which the watch has lagged, a taint is stamped that it does not confirm.
const unconfirmedTries = 2

// unstamped reports whether the timeAdded of a NoExecute taint is to be written.
func unstamped(node *nodecache.Node) bool {
	return slices.ContainsFunc(node.NoExecute, verdict.Taint.Unstamped)
}

// stamp returns all taints of the node as it was read, with the timeAdded of its NoExecute taints as they should be,
// and whether there is one for all. None is later than the present second by the API server's clock, of which less may
// have been known at first sight. A taint that the read does not confirm gets the present second if it must be stamped
// anyway. That is later than the truth, which is written once the watch has brought the stamp, and so shown that the
// taint is the same.
func stamp(known *nodecache.Node, live *corev1.Node, now *metav1.Time, anyway bool) (
	all []corev1.Taint, complete bool,
) {
	all = slices.Clone(live.Spec.Taints)
	if live.UID != known.UID {
		return all, false
	}
	for _, is := range known.NoExecute {
		if !is.Unstamped() {
			continue
		}
		i := slices.IndexFunc(all, func(taint corev1.Taint) bool { return taint.MatchTaint(&is.Taint) })
		confirmed := false
		if i >= 0 {
			_, confirmed = confirm(known, is, all[i], live, nil)
		}
		switch {
		case confirmed:
			all[i].TimeAdded = is.Add
			if now.Before(is.Add) {
				all[i].TimeAdded = now
			}
		case i >= 0 && all[i].TimeAdded.IsZero() && anyway:
			all[i].TimeAdded = now
		default:
			return all, false
		}
	}
	return all, true
}

// hasStamps reports whether a node has each timeAdded that was written.
func hasStamps(node *corev1.Node, written []corev1.Taint) bool {
	return !slices.ContainsFunc(written, func(stamped corev1.Taint) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.MatchTaint(&stamped) && !taint.TimeAdded.Equal(stamped.TimeAdded)
		})
	})
}

// applierOfTaints returns who manages the taints of a node by server-side apply, if somebody does. The list is atomic:
// our timeAdded would make all of it ours, and the next apply of the very same configuration a conflict.
func applierOfTaints(node *corev1.Node) string {
	for _, entry := range node.ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil &&
			ownsTaints(entry.FieldsV1.GetRawBytes()) {
			return entry.Manager
		}
	}
	return ""
}

func ownsTaints(fields []byte) bool {
	var owned struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(fields, &owned) != nil {
		return false
	}
	_, ok := owned.Spec["f:taints"]
	return ok
}
