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

// stamper writes the timeAdded from which NoExecute taints count. Only the node-lifecycle controller sets it (not
// kubectl, not the API server), and sets another when not-ready becomes unreachable. Without the right timeAdded, no
// deadline survives this process. Until it is written, or if the write is refused, the taint counts from first sight.
type stamper struct {
	writer

	// sparing leaves alone nodes on which no countdown runs. Each write makes the built-in controller, if it runs, try all
	// due pods of the node again.
	sparing bool
	lag     workqueue.TypedRateLimiter[NodeRequest] // waits for the watch, which are not failures
	stamps  sync.Map                                // NodeRequest -> stamps
}

func newStamper(w writer, sparing bool) *stamper {
	return &stamper{
		writer: w, sparing: sparing,
		lag: workqueue.NewTypedItemExponentialFailureRateLimiter[NodeRequest](firstUnconfirmed, lastUnconfirmed),
	}
}

// forget resets the backoffs of a node.
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

// stampAfter is how long a taint is known before it is stamped. Pods that are due at once go first: when a zone fails,
// every node must be read and written just when the first pods must leave.
const stampAfter = 250 * time.Millisecond

// Limits on how often one node is stamped. Taintkeeper does not fight a client that writes its taints without
// timeAdded, or with another, again and again: each stamp that does not last doubles the time to the next.
const (
	firstStampAgain = time.Second
	lastStampAgain  = time.Hour
)

// stamps records how often in a row a node was stamped and when it last was, and how often stamping has failed since,
// and why.
type stamps struct {
	count    int
	last     time.Time
	failures int
	failed   error
}

// rest returns how long the node is left alone. Stamps that have lasted for that long again are forgotten.
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

// Reconcile stamps one node, and requeues it until it is stamped or there is nothing to stamp.
func (s *stamper) Reconcile(ctx context.Context, req NodeRequest) (reconcile.Result, error) {
	known, ok := s.nodes.Tainted(req.Name)
	if !ok && !s.nodes.Exists(req.Name) {
		s.stamps.Delete(req)
	}
	if !ok || !s.needs(known) {
		s.forget(req)
		return reconcile.Result{}, nil
	}
	past := s.past(req)
	if wait := max(past.wait(s.clock.Now()), s.leaving(known)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := s.stamp(ctx, req.Name)
	switch {
	case apicall.Stopping(ctx): // the next process goes on
		return reconcile.Result{}, nil
	case err == nil || errors.Is(err, errStripped):
		s.forget(req)
		past = past.another(s.clock.Now())
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

// needs reports whether a timeAdded of a node must be written.
func (s *stamper) needs(tainted *nodecache.Node) bool {
	return unstamped(tainted) && (!s.sparing || s.counts(tainted))
}

// counts reports whether the countdown of a pod on a node runs.
func (s *stamper) counts(tainted *nodecache.Node) bool {
	at := s.clock.Now()
	return slices.ContainsFunc(s.pods.OnNode(tainted.Name), func(pod *podcache.Pod) bool {
		v, _ := s.over(pod, tainted.NoExecute)
		return v.PendingAt(at)
	})
}

// leaving returns how long to wait until the pods of a node that are due now have left; zero if there are none. The
// built-in still has their names. The write would start a second try, which, because of the mark of the first, would
// delete whatever pod has taken the name. It does not wait for a pod that does not leave.
func (s *stamper) leaving(tainted *nodecache.Node) time.Duration {
	if !s.sparing {
		return 0
	}
	at := s.clock.Now()
	leaving := func(pod *podcache.Pod) bool {
		v, _ := s.over(pod, tainted.NoExecute)
		return v.DueAt(at) && at.Sub(v.Due) < leavesWithin
	}
	if slices.ContainsFunc(s.pods.OnNode(tainted.Name), leaving) {
		return firstStampAgain
	}
	return 0
}

// leavesWithin is how long a due pod keeps its node from being stamped.
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
	// errStripped says that the answer to the write lacks what was written.
	errStripped = errors.New("the API server accepted timeAdded, but its response does not contain it: a webhook removes it")
	// errApplied says that a client owns the list of taints through server-side apply; if we wrote it, the client's
	// next apply would conflict.
	errApplied = errors.New("the taints are managed by server-side apply")
)

func (s *stamper) stamp(ctx context.Context, name string) error {
	known, ok := s.nodes.Tainted(name)
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
	// The taint that was read may have been removed and added again.
	known, ok = s.nodes.Tainted(name)
	if !ok || !unstamped(known) {
		return nil
	}
	if wentBack(known, live) {
		return errUnconfirmed
	}
	now := s.clock.See().Second()
	all, complete := stamp(known, live.node, now, s.lag.NumRequeues(NodeRequest{name}) >= unconfirmedTries)
	if !complete {
		return errUnconfirmed
	}
	return s.write(ctx, name, live.node, all)
}

// write writes the taints of a node as it was read, unless a client owns them.
func (s *stamper) write(ctx context.Context, name string, live *corev1.Node, all []corev1.Taint) error {
	if manager := applierOfTaints(live); manager != "" {
		s.nodes.SetUnstampable(name, true)
		logf.FromContext(ctx).Info("timeAdded of a NoExecute taint is not written because the node's taints are managed by server-side apply: its countdowns will not survive a restart", "node", name, "manager", manager)
		return errApplied
	}
	answer, err := apicall.PatchTaints(ctx, s.api.client, live, apicall.NodeEdit{Taints: all}, metav1.PatchOptions{})
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

// unconfirmedTries is the number of tries with a lagging watch after which a taint is stamped without its confirmation.
const unconfirmedTries = 2

// unstamped reports whether the timeAdded of a NoExecute taint must be written.
func unstamped(node *nodecache.Node) bool {
	return slices.ContainsFunc(node.NoExecute, verdict.Taint.Unstamped)
}

// stamp returns all taints of the node as it was read, with the right timeAdded on its NoExecute taints, and whether
// all of them have one. None is later than the current second of the API server's clock, about which less may have been
// known at first sight. A taint that the read does not confirm gets the current second if it must be stamped anyway.
// That is later than the right one, which is written once the watch has brought the stamp and so shown that the taint
// is the same.
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

// applierOfTaints returns the manager that owns the taints of a node through server-side apply, if there is one. The
// list is atomic: with our timeAdded we would own all of it, and the next apply of the same configuration would
// conflict.
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
