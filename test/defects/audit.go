// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// call is a call that the API server has answered.
type call = auditlog.Event

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
