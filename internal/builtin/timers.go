// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Timers is what the taint-eviction-controller does about pods on tainted nodes (processPodOnNode in
// pkg/controller/tainteviction/taint_eviction.go, the same up to 1.38). It has one timer per pod. A timer is a verdict:
// the pod is deleted when it is due, and the zero value means that there is none.
//
// The controller looks at a pod when the NoExecute taints of its node, its tolerations or its node change, and when the
// process starts:
//
//	a taint that no toleration matches             the pod is deleted now
//	taints that are tolerated, all indefinitely    the timer is cancelled
//	no taint                                       the timer is cancelled
//	otherwise                                      a timer that runs is kept; without one, a timer is set to the
//	                                               fewest tolerationSeconds, counted from now
//
// An eviction that has begun goes on, whatever happens: it waits for the client's rate limiter, see [Queue]. If five
// tries within 50 ms fail, it is forgotten until the controller looks at the pod again.
type Timers struct {
	// Rule says which toleration counts for a taint. Its instants are not used.
	Rule verdict.Rule
}

// forgottenAfter is how long after its timer has fired a pod that is still there counts as forgotten. The evictions of
// 4,000 pods take as long.
const forgottenAfter = 10 * time.Minute

// Forgot reports whether the controller has tried without success to evict a pod that is still there, given its timer.
func (Timers) Forgot(timer verdict.Verdict, now time.Time) bool {
	return timer.DueAt(now.Add(-forgottenAfter))
}

// Look returns a pod's timer after the controller has looked at the pod at an instant.
func (t Timers) Look(timer verdict.Verdict, pod verdict.Pod, taints []verdict.Taint, now time.Time) verdict.Verdict {
	switch {
	case t.Forgot(timer, now):
		timer = verdict.Verdict{}
	case timer.DueAt(now):
		return timer
	}
	pod.Bound = now // countdowns begin when it looks
	var least verdict.Reason
	for _, taint := range taints {
		taint.Before = nil
		reason := t.Rule.Judge(pod, taint)
		if reason.Toleration == nil {
			return verdict.Verdict{Reason: reason}
		}
		if least.Toleration == nil || reason.Leaves && (!least.Leaves || seconds(reason) < seconds(least)) {
			least = reason
		}
	}
	lasts := time.Duration(seconds(least)) * time.Second // can overflow, as in the controller
	switch {
	case !least.Leaves, seconds(least) == math.MaxInt64, lasts < 0:
		least.Leaves, least.Due = false, time.Time{}
	case timer.Leaves:
		return timer
	default:
		least.Due = now.Add(lasts)
	}
	return verdict.Verdict{Reason: least}
}

// seconds returns for how many seconds a taint is tolerated; 0 if it is tolerated indefinitely.
func seconds(reason verdict.Reason) int64 {
	if reason.Toleration == nil || reason.Toleration.TolerationSeconds == nil {
		return 0
	}
	return max(*reason.Toleration.TolerationSeconds, 0)
}

// Replay returns the timer of a pod on a node with the given taints, which were set in the order in which they count
// from. Timers begin again when the process starts, so nothing counts from before that.
func (t Timers) Replay(pod verdict.Pod, taints []verdict.Taint, started time.Time) (timer verdict.Verdict) {
	sees := func(taint verdict.Taint) time.Time {
		return instant.Later(instant.Later(taint.Since, pod.Bound), started)
	}
	var instants []time.Time
	for _, taint := range taints {
		instants = append(instants, sees(taint))
	}
	slices.SortFunc(instants, time.Time.Compare)
	for _, now := range slices.CompactFunc(instants, time.Time.Equal) {
		timer = t.Look(timer, pod, slices.DeleteFunc(slices.Clone(taints), func(taint verdict.Taint) bool {
			return sees(taint).After(now)
		}), now)
	}
	return timer
}

