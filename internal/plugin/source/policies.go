// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// EvictionPolicies is the resource of EvictionPolicies.
var EvictionPolicies = v1alpha1.GroupVersion.WithResource(state.Policies.Resource)

// Policies reads the EvictionPolicies. A cluster that does not serve the resource has none.
func (r *Reader) Policies(ctx context.Context) error {
	var broken error
	list := r.Dynamic.Resource(EvictionPolicies).List
	err := List(ctx, r, EvictionPolicies.Resource, list, func(object *unstructured.Unstructured) {
		policy, err := PolicyOf(object)
		if err != nil {
			broken = errors.Join(broken, err)
			return
		}
		state.Policies.Add(r.Cluster, policy)
	})
	if _, absent := errors.AsType[absentError](err); absent {
		return nil
	}
	return errors.Join(broken, r.without(err, "EvictionPolicies are not taken into account"))
}

// Objections reads the policies and, if there are any, the objects that they need: the namespaces, and the budgets of
// one namespace or of all.
func (r *Reader) Objections(ctx context.Context, namespace string) error {
	if err := r.Policies(ctx); err != nil || len(r.Cluster.Policies) == 0 {
		return err
	}
	if err := r.Namespaces(ctx); err != nil {
		return err
	}
	return r.Budgets(ctx, namespace)
}

// policiesEvery is how often FollowPolicies reads.
const policiesEvery = 5 * time.Second

// FollowPolicies reads the policies, the objects that they need, and whether Taintkeeper evicts, repeatedly until the
// context ends. It calls tell after each time.
func (r *Reader) FollowPolicies(ctx context.Context, namespace string, tell func(*state.Cluster, error)) {
	tick := time.NewTicker(policiesEvery)
	defer tick.Stop()
	for {
		fresh := *r
		fresh.Cluster = &state.Cluster{}
		reading, cancel := context.WithTimeout(ctx, Patience)
		err := fresh.Objections(reading, namespace)
		if err == nil {
			err = fresh.FindEvictor(reading)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		tell(fresh.Cluster, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// PolicyOf converts an object to an EvictionPolicy.
func PolicyOf(object *unstructured.Unstructured) (*v1alpha1.EvictionPolicy, error) {
	policy := &v1alpha1.EvictionPolicy{}
	if err := convert(object.Object, policy); err != nil {
		return nil, fmt.Errorf("read EvictionPolicy %s: %w", object.GetName(), err)
	}
	return policy, nil
}

// unknownNamespaces says what it means for policies if namespaces are not known.
const unknownNamespaces = "the command assumes that each EvictionPolicy selects all of them"

// Namespaces reads the namespaces, because policies select them by label.
func (r *Reader) Namespaces(ctx context.Context) error {
	return r.namespaces(ctx, unknownNamespaces)
}

func (r *Reader) namespaces(ctx context.Context, follows string) error {
	return r.without(r.ListKind(ctx, state.Namespaces, metav1.NamespaceAll), follows)
}

// Budgets reads the PodDisruptionBudgets of a namespace, or of all namespaces.
func (r *Reader) Budgets(ctx context.Context, namespace string) error {
	err := r.ListKind(ctx, state.Budgets, namespace)
	return r.without(err, "PodDisruptionBudgets are not taken into account")
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

// selectNamespaces reports whether any policy selects namespaces.
func selectNamespaces(policies []*v1alpha1.EvictionPolicy) bool {
	return slices.ContainsFunc(policies, func(policy *v1alpha1.EvictionPolicy) bool {
		return policy.Spec.NamespaceSelector != nil
	})
}

// holdWhenDown reports whether any policy should hold pods while Taintkeeper is not running.
func holdWhenDown(policies []*v1alpha1.EvictionPolicy) bool {
	return slices.ContainsFunc(policies, func(policy *v1alpha1.EvictionPolicy) bool {
		return policy.Spec.IfDown == v1alpha1.IfDownHold
	})
}

// ListPolicies returns the complete EvictionPolicies. It returns an error if the cluster does not serve the resource.
func (r *Reader) ListPolicies(ctx context.Context) ([]*v1alpha1.EvictionPolicy, error) {
	list, err := r.Dynamic.Resource(EvictionPolicies).List(ctx, metav1.ListOptions{})
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
