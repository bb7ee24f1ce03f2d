// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import _ "embed" // the policies

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
