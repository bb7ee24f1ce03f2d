// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// call is a call that the API server has answered.
type call = localcluster.AuditEvent

// audit is the API server's audit log. It has a line for each answered call, in the order of the answers.
type audit struct{ path string }

// calls returns the calls of a user in a namespace so far.
func (a audit) calls(user, namespace string) ([]call, error) {
	lines, err := localcluster.ReadAudit(a.path, 0)
	if err != nil {
		return nil, err
	}
	all, err := lines.Events()
	return slices.DeleteFunc(all, func(c call) bool { return c.User != user || c.Namespace != namespace }), err
}

// podDeletes returns the accepted deletes of pods among some calls.
func podDeletes(calls []call) []call {
	var deletes []call
	for _, c := range calls {
		if c.Verb == "delete" && c.Resource == "pods" && c.Accepted() {
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
