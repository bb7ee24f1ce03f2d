// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/localcluster"
)

// auditPolicy notes every finished call of Taintkeeper's, those that change a node with what came of it.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  users: ["` + localcluster.TaintkeeperUser + `"]
  verbs: [patch]
  resources: [{group: "", resources: [nodes, nodes/status]}]
- level: Request
  users: ["` + localcluster.TaintkeeperUser + `"]
- level: None
`

// call is a call of Taintkeeper's as the API server saw it.
type call = localcluster.AuditEvent

// auditLog is the API server's audit log. Safe for concurrent use.
type auditLog struct{ *localcluster.AuditLog }

// all returns every finished call so far that all the filters want.
func (a auditLog) all(t *testing.T, wanted ...func(call) bool) []call {
	t.Helper()
	found, err := a.Events(wanted...)
	must(t, err)
	return found
}

// write is a change of a node by Taintkeeper, and the node as it was then.
type write struct {
	call

	node corev1.Node
}

// writes returns all changes of a node so far that were accepted, in order.
func (a auditLog) writes(t *testing.T, node string) []write {
	t.Helper()
	var all []write
	for _, c := range a.all(t, func(c call) bool {
		return c.Verb == "patch" && strings.HasPrefix(c.Resource, "nodes") && c.Name == node && c.Accepted()
	}) {
		w := write{call: c}
		must(t, json.Unmarshal(c.Response, &w.node))
		all = append(all, w)
	}
	return all
}

// ofStatus reports whether the write was one of conditions.
func (w write) ofStatus() bool { return w.Resource == "nodes/status" }

// String says what the node became: silent by a write of its conditions, else its taints.
func (w write) String() string {
	if w.ofStatus() {
		return silent
	}
	return taintsOf(&w.node)
}

// What becomes of a node by a write, as [write.String] says it.
const (
	silent      = "silent"
	untainted   = ""
	unscheduled = "unreachable:NoSchedule"
	unreachable = "unreachable:NoExecute unreachable:NoSchedule"
	notReady    = "not-ready:NoExecute not-ready:NoSchedule"
)

// taintsOf returns the taints of a node in alphabetical order, without the prefix that they have in common.
func taintsOf(node *corev1.Node) string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, strings.TrimPrefix(taint.ToString(), "node.kubernetes.io/"))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// executes reports whether the node has a NoExecute taint.
func executes(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}
