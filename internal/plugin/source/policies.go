// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// EvictionPolicies is the resource of EvictionPolicies.
var EvictionPolicies = v1alpha1.GroupVersion.WithResource("evictionpolicies")

var policyKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "EvictionPolicy"}

// policies reads the EvictionPolicies, what they select by, and what some of them need. A cluster without the resource
// has none.
func (r *Reader) policies(ctx context.Context) error {
	var broken error
	err := List(ctx, r, EvictionPolicies.Resource, r.Dynamic.Resource(EvictionPolicies).List,
		func(object *unstructured.Unstructured) {
			policy, err := PolicyOf(object)
			if err != nil {
				broken = err
				return
			}
			r.Cluster.Policies = append(r.Cluster.Policies, plan.SlimPolicy(policy))
		})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case broken != nil:
		return broken
	case err != nil:
		return r.without(err, "no EvictionPolicy is taken into account")
	}
	if len(r.Cluster.Namespaces) == 0 && selectNamespaces(r.Cluster.Policies) {
		namespaces := r.Clients.CoreV1().Namespaces()
		err := List(ctx, r, "namespaces", namespaces.List, Keep(&r.Cluster.Namespaces, plan.SlimNamespace))
		if err := r.without(err, "it is not known which ones EvictionPolicies select"); err != nil {
			return err
		}
	}
	return r.holders(ctx)
}

// holders reads the admission policies that EvictionPolicies with ifDown: Hold need.
func (r *Reader) holders(ctx context.Context) error {
	if !holdWhenDown(r.Cluster.Policies) {
		return nil
	}
	all := r.Clients.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	err := List(ctx, r, "validatingadmissionpolicies", all.List, r.Cluster.Signs.AddHolder)
	r.Cluster.Signs.HoldersKnown = err == nil
	return r.without(err, "it is not known whether ifDown: Hold has an effect")
}

// PolicyOf returns an EvictionPolicy as its type.
func PolicyOf(object *unstructured.Unstructured) (*v1alpha1.EvictionPolicy, error) {
	policy := &v1alpha1.EvictionPolicy{}
	if err := convert(object.Object, policy); err != nil {
		return nil, fmt.Errorf("read EvictionPolicy %s: %w", object.GetName(), err)
	}
	return policy, nil
}

// selectNamespaces reports whether some policy selects namespaces.
func selectNamespaces(policies []*v1alpha1.EvictionPolicy) bool {
	return slices.ContainsFunc(policies, func(policy *v1alpha1.EvictionPolicy) bool {
		return policy.Spec.NamespaceSelector != nil
	})
}

// holdWhenDown reports whether some policy is to hold pods while Taintkeeper does not run.
func holdWhenDown(policies []*v1alpha1.EvictionPolicy) bool {
	return slices.ContainsFunc(policies, func(policy *v1alpha1.EvictionPolicy) bool {
		return policy.Spec.IfDown == v1alpha1.IfDownHold
	})
}

// ListPolicies returns the EvictionPolicies that have some labels.
func (r *Reader) ListPolicies(ctx context.Context, options metav1.ListOptions) ([]*v1alpha1.EvictionPolicy, error) {
	list, err := r.Dynamic.Resource(EvictionPolicies).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var all []*v1alpha1.EvictionPolicy
	for i := range list.Items {
		policy, err := PolicyOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, policy)
	}
	return all, nil
}
