// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// around reads the policies and, if there are any, what they ask for and is not read otherwise.
func (r *Reader) around(ctx context.Context, wanted Wants) error {
	if err := r.Policies(ctx); err != nil || len(r.Cluster.Policies) == 0 {
		return err
	}
	if !wanted.Scheduling {
		if err := r.Namespaces(ctx); err != nil {
			return err
		}
	}
	if wanted.Budgets {
		return nil
	}
	return r.Budgets(ctx, metav1.NamespaceAll)
}

// Namespaces reads the namespaces, for the labels by which policies select them.
func (r *Reader) Namespaces(ctx context.Context) error {
	list := r.Clients.CoreV1().Namespaces().List
	err := List(ctx, r, "namespaces", list, Keep(&r.Cluster.Namespaces, plan.SlimNamespace))
	return r.without(err, "each EvictionPolicy is taken to select all of them")
}

// Budgets reads the PodDisruptionBudgets of a namespace, or of all.
func (r *Reader) Budgets(ctx context.Context, namespace string) error {
	list := r.Clients.PolicyV1().PodDisruptionBudgets(namespace).List
	err := List(ctx, r, "poddisruptionbudgets", list, Keep(&r.Cluster.Budgets, plan.SlimBudget))
	return r.without(err, "no PodDisruptionBudget is taken into account")
}

// Policies reads the EvictionPolicies. A cluster without the resource has none.
func (r *Reader) Policies(ctx context.Context) error {
	if r.Custom == nil {
		return nil
	}
	const kind = "evictionpolicies"
	var broken error
	list := func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		return r.Custom.Resource(v1alpha1.GroupVersion.WithResource(kind)).List(ctx, options)
	}
	err := List(ctx, r, kind, list, func(object *unstructured.Unstructured) {
		if err := addTo(&r.Cluster.Policies, object, plan.SlimPolicy); err != nil {
			broken = errors.Join(broken, fmt.Errorf("read EvictionPolicy %s: %w", object.GetName(), err))
		}
	})
	if _, absent := errors.AsType[absentError](err); absent {
		return nil
	}
	if err := r.without(err, "no EvictionPolicy is taken into account"); err != nil {
		return err
	}
	return broken
}
