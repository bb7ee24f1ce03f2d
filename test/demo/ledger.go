// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// call is a call that the API server has answered.
type call = auditlog.Event

// ledger knows from the API server's audit log when what was stored. Nobody, taintkeeper included, can know of a change
// before its call was received, so whatever counts from a change counts from there; a pod has left when the call that
// deleted it was answered. What is due by this reckoning is therefore never due too late, and who left before it left
// too early.
type ledger struct{ *auditlog.Log }

// correct replaces the instants at which pods were seen by those of the API server, where the log has them already.
func (l ledger) correct(seen []sighting) ([]sighting, error) {
	calls, err := l.Events(auditlog.Accepted, ofPods)
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
	calls, err := l.Events(auditlog.Accepted, ofNodes, auditlog.Since(since))
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

// ofPods wants the calls that say which pod they are about: a name can come again.
func ofPods(c call) bool {
	return (c.Resource == "pods" || c.Resource == "pods/binding") && c.UID != ""
}

// ofNodes wants the calls that change nodes. What taintkeeper reads is in the log, too, without the answer.
func ofNodes(c call) bool {
	ofNode := c.Resource == "nodes" || c.Resource == "nodes/status"
	return ofNode && !slices.Contains([]string{"get", "list", "watch"}, c.Verb)
}
