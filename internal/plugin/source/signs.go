// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// signs reads what shows which controllers evict and taint. It notes what the user may not read, which is then unknown.
func (r *Reader) signs(ctx context.Context, wanted Wants) error {
	if !wanted.Signs {
		return nil
	}
	for _, read := range []func(context.Context) error{r.leases, r.evictionClocks, r.evictions, r.holders} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leases reads the Leases of both programs' leaders, and the Lease of node health.
func (r *Reader) leases(ctx context.Context) error {
	var refused error
	for _, read := range []func() error{
		func() error { return r.taintkeeper(ctx) },
		func() error { return r.nodeHealthLease(ctx) },
		func() error { return r.builtInLease(ctx) },
	} {
		err := read()
		if err != nil && !IsUnreadable(err) {
			return err
		}
		refused = cmp.Or(refused, err)
	}
	r.Cluster.Signs.LeasesKnown = refused == nil
	return r.without(refused, "they cannot show which controllers are running")
}

// builtInLease reads the Lease of kube-controller-manager's leader, which flags of its pods can name.
func (r *Reader) builtInLease(ctx context.Context) error {
	name, namespace := builtin.Election(r.Cluster.Pods)
	homes := func(context.Context) []string { return []string{cmp.Or(namespace, metav1.NamespaceSystem)} }
	return r.lease(ctx, name, homes)
}

// taintkeeper reads the Lease of Taintkeeper's leader. If nobody holds one with the usual name, it may have another,
// and a label.
func (r *Reader) taintkeeper(ctx context.Context) error {
	if err := r.lease(ctx, v1alpha1.ElectionLease, r.homes); err != nil || r.leads() {
		return err
	}
	all := r.Clients.CoordinationV1().Leases(metav1.NamespaceAll)
	err := List(ctx, r, "leases", selected(all.List), r.Cluster.Signs.AddLease)
	if IsUnreadable(err) {
		return nil // the one with the usual name could be read
	}
	return err
}

// selected lists only what has Taintkeeper's label.
func selected[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
) func(context.Context, metav1.ListOptions) (L, error) {
	return func(ctx context.Context, options metav1.ListOptions) (L, error) {
		options.LabelSelector = v1alpha1.SelectTaintkeeper().String()
		return list(ctx, options)
	}
}

func (r *Reader) nodeHealthLease(ctx context.Context) error {
	ofNodes := r.Clients.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := ofNodes.Get(ctx, v1alpha1.NodeHealthLease, metav1.GetOptions{})
	switch {
	case err == nil:
		r.Cluster.Signs.AddLease(lease)
	case !apierrors.IsNotFound(err):
		return Failed(ctx, r.Server, "get", "leases", err)
	}
	return nil
}

// lease reads the Leases with a name in all namespaces, or else where they are expected. A control plane outside the
// cluster may have none here.
func (r *Reader) lease(ctx context.Context, name string, homes func(context.Context) []string) error {
	coordination := r.Clients.CoordinationV1()
	get := func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
		return coordination.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return named(ctx, r, "leases", name, coordination.Leases(metav1.NamespaceAll).List, homes, get, func(lease *coordinationv1.Lease) {
		if lease.Name == name {
			r.Cluster.Signs.AddLease(lease)
		}
	})
}

// Who says which controllers evict pods and taint nodes now. It reads what shows that, and uses the nodes and pods that
// were read before.
func (r *Reader) Who(ctx context.Context) (*who.Answer, error) {
	fresh := *r
	fresh.Cluster = &state.Cluster{Nodes: r.Cluster.Nodes, Pods: r.Cluster.Pods}
	for _, read := range []func(context.Context) error{fresh.leases, fresh.evictionClocks, fresh.evictions} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return who.Ask(fresh.Cluster, r.Clock.Latest()), nil
}

// homes returns the namespaces in which Taintkeeper's Lease and eviction clock may be: those that the bindings of its
// admission policy name, or else kube-system. A binding may be left over from a release that was uninstalled.
func (r *Reader) homes(ctx context.Context) []string {
	admission := r.Clients.AdmissionregistrationV1()
	bindings, err := admission.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{metav1.NamespaceSystem}
	}
	var homes []string
	for i := range bindings.Items {
		if param := bindings.Items[i].Spec.ParamRef; param != nil && param.Name == v1alpha1.EvictionClock {
			homes = append(homes, param.Namespace)
		}
	}
	if len(homes) == 0 {
		return []string{metav1.NamespaceSystem}
	}
	return homes
}

func (r *Reader) evictionClocks(ctx context.Context) error {
	core := r.Clients.CoreV1()
	get := func(ctx context.Context, namespace string) (*corev1.ServiceAccount, error) {
		return core.ServiceAccounts(namespace).Get(ctx, v1alpha1.EvictionClock, metav1.GetOptions{})
	}
	all := core.ServiceAccounts(metav1.NamespaceAll)
	err := named(ctx, r, "serviceaccounts", v1alpha1.EvictionClock, all.List, r.homes, get, r.Cluster.Signs.AddEvictionClock)
	r.Cluster.Signs.EvictionClocksKnown = err == nil
	return r.without(err, "the eviction clock of Taintkeeper is not known")
}

func (r *Reader) evictions(ctx context.Context) error {
	ofEvictions := fields.OneTermEqualSelector("reason", v1alpha1.EventEviction)
	all := r.Clients.CoreV1().Events(metav1.NamespaceAll)
	err := listSome(ctx, r, "events", ofEvictions, all.List, r.Cluster.Signs.AddEvent)
	return r.without(err, "they cannot show who evicted")
}

// named reads the objects with a name in all namespaces. If they may not be listed, it gets them in the namespaces
// where they are expected.
func named[L runtime.Object, T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, r *Reader, kind, name string,
	list func(context.Context, metav1.ListOptions) (L, error),
	homes func(context.Context) []string,
	get func(ctx context.Context, namespace string) (P, error), each func(P)) error {
	ofName := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	err := listSome(ctx, r, kind, ofName, list, func(object *T) { each(object) })
	if _, denied := errors.AsType[DeniedError](err); !denied {
		return err
	}
	found, known := false, true
	for _, namespace := range homes(ctx) {
		object, getErr := get(ctx, namespace)
		if getErr == nil {
			each(object)
			found = true
		} else if !apierrors.IsNotFound(getErr) {
			known = false
		}
	}
	if found && known {
		return nil
	}
	return err // there may be others
}
