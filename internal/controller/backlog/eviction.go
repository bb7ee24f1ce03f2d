// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"errors"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	"k8s.io/apimachinery/pkg/types"
)

// Leaving is a pod that must leave its node, now or later.
type Leaving struct {
	UID             types.UID
	Namespace, Name string
	Lane            Lane   // the way in which it must leave; as long as a try is in flight, its group may be of the other
	Group           string // evictions of a group hang together; never changes
	Due             time.Time
	Priority        int32
	Answer          Answer
}

// Answer is what the policies say about a due pod. The zero value lets it leave.
type Answer struct {
	Held  bool      // no try until another answer comes
	After time.Time // no try before
}

// Free reports whether the pod may leave when it is due.
func (a Answer) Free() bool { return a == Answer{} }

// from is the instant at which the eviction may first be tried; zero if it is held.
func (l Leaving) from() time.Time {
	if l.Answer.Held {
		return time.Time{}
	}
	return instant.Later(l.Due, l.Answer.After)
}

func (l Leaving) mayBeTried(now time.Time) bool { return !l.Answer.Held && !l.from().After(now) }

// equal reports whether nothing of a pod has changed.
func (l Leaving) equal(other Leaving) bool {
	return l.Due.Equal(other.Due) && l.Priority == other.Priority &&
		l.Answer.Held == other.Answer.Held && l.Answer.After.Equal(other.Answer.After)
}

// Eviction is the eviction of one pod, until the pod is gone or may stay.
type Eviction struct {
	Leaving

	Node    string
	Tries   int    // tries that failed or hung
	Refuser string // what refused the last try; empty if nothing did
	Memo    any    // what the caller remembers between tries; nil when the eviction begins

	group     *group
	from      time.Time           // no try before
	rested    time.Time           // when the backoff of its last try is over; an answer may delay it further
	in        *ordered[*Eviction] // the order in which it waits; nil if held or in flight
	at        int                 // its place in that order
	inFlight  bool
	began     time.Time // the last try
	retry     bool      // the try takes one of the places of retries
	unsure    bool      // the last try was not confirmed, so news of its node lets it be tried at once
	hung      bool      // the last try hung, so another that hangs says nothing new about its group
	refused   time.Time // when it was last refused
	cancelled error     // why the try in flight is cancelled
	unwanted  bool      // the pod may stay; it is remembered because it is in flight or was refused
}

// Errors that say why an eviction in flight is cancelled.
var (
	ErrWithdrawn = errors.New("the pod need not leave now")
	ErrNoRoom    = errors.New("too many evictions hang, including this one")
)

// Begun reports whether the eviction was tried.
func (e *Eviction) Begun() bool { return !e.began.IsZero() }

// Cancelled returns why the try in flight must be cancelled, or nil.
func (e *Eviction) Cancelled() error { return e.cancelled }

// cancel reports whether the try in flight must be cancelled for a reason that is new to the caller.
func (e *Eviction) cancel(why error) bool {
	if e.cancelled != nil && (errors.Is(why, ErrNoRoom) || errors.Is(e.cancelled, ErrWithdrawn)) {
		return false
	}
	e.cancelled = why
	return true
}

// turn returns the order in which an eviction waits for its turn.
func (e *Eviction) turn() *ordered[*Eviction] {
	if e.Tries > 0 {
		return &e.group.retries
	}
	return &e.group.firsts
}

// Outcome is how a try ended. The zero value is Over.
type Outcome struct {
	kind    kind
	after   time.Duration
	refuser string
}

type kind int

const (
	over kind = iota
	failed
	later
	unsure
	hung
	withdrawn
)

var (
	// Over means that the pod is gone or leaving.
	Over = Outcome{}
	// Withdrawn means that the try was withdrawn before it evicted the pod, which is still there. What earlier tries
	// learned goes on to count.
	Withdrawn = Outcome{kind: withdrawn}
	// Hung means that the try timed out or was cancelled to make room.
	Hung = Outcome{kind: hung}
)

// Failed means that the try was refused or failed in another way, and may be repeated after some time. The refuser is
// what refused it, or empty.
func Failed(after time.Duration, refuser string) Outcome { return Outcome{failed, after, refuser} }

// Later means that the pod cannot be evicted yet. After some time it gets a first try again.
func Later(after time.Duration) Outcome { return Outcome{kind: later, after: after} }

// Unsure means that what is known about the pod or its node is not confirmed yet. It gets a first try again after some
// time, or at once when Set brings news of its node.
func Unsure(after time.Duration) Outcome { return Outcome{kind: unsure, after: after} }
