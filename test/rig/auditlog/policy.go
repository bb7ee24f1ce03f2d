// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import _ "embed" // the policies

// Policy says what an API server notes: a Policy of audit.k8s.io/v1, in YAML.
type Policy string

var (
	// Calls notes one line per finished call on pods, their subresources, nodes and events: who, what, when, with which
	// result, without bodies.
	//
	//go:embed calls.yaml
	Calls Policy
	// Changes notes what tests judge by: every change of pods and nodes with its outcome, and all that Taintkeeper calls.
	//
	//go:embed changes.yaml
	Changes Policy
)
