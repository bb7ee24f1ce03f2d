// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// call is a call that the API server has answered.
type call struct {
	User      string
	Verb      string
	Resource  string // with its subresource: pods/status
	Namespace string
	Name      string
	Code      int
	Answered  time.Time // to the microsecond
}

func (c call) accepted() bool { return c.Code >= 200 && c.Code < 300 }

func (c call) deletesPod() bool { return c.Verb == "delete" && c.Resource == "pods" && c.accepted() }

// audit is the API server's audit log. It has a line for each answered call, in the order of the answers.
type audit struct{ path string }

// calls returns the calls of a user in a namespace so far.
func (a audit) calls(user, namespace string) ([]call, error) {
	all, err := a.read()
	return slices.DeleteFunc(all, func(c call) bool { return c.User != user || c.Namespace != namespace }), err
}

func (a audit) read() ([]call, error) {
	content, err := os.ReadFile(a.path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var calls []call
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is not complete yet
		}
		c, err := parseCall(line)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func parseCall(line []byte) (call, error) {
	var event struct {
		Verb           string
		User           struct{ Username string }
		ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus struct{ Code int }
		StageTimestamp time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return call{}, fmt.Errorf("understand a line of the audit log: %w", err)
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return call{
		User: event.User.Username, Verb: event.Verb, Resource: resource,
		Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
		Code: event.ResponseStatus.Code, Answered: event.StageTimestamp,
	}, nil
}

// podDeletes returns the accepted deletes of pods among some calls.
func podDeletes(calls []call) []call {
	var deletes []call
	for _, c := range calls {
		if c.deletesPod() {
			deletes = append(deletes, c)
		}
	}
	return deletes
}

// since returns those calls that were answered after an instant.
func since(calls []call, at time.Time) []call {
	var later []call
	for _, c := range calls {
		if c.Answered.After(at) {
			later = append(later, c)
		}
	}
	return later
}
