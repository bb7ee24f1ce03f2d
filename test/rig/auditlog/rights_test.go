// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/config"
)

func TestARightIsUsedByACallThatNeedsIt(t *testing.T) {
	objects := []config.Object{
		&rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Resources: []string{"pods", "pods/status"}, Verbs: []string{"get", "patch"}}}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Rules: []rbacv1.PolicyRule{
			{Resources: []string{"leases"}, ResourceNames: []string{"ours"}, Verbs: []string{"get", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{},
	}
	calls := []Event{
		{Verb: "get", Resource: "pods", Namespace: "anywhere", Name: "a"},
		{Verb: "patch", Resource: "pods/status", Namespace: "anywhere", Name: "a"},
		{Verb: "get", Resource: "leases", Namespace: "n", Name: "ours"},
		{Verb: "update", Resource: "leases", Namespace: "n", Name: "theirs"},
		{Verb: "update", Resource: "leases", Namespace: "elsewhere", Name: "ours"},
	}
	const want = "[patch pods get pods/status update leases/ours in n]"
	if got := fmt.Sprint(UnusedRights(objects, calls)); got != want {
		t.Errorf("unused are %s, want %s", got, want)
	}
}
