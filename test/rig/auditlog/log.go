// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Log is an API server's audit log that is read as it grows; each read reads only new lines. It is safe for concurrent
// use.
type Log struct {
	path string
	kept []Filter

	mu     sync.Mutex
	read   int64 // bytes
	events []Event
}

// New makes a reader of an audit log, from its beginning. It knows only the calls that all the filters want.
func New(path string, wanted ...Filter) *Log { return &Log{path: path, kept: wanted} }

// Events returns every call so far that all the filters want, in the order of the answers.
func (l *Log) Events(wanted ...Filter) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readOn(); err != nil {
		return nil, err
	}
	return Choose(l.events, wanted...), nil
}

// All is [Log.Events] for a test, which fails when the log cannot be read.
func (l *Log) All(t testing.TB, wanted ...Filter) []Event {
	t.Helper()
	found, err := l.Events(wanted...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readOn reads the lines that are new since its last call.
func (l *Log) readOn() error {
	lines, err := Read(l.path, l.read)
	if err != nil {
		return err
	}
	events, err := lines.Events()
	if err != nil {
		return err
	}
	l.read += int64(len(lines))
	l.events = append(l.events, Choose(events, l.kept...)...)
	return nil
}

// Filter wants some calls and not others. [Event.Accepted] and its like serve as well.
type Filter = func(Event) bool

// Choose returns the calls that all the filters want.
func Choose(events []Event, wanted ...Filter) []Event {
	var found []Event
	for _, e := range events {
		if !slices.ContainsFunc(wanted, func(wants Filter) bool { return !wants(e) }) {
			found = append(found, e)
		}
	}
	return found
}

// By wants the calls of a user.
func By(user string) Filter { return func(e Event) bool { return e.User == user } }

// In wants the calls in a namespace. Nodes are in the empty one.
func In(namespace string) Filter { return func(e Event) bool { return e.Namespace == namespace } }

// Named wants the calls about objects with a name.
func Named(name string) Filter { return func(e Event) bool { return e.Name == name } }

// Of wants the calls about exactly this object.
func Of(uid types.UID) Filter { return func(e Event) bool { return e.UID == uid } }

// Since wants the calls that were received at an instant or later.
func Since(at time.Time) Filter { return func(e Event) bool { return !e.Received.Before(at) } }

// Deletes wants the deletes of pods.
func Deletes(e Event) bool { return e.Verb == "delete" && e.Resource == "pods" }

// StatusPatches wants the patches of the status of pods: an eviction begins with one.
func StatusPatches(e Event) bool { return e.Verb == "patch" && e.Resource == "pods/status" }

// Accepted wants the calls that succeeded.
func Accepted(e Event) bool { return e.Accepted() }

// Refused wants the calls that did not.
func Refused(e Event) bool { return !e.Accepted() }
