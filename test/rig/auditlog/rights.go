// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/taintkeeper/taintkeeper/config"
)

// Right is what a rule of a role allows: one verb on one resource, with its subresource.
type Right struct {
	Verb, Resource string
	// Namespace is the namespace that it is for; empty means all.
	Namespace string
	// Name is the name of the only object that it is for; empty means all.
	Name string
}

func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// covers reports whether a call needed the right. A create has no name yet.
func (r Right) covers(call Event) bool {
	return r.Verb == call.Verb && r.Resource == call.Resource &&
		(r.Namespace == "" || r.Namespace == call.Namespace) && (r.Name == "" || r.Name == call.Name)
}

// UnusedRights returns the rights that the roles among some objects give and that none of a user's calls used.
func UnusedRights(objects []config.Object, calls []Event) []Right {
	return slices.DeleteFunc(rights(objects), func(right Right) bool { return slices.ContainsFunc(calls, right.covers) })
}

func rights(objects []config.Object) []Right {
	var all []Right
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			all = append(all, rightsOf(role.Rules, "")...)
		case *rbacv1.Role:
			all = append(all, rightsOf(role.Rules, role.Namespace)...)
		}
	}
	return all
}

func rightsOf(rules []rbacv1.PolicyRule, namespace string) []Right {
	var all []Right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Right{Verb: verb, Resource: resource, Namespace: namespace, Name: name})
				}
			}
		}
	}
	return all
}
