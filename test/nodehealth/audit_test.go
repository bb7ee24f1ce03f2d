// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// call is a call of Taintkeeper's as the API server saw it.
type call = auditlog.Event

// write is a change of a node by Taintkeeper, and the node as it was then.
type write struct {
	call

	node corev1.Node
}

// writes returns all changes of a node so far that were accepted, in order.
func writes(t *testing.T, node string) []write {
	t.Helper()
	var all []write
	for _, c := range audit.All(t, auditlog.Accepted, auditlog.Named(node), func(c call) bool {
		return c.Verb == "patch" && strings.HasPrefix(c.Resource, "nodes")
	}) {
		w := write{call: c}
		await.Must(t, json.Unmarshal(c.Response, &w.node))
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
	return strings.Join(bubble.TaintsOf(node), " ")
}

// executes reports whether the node has a NoExecute taint.
func executes(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// checkUsed checks that the rights which only node health has are used, for test/integration, which sees the others
// used.
func checkUsed() error {
	if !suite.Whole() {
		return nil
	}
	calls, err := audit.Events(auditlog.Accepted)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}}
	leases := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease},
		Rules: []rbacv1.PolicyRule{
			{Resources: []string{"leases"}, Verbs: []string{"watch"}}, // an older API server wants lists, too
			{Resources: []string{"leases"}, ResourceNames: []string{nodehealth.OwnLease}, Verbs: []string{"patch"}},
			{Resources: []string{"namespaces"}, ResourceNames: []string{corev1.NamespaceNodeLease}, Verbs: []string{"get"}},
		},
	}
	if unused := auditlog.UnusedRights([]client.Object{role, leases}, calls); len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives node health rights that nothing used: %v", unused)
	}
	return nil
}
