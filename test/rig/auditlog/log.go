// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog reads an API server's audit log, and defines what the API server logs: who changed what, when, and
// what the answer was. It is the only record of calls in all tests on a real API server.
package auditlog

import (
	"bytes"
	_ "embed" // the policies
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Policy defines what an API server logs: a Policy of audit.k8s.io/v1, in YAML.
type Policy string

var (
	// Calls logs one line per finished call on pods, their subresources, nodes and events: who, what, when, and the
	// result, without bodies.
	//
	//go:embed calls.yaml
	Calls Policy
	// Changes logs what tests judge by: every change of pods and nodes with its result, and all calls of Taintkeeper.
	//
	//go:embed changes.yaml
	Changes Policy
)

// Users is the group of users all of whose calls [Changes] logs, without bodies.
const Users = "taintkeeper-tests"

// Lines are complete lines of an API server's audit log. It has one for each answered call, in the order of the
// answers.
type Lines []byte

// Event is what a line of the audit log says about a call: the parts of an Event of audit.k8s.io/v1 that tests need.
type Event struct {
	Stage     string
	Verb      string
	User      string
	Resource  string // with its subresource: pods/status
	Namespace string
	Name      string
	Code      int
	Received  time.Time // to the microsecond, as is Answered
	Answered  time.Time

	// UID is the UID that the call was for: the precondition of a delete or an eviction, or else the UID of the object in
	// its body. It is empty if there is none, or if the audit policy's level is less than Request.
	UID types.UID
	// Unread says that the log has no body of the call: it ended before its body was read, in a queue for example, or
	// the policy is without bodies.
	Unread bool
	// Condition is the first condition that the body sets in a status.
	Condition string
	// Response is the object in the answer. It needs the audit policy's level RequestResponse.
	Response json.RawMessage
}

// Accepted reports whether the call succeeded.
func (e Event) Accepted() bool { return e.Code >= 200 && e.Code < 300 }

// Compare orders calls by when they were received.
func (e Event) Compare(other Event) int { return e.Received.Compare(other.Received) }

func (e Event) String() string {
	return fmt.Sprintf("%s %s %s %s/%s of UID %q: %d", e.Received.Format(time.StampMicro), e.Verb, e.Resource, e.Namespace, e.Name, e.UID, e.Code)
}

// Read returns the complete lines of an audit log from the line at a position in bytes on. It leaves out a line that is
// still being written: continue from the position plus the length of what was returned.
func Read(path string, from int64) (Lines, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, from, 1<<62))
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return content[:bytes.LastIndexByte(content, '\n')+1], nil
}

// Events returns what the lines say. A line that is not an event is an error, which shows it.
func (l Lines) Events() ([]Event, error) {
	var events []Event
	for line := range bytes.Lines(l) {
		event, err := parseEvent(line)
		if err != nil {
			return nil, fmt.Errorf("parse a line of the audit log: %w: %q", err, line)
		}
		events = append(events, event)
	}
	return events, nil
}

// body is what a call was sent with: an object, or options with preconditions.
type body struct {
	Metadata      struct{ UID types.UID }
	Preconditions struct{ UID types.UID }
	DeleteOptions struct{ Preconditions struct{ UID types.UID } }
	Status        struct{ Conditions []struct{ Type string } }
}

func parseEvent(line []byte) (Event, error) {
	var e struct {
		Stage, Verb              string
		User                     struct{ Username string }
		ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
		RequestObject            *body
		ResponseObject           json.RawMessage
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	unread := e.RequestObject == nil
	if unread {
		e.RequestObject = &body{}
	}
	event := Event{
		Stage: e.Stage, Verb: e.Verb, User: e.User.Username,
		Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Received: e.RequestReceivedTimestamp, Answered: e.StageTimestamp,
		UID: e.RequestObject.Metadata.UID, Unread: unread, Response: e.ResponseObject,
	}
	if e.ObjectRef.Subresource != "" {
		event.Resource += "/" + e.ObjectRef.Subresource
	}
	switch {
	case e.Verb == "delete":
		event.UID = e.RequestObject.Preconditions.UID
	case e.ObjectRef.Subresource == "eviction":
		event.UID = e.RequestObject.DeleteOptions.Preconditions.UID
	case len(e.RequestObject.Status.Conditions) > 0:
		event.Condition = e.RequestObject.Status.Conditions[0].Type
	}
	return event, nil
}

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

// AcceptedOrUnheard wants the calls that succeeded, and those whose client did not wait for the answer: of 200 deletes
// whose client left within 12 ms, 7 to 16 had removed their pod, and were a 504.
func AcceptedOrUnheard(e Event) bool {
	return e.Accepted() || e.Code == http.StatusGatewayTimeout && !e.Unread
}

// Refused wants the calls that did not succeed.
func Refused(e Event) bool { return !e.Accepted() }
