// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// call is a call of our user as the API server saw it.
type call = auditlog.Event

// Filters of calls.

func changesOfPods(c call) bool { return auditlog.Deletes(c) || auditlog.StatusPatches(c) }

func nodePatches(c call) bool { return c.Verb == "patch" && c.Resource == "nodes" }

func nodeReads(c call) bool { return c.Verb == "get" && c.Resource == "nodes" }

func writes(c call) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}
