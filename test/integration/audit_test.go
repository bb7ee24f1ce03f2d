// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// auditPolicy notes every finished call of our user, with the body that it sent: a delete's UID
// precondition is there.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Request
  users: ["` + user + `"]
- level: None
`

// call is a call of our user as the API server saw it.
type call = localcluster.AuditEvent

// auditLog is the API server's audit log. Safe for concurrent use.
type auditLog struct{ *localcluster.AuditLog }

// all returns every finished call of our user so far that all the filters want.
func (a auditLog) all(t *testing.T, wanted ...func(call) bool) []call {
	t.Helper()
	found, err := a.Events(wanted...)
	must(t, err)
	return found
}

// Filters of calls.

func deletes(c call) bool { return c.Verb == "delete" && c.Resource == "pods" }

func statusPatches(c call) bool { return c.Verb == "patch" && c.Resource == "pods/status" }

func changesOfPods(c call) bool { return deletes(c) || statusPatches(c) }

func nodePatches(c call) bool { return c.Verb == "patch" && c.Resource == "nodes" }

func nodeReads(c call) bool { return c.Verb == "get" && c.Resource == "nodes" }

func writes(c call) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}

func accepted(c call) bool { return c.Accepted() }

func refusals(c call) bool { return !c.Accepted() }

func named(name string) func(call) bool {
	return func(c call) bool { return c.Name == name }
}

func in(namespace string) func(call) bool {
	return func(c call) bool { return c.Namespace == namespace }
}

func of(uid types.UID) func(call) bool {
	return func(c call) bool { return c.UID == uid }
}

func since(at time.Time) func(call) bool {
	return func(c call) bool { return !c.Received.Before(at) }
}
