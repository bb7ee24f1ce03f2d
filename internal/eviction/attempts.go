// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// attempt is what is remembered of an eviction under way, between its tries. The controller never
// works on one request twice at once, so its fields need no lock; but for those that others read.
type attempt struct {
	failures     int
	unconfirmed  int           // tries in a row that had to wait for a watch
	aborted      int           // tries that had to make room for others
	markFailures int           // since it was last known to be marked
	marked       bool          // an earlier try has set the condition, whatever the watch shows
	live         *podcache.Pod // as the API server itself showed it last
	unmarked     error         // why the condition could not be set in this try
	announced    bool
	hung         bool   // the last try did
	refuser      string // who was said to refuse the delete

	// Guarded by attempts.
	notBefore time.Time // by the monotonic clock: a wait, not a deadline
	refusal   error     // of the last try
	unsure    bool      // the last try was not confirmed, and waits for the watch
}

// tries is how many tries failed or were aborted.
func (a *attempt) tries() int { return a.failures + a.aborted }

// fail notes why a try ended without a result, and returns how long to wait before the next. To wait for a clock or for
// a watch, or to make room for others, is no failure.
func (a *attempt) fail(err error) (wait time.Duration, failed bool) {
	var early tooEarlyError
	switch {
	case errors.As(err, &early):
		return min(max(early.wait, apicall.FirstBackoff), longestNap), false
	case errors.Is(err, errUnconfirmed):
		a.unconfirmed++
		return apicall.Doubled(firstUnconfirmed, a.unconfirmed, lastUnconfirmed), false
	case errors.Is(err, errNoRoom):
		a.aborted++
		return apicall.Doubled(firstUnconfirmed, a.aborted, lastUnconfirmed), false
	}
	a.unconfirmed = 0
	a.failures++
	return retryAfter(err, a.failures), true
}

// blocks reports whether what has just failed on the way to the delete still keeps it back. What did
// not reach the server counts nothing: a server that cannot be reached will not delete either.
func (a *attempt) blocks(err error) bool {
	if apicall.Answered(err) || errors.Is(err, context.DeadlineExceeded) {
		a.markFailures++
	}
	return a.markFailures < markTries
}

// shown notes the pod as the API server has shown it.
func (a *attempt) shown(live *podcache.Pod) *podcache.Pod {
	a.live = live
	if live.Flags.Has(podcache.MarkedByUs) {
		a.marked, a.markFailures = true, 0
	}
	return live
}

// newest returns the pod as the API server showed it last, unless the watch has brought a newer one
// since; then it is nil. Versions tell, as servers before 1.33 count no generation of pods.
func (a *attempt) newest(cached *podcache.Pod) *podcache.Pod {
	if a.live == nil || a.live.Version < cached.Version {
		return nil
	}
	return a.live
}

type attempts struct {
	mu    sync.Mutex
	under map[PodRequest]*attempt
}

// get returns the eviction of a pod, and whether it begins now.
func (a *attempts) get(req PodRequest) (_ *attempt, begins bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.under[req]
	if !ok {
		known = &attempt{}
		a.under[req] = known
	}
	return known, !ok
}

// begun reports whether an eviction was begun and is not over. It comes back by itself.
func (a *attempts) begun(req PodRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.under[req]
	return ok
}

// decidedAgain notes that the pod must leave by what is known now, and reports whether its eviction comes back by
// itself. One that waits for the watch does not wait any longer: the watch has brought something.
func (a *attempts) decidedAgain(req PodRequest) (comesBack bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.under[req]
	if ok && known.unsure {
		known.unsure, known.notBefore = false, time.Time{}
		return false
	}
	return ok
}

// forget ends an eviction: if the pod has to leave again, that is another.
func (a *attempts) forget(req PodRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.under, req)
}

// over ends this eviction, unless it was forgotten and another of the pod has begun.
func (a *attempts) over(req PodRequest, attempt *attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under[req] == attempt {
		delete(a.under, req)
	}
}

// postpone says when the next try may begin, and why the last one failed.
func (a *attempts) postpone(attempt *attempt, until time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	attempt.notBefore, attempt.refusal, attempt.unsure = until, nil, errors.Is(err, errUnconfirmed)
	if refused(err) {
		attempt.refusal = err
	}
}

// again returns when an eviction may be tried again; zero if it is not under way.
func (a *attempts) again(req PodRequest) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.under[req]; ok {
		return known.notBefore
	}
	return time.Time{}
}

// refused counts the evictions that are refused, by who refuses them.
func (a *attempts) refused() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{}
	for _, attempt := range a.under {
		if attempt.refusal != nil {
			counts[refuser(attempt.refusal)]++
		}
	}
	return counts
}

const (
	// A watch that lags is waited for in steps of their own: it mostly catches up at once.
	firstUnconfirmed = confirmedFor
	lastUnconfirmed  = 4 * time.Second
	// longestRetryAfter bounds the time that the API server, or whoever answers for it, can name.
	longestRetryAfter = 5 * time.Minute
)

// errUnconfirmed: the live node or pod does not confirm what the cached one says. One of the two
// is about to change, so it is soon known which.
var errUnconfirmed = errors.New("the node's taints and the pod, read live, do not confirm the eviction; waiting for the watch")

// tooEarlyError: the pod is due by this machine's clock, but not by the API server's.
type tooEarlyError struct{ wait time.Duration }

// Error implements error.
func (e tooEarlyError) Error() string {
	return fmt.Sprintf("due by this machine's clock, but not by the API server's for another %s; check the clocks", e.wait)
}

// retryAfter returns how long to wait after the given number of failures: the time that the API server names, or else
// the backoff.
func retryAfter(err error, failures int) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && apierrors.IsTooManyRequests(err) {
		return min(time.Duration(max(seconds, 1))*time.Second, longestRetryAfter)
	}
	if refused(err) {
		return apicall.Jittered(apicall.Doubled(apicall.FirstBackoff, failures, apicall.LastRefused))
	}
	return apicall.Doubled(apicall.FirstBackoff, failures, apicall.LastBackoff)
}

// reason names an error in a metric.
func reason(err error) string {
	var early tooEarlyError
	var unrecorded notRecordedError
	switch {
	case errors.Is(err, errUnconfirmed):
		return "Unconfirmed"
	case errors.As(err, &early):
		return "TooEarly"
	case errors.As(err, &unrecorded):
		return "NotRecorded"
	case errors.Is(err, errNoRoom):
		return "Aborted"
	}
	return apicall.Reason(err)
}

// troubleAfter is how many failures in a row are worth a line in the log at the default level:
// the first few are ordinary.
const troubleAfter = 3

// trouble keeps a storm of failures from filling the log: one line per reason and minute.
type trouble struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (t *trouble) worthALine(reason string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[reason]; ok && at.Sub(last) < time.Minute {
		return false
	}
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	t.last[reason] = at
	return true
}
