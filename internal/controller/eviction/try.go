// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
)

// PodRequest names one pod. The UID says which; the name is for the API calls.
type PodRequest struct {
	Namespace, Name string
	UID             types.UID
}

func (r PodRequest) String() string { return r.Namespace + "/" + r.Name }

func requestFor(pod *podcache.Pod) PodRequest {
	return PodRequest{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// try is one try to evict a pod. It belongs to one goroutine.
type try struct {
	PodRequest
	memo

	eviction   *backlog.Eviction // the queue's
	node       string
	due        time.Time
	tries      int   // earlier tries that failed or hung
	unmarked   error // why the condition could not be set
	begun      bool  // it has taken places in paces and budgets
	unanswered bool  // the call got no answer, so the pod may be leaving
	learned    bool  // the try was withdrawn, and it is known what happened to the pod
}

// newTry copies what a try needs to know of an eviction.
func newTry(e *backlog.Eviction) *try {
	t := &try{
		PodRequest: PodRequest{Namespace: e.Namespace, Name: e.Name, UID: e.UID},
		eviction:   e, node: e.Node, due: e.Due, tries: e.Tries,
	}
	t.memo, _ = e.Memo.(memo)
	return t
}

// memo is what an eviction remembers between its tries.
type memo struct {
	announced    bool
	marked       bool          // a try has set the condition, whatever the watch shows
	markFailures int           // failed tries since the pod was last known to be marked
	unconfirmed  int           // tries in a row that were not confirmed
	live         *podcache.Pod // as the API server itself showed it last
	refuser      string        // what refuses the delete, as the last event says
}

// blocks reports whether a failed step before the delete still blocks it. A call that did not reach the server does not
// count, because the delete would not reach it either.
func (m *memo) blocks(err error) bool {
	if apicall.Answered(err) || errors.Is(err, context.DeadlineExceeded) {
		m.markFailures++
	}
	return m.markFailures < markTries
}

// shown notes the pod as the API server returned it.
func (m *memo) shown(live *podcache.Pod) *podcache.Pod {
	m.live = live
	if live.Flags.Has(podcache.MarkedByUs) {
		m.marked, m.markFailures = true, 0
	}
	return live
}

// newest returns the pod as the API server last returned it, or nil if the watch has brought a newer one since. It
// compares resourceVersions, because servers before 1.33 set no generation on pods.
func (m *memo) newest(cached *podcache.Pod) *podcache.Pod {
	if m.live == nil || m.live.Version < cached.Version {
		return nil
	}
	return m.live
}