// Tries follows when the controller begins to try to evict one pod, as far as this can be seen from outside. It tries
// the pod at once when it looks at the pod and the pod is due then, and when the pod's timer fires. When the controller
// began to watch is not known, so the timer is the earliest instant at which the rule has made the pod due since the
// pod has had to leave: the controller fires no sooner. It tries terminating pods, too. A restart, after which it tries
// all due pods again, cannot be seen; see Due. The zero value is a pod that was not seen yet.
type Tries struct {
	// Fires is when the pod's timer fires; zero if it has none.
	Fires time.Time
	// Tried means that the pod was tried at some time.
	Tried bool
	// Due means that the pod is due. If the controller restarts, it tries the pod again.
	Due bool
	// Stays means that the pod stays, for now or for good.
	Stays bool
	// Spared is since when the pod has stayed after a try; zero if it does not stay or was not tried.
	Spared time.Time
}

// See takes into account what the rule requires of the pod at an instant, whether it is terminating or not. looks means
// that the controller looks at the pod because the pod is new, or its tolerations or the NoExecute taints of its node
// have changed. It returns since when the pod is being tried, if that is new, or zero.
func (t *Tries) See(v verdict.Verdict, looks, terminating bool, now time.Time) (began time.Time) {
	if v.Leaves && (looks || !t.Fires.IsZero()) {
		t.Fires = instant.Next(t.Fires, v.Due)
	}
	if !t.Fires.IsZero() && !t.Fires.After(now) {
		began, t.Tried, t.Fires = t.Fires, true, time.Time{}
	}
	if !v.Leaves {
		t.Fires = time.Time{}
	}
	t.Due = v.DueAt(now)
	t.Stays = !terminating && !t.Due
	switch {
	case !t.Stays:
		t.Spared = time.Time{}
	case t.Tried && t.Spared.IsZero():
		t.Spared = now
	}
	return began
}

// NodeTries is what the controller does about the pods of a node, and which of them stay.
type NodeTries struct {
	Node string
	// Begun is how many tries have begun since the last call, From the instant of the first of these.
	Begun int
	From  time.Time
	// Due is how many pods of all nodes are due now, including those that are held, refused or terminating. If the
	// controller restarts, it tries all of them again.
	Due int
	// Spared is when the last pod that the controller tried and that stays was spared; zero if there is none.
	Spared time.Time
	// Stays reports whether some pod of the node stays, for now or for good, whether it was tried or not.
	Stays bool
}

// Node follows the tries of the pods of one node, each of which was seen last as a P. The zero value knows no pods. It
// is not safe for concurrent use.
type Node[P any] struct {
	pods map[types.UID]*triedPod[P]
	news NodeTries // Begun and From since the last report
	last NodeTries // the last report, whose Due is of this node
}

type triedPod[P any] struct {
	Tries

	seen P
}

// See is [Tries.See] of a pod of the node. The controller looks at a pod that is new, and at one for which looks
// returns true, given how it was seen before.
func (n *Node[P]) See(
	uid types.UID, pod P, v verdict.Verdict, looks func(before P) bool, terminating bool, now time.Time,
) {
	if n.pods == nil {
		n.pods = map[types.UID]*triedPod[P]{}
	}
	known := n.pods[uid]
	decides := known == nil || looks(known.seen)
	if known == nil {
		known = &triedPod[P]{}
		n.pods[uid] = known
	}
	known.seen = pod
	if began := known.See(v, decides, terminating, now); !began.IsZero() {
		n.news.Begun++
		n.news.From = instant.Next(n.news.From, began)
	}
}

// Forget forgets a pod that is gone. It reports whether the pod was known.
func (n *Node[P]) Forget(pod types.UID) bool {
	_, known := n.pods[pod]
	delete(n.pods, pod)
	return known
}

// Tried reports whether the controller has tried a pod of the node.
func (n *Node[P]) Tried() bool {
	for _, pod := range n.pods {
		if pod.Tried {
			return true
		}
	}
	return false
}

