// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
	// Response is the object in the answer. It needs the audit policy's level RequestResponse.
	Response json.RawMessage
}

// Accepted reports whether the call succeeded.
func (e Event) Accepted() bool { return e.Code >= 200 && e.Code < 300 }

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

func parseEvent(line []byte) (Event, error) {
	var e struct {
		Stage, Verb              string
		User                     struct{ Username string }
		ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
		RequestObject            struct {
			Metadata      struct{ UID types.UID }
			Preconditions struct{ UID types.UID }
			DeleteOptions struct{ Preconditions struct{ UID types.UID } }
		}
		ResponseObject json.RawMessage
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	event := Event{
		Stage: e.Stage, Verb: e.Verb, User: e.User.Username,
		Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Received: e.RequestReceivedTimestamp, Answered: e.StageTimestamp,
		UID: e.RequestObject.Metadata.UID, Response: e.ResponseObject,
	}
	if e.ObjectRef.Subresource != "" {
		event.Resource += "/" + e.ObjectRef.Subresource
	}
	switch {
	case e.Verb == "delete":
		event.UID = e.RequestObject.Preconditions.UID
	case e.ObjectRef.Subresource == "eviction":
		event.UID = e.RequestObject.DeleteOptions.Preconditions.UID
	}
	return event, nil
}
