// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// auditPolicy notes what the demo judges by: bindings and deletes of pods with their UIDs, and nodes as they are after
// each change. Of the status of nodes, which kwok renews all the time, it notes what taintkeeper writes.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [pods/binding]}]
- level: Request
  verbs: [delete]
  resources: [{group: "", resources: [pods]}]
- level: RequestResponse
  verbs: [update, patch]
  resources: [{group: "", resources: [nodes]}]
- level: RequestResponse
  users: ["` + localcluster.TaintkeeperUser + `"]
  verbs: [update, patch]
  resources: [{group: "", resources: [nodes/status]}]
- level: None
`

// writeAuditPolicy makes the file of the policy.
func writeAuditPolicy(path string) error {
	if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	return nil
}

// call is a call that the API server has answered.
type call = localcluster.AuditEvent

// ledger knows from the API server's audit log when what was stored. Nobody, taintkeeper included, can know of a change
// before its call was received, so whatever counts from a change counts from there; a pod has left when the call that deleted
// it was answered. What is due by this reckoning is therefore never due too late, and who left before it left too early.
type ledger struct{ *localcluster.AuditLog }

// correct replaces the instants at which pods were seen by those of the API server, where the log has them already.
func (l ledger) correct(seen []sighting) ([]sighting, error) {
	calls, err := l.Events(accepted, ofPods)
	if err != nil {
		return nil, err
	}
	bound, left := podInstants(calls)
	for i, s := range seen {
		seen[i] = s.corrected(bound[s.pod.UID], left[s.pod.UID])
	}
	return seen, nil
}

// podInstants returns when pods were bound, and when they were first deleted.
func podInstants(calls []call) (bound, left map[types.UID]time.Time) {
	bound, left = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	for _, c := range calls {
		switch {
		case c.Verb == "create" && c.Resource == "pods/binding":
			bound[c.UID] = c.Received
		case c.Verb == "delete" && left[c.UID].IsZero():
			left[c.UID] = c.Answered
		}
	}
	return bound, left
}

// change is a node after a change of it.
type change struct {
	node *corev1.Node
	at   between
}

// changes returns the changes of nodes since an instant, but for the first so many, in the order of the answers.
func (l ledger) changes(since time.Time, but int) ([]change, error) {
	calls, err := l.Events(accepted, ofNodes, func(c call) bool { return !c.Received.Before(since) })
	if err != nil {
		return nil, err
	}
	var all []change
	for _, c := range calls[but:] {
		node := &corev1.Node{}
		if err := json.Unmarshal(c.Response, node); err != nil {
			return nil, fmt.Errorf("read node %s in the audit log: %w", c.Name, err)
		}
		all = append(all, change{node, between{after: c.Received, before: c.Answered}})
	}
	return all, nil
}

func accepted(c call) bool { return c.Accepted() }

// ofPods wants the calls that say which pod they are about: a name can come again.
func ofPods(c call) bool {
	return (c.Resource == "pods" || c.Resource == "pods/binding") && c.UID != ""
}

func ofNodes(c call) bool { return c.Resource == "nodes" || c.Resource == "nodes/status" }