// Fires returns when the first timer of its pods fires; zero if there is none.
func (n *Node[P]) Fires() (next time.Time) {
	for _, pod := range n.pods {
		next = instant.Next(next, pod.Fires)
	}
	return next
}

// Report returns what the controller does about the pods of the node, and whether that differs from the last report. It
// is given how many pods of all nodes are due, and keeps that up to date.
func (n *Node[P]) Report(name string, due *int) (is NodeTries, news bool) {
	is.Node = name
	for _, pod := range n.pods {
		is.Stays = is.Stays || pod.Stays
		if pod.Due {
			is.Due++
		}
		is.Spared = instant.Later(is.Spared, pod.Spared)
	}
	news = n.news.Begun > 0 || is != n.last
	*due += is.Due - n.last.Due
	n.last = is
	is.Begun, is.From, is.Due = n.news.Begun, n.news.From, *due
	n.news = NodeTries{}
	return is, news
}

// The defaults of the client with which the controller evicts: --kube-api-qps and --kube-api-burst.
const (
	qps   = 20
	burst = 30
	// rounds are the calls of an eviction: GET, PATCH of the status, DELETE.
	rounds = 3
	// meanwhile is about how many evictions of one instant the controller begins before the first call is answered. It
	// follows from when the first of 1,000 pods was deleted, 51 to 59 s after all were due.
	meanwhile = 125
)

// Queue is the evictions that have begun, and wait for the client's rate limiter, which lets calls pass in the order in
// which they were made. Pods have numbers from 0, in the order in which they were added. The zero value is empty.
type Queue struct {
	waiting [rounds][]call
	pods    int
	passes  time.Time // when the last call passes
}

// call is a call that a pod's eviction makes at an instant.
type call struct {
	pod int
	at  time.Time
}

// Add adds a pod whose eviction begins at an instant, not before that of the last pod, and returns its number.
func (q *Queue) Add(at time.Time) int {
	q.waiting[0] = append(q.waiting[0], call{q.pods, at})
	q.pods++
	return q.pods - 1
}

// Next returns when the next call is made, and in which round; the instant is zero if there is none.
func (q *Queue) Next() (round int, at time.Time) {
	var next call
	for r, calls := range q.waiting {
		if len(calls) == 0 {
			continue
		}
		is := calls[0]
		is.pod += r * meanwhile
		if at.IsZero() || is.at.Before(at) || is.at.Equal(at) && is.pod < next.pod {
			round, at, next = r, is.at, is
		}
	}
	return round, at
}

// Advance makes the calls up to an instant, and reports for each DELETE among them when it passes the limiter, which
// can be later.
func (q *Queue) Advance(until time.Time, deleted func(pod int, at time.Time)) {
	for {
		round, at := q.Next()
		if at.IsZero() || at.After(until) {
			return
		}
		pod := q.waiting[round][0].pod
		q.waiting[round] = q.waiting[round][1:]
		passes := q.pass(at)
		if round+1 == rounds {
			deleted(pod, passes)
		} else {
			q.waiting[round+1] = append(q.waiting[round+1], call{pod, passes})
		}
	}
}

// pass returns when a call passes the limiter.
func (q *Queue) pass(at time.Time) time.Time {
	const each = time.Second / qps
	q.passes = instant.Later(q.passes, at.Add(-burst*each)).Add(each)
	return instant.Later(q.passes, at)
}

// Deletes returns when the pods are deleted whose evictions begin at the given instants, which are sorted.
func Deletes(begin []time.Time) []time.Time {
	var q Queue
	all := make([]time.Time, len(begin))
	for _, at := range begin {
		q.Add(at)
	}
	for {
		_, at := q.Next()
		if at.IsZero() {
			return all
		}
		q.Advance(at, func(pod int, at time.Time) { all[pod] = at })
	}
}
