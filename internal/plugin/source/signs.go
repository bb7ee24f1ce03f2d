// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return r.Without(refused, "they cannot show which controllers are running")
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

// Signs reads what shows now which controllers evict pods. It keeps the nodes and pods that were read before.
func (r *Reader) Signs(ctx context.Context) (*state.Cluster, error) {
	fresh := *r
	fresh.Cluster = &state.Cluster{Nodes: r.Cluster.Nodes, Pods: r.Cluster.Pods}
	for _, read := range []func(context.Context) error{fresh.leases, fresh.evictionClocks, fresh.evictions} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	fresh.Cluster.Signs.At = r.Clock.Latest()
	return fresh.Cluster, nil
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
	return r.Without(err, "the eviction clock of Taintkeeper is not known")
}

func (r *Reader) evictions(ctx context.Context) error {
	err := r.within(metav1.NamespaceAll, func(namespace string) error { return r.Past(ctx, namespace, "") })
	return r.Without(err, "they cannot show who evicted")
}

// Past reads the events of evictions, in one namespace or all, of all pods or of those with one name.
func (r *Reader) Past(ctx context.Context, namespace, pod string) error {
	which := fields.OneTermEqualSelector("reason", v1alpha1.EventEviction)
	if pod != "" {
		which = fields.AndSelectors(which, fields.OneTermEqualSelector("involvedObject.name", pod))
	}
	return listSome(ctx, r, "events", which, r.Clients.CoreV1().Events(namespace).List, r.Cluster.Signs.AddEvent)
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

// evictor finds out who evicts pods, if that is wanted.
func (r *Reader) evictor(ctx context.Context, wanted Wants) error {
	if !wanted.Evictor {
		return nil
	}
	return r.FindEvictor(ctx)
}

// health reads the state of Taintkeeper: its Lease, its eviction clock, its report in shadow mode, and its recent
// failures.
func (r *Reader) health(ctx context.Context, wanted Wants) error {
	if !wanted.Health {
		return nil
	}
	if err := r.Without(r.election(ctx), "they cannot show whether Taintkeeper is running"); err != nil {
		return err
	}
	for _, read := range []func(context.Context) error{r.evictionClocks, r.shadow} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	for _, reason := range v1alpha1.FailureEvents() {
		all := r.Clients.CoreV1().Events(metav1.NamespaceAll)
		which := fields.OneTermEqualSelector("reason", reason)
		err := listSome(ctx, r, "events", which, all.List, r.Cluster.Signs.AddFailure)
		if r.Cluster.Signs.FailuresKnown = err == nil; IsUnreadable(err) {
			return r.Without(err, "the last error of Taintkeeper is not known")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shadow reads the report of shadow mode.
func (r *Reader) shadow(ctx context.Context) error {
	core := r.Clients.CoreV1()
	get := func(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
		return core.ConfigMaps(namespace).Get(ctx, v1alpha1.ShadowConfigMap, metav1.GetOptions{})
	}
	all := core.ConfigMaps(metav1.NamespaceAll)
	err := named(ctx, r, "configmaps", v1alpha1.ShadowConfigMap, all.List, r.homes, get, func(object *corev1.ConfigMap) {
		if err := r.Cluster.Signs.AddShadow(object); err != nil {
			r.Cluster.Unknown = append(r.Cluster.Unknown, state.Unknown{Says: err.Error() + "."})
		}
	})
	return r.Without(err, "the report of shadow mode is not known")
}

// election reads the Lease of Taintkeeper's leader. Without one, the Lease of node health may show that it runs.
func (r *Reader) election(ctx context.Context) error {
	err := r.taintkeeper(ctx)
	if err == nil && !r.leads() {
		if err := r.nodeHealthLease(ctx); err != nil && !IsUnreadable(err) {
			return err
		}
	}
	r.Cluster.Signs.LeasesKnown = err == nil
	return err
}

// leads reports whether a leader of Taintkeeper holds a Lease that was read.
func (r *Reader) leads() bool {
	return slices.ContainsFunc(r.Cluster.Signs.Leases, func(lease *coordinationv1.Lease) bool {
		return state.ElectsTaintkeeper(lease) && state.IsHeld(lease, r.Clock.Latest())
	})
}

// FindEvictor finds out who evicts pods. If no leader of Taintkeeper says that it does, it reads what else shows who
// does: pods of both programs, the eviction clock, other Leases and the events of evictions.
func (r *Reader) FindEvictor(ctx context.Context) error {
	fresh := *r
	fresh.Cluster = &state.Cluster{}
	err := fresh.taintkeeper(ctx)
	if err != nil && !IsUnreadable(err) {
		return err
	}
	fresh.Cluster.Signs.LeasesKnown = err == nil
	if !fresh.leads() {
		if err := fresh.lookCloser(ctx); err != nil {
			return err
		}
	}
	known := who.Ask(fresh.Cluster, r.Clock.Latest())
	if known.Eviction.Taintkeeper.State != who.Running {
		fresh.Cluster.Pods = slices.Concat(fresh.Cluster.Pods, r.Cluster.Pods)
		if err := fresh.builtIn(ctx); err != nil {
			return err
		}
		known = who.Ask(fresh.Cluster, r.Clock.Latest())
	}
	r.Cluster.Evictor = known.Evictor(len(r.Cluster.Policies))
	return nil
}

// lookCloser reads Taintkeeper's pods and its eviction clock. If the pods may not be read, the Leases do not show that
// it is not running.
func (r *Reader) lookCloser(ctx context.Context) error {
	err := r.podsWith(ctx, v1alpha1.SelectTaintkeeper().String())
	if err != nil && !IsUnreadable(err) {
		return err
	}
	r.Cluster.Signs.LeasesKnown = r.Cluster.Signs.LeasesKnown && err == nil
	return r.evictionClocks(ctx)
}

// builtIn reads what shows whether kube-controller-manager evicts: the command lines of its pods, its Lease, and the
// events of evictions. What may not be read shows nothing.
func (r *Reader) builtIn(ctx context.Context) error {
	err := r.podsWith(ctx, "component="+builtin.Program) // as kubeadm labels them
	if err != nil && !IsUnreadable(err) {
		return err
	}
	if err := r.builtInLease(ctx); err != nil && !IsUnreadable(err) {
		return err
	}
	return r.evictions(ctx)
}

// podsWith reads the pods with a label.
func (r *Reader) podsWith(ctx context.Context, label string) error {
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		options.LabelSelector = label
		return r.Clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
	}
	return List(ctx, r, "pods", list, func(pod *corev1.Pod) { state.Pods.Add(r.Cluster, pod) })
}

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
	return errors.Join(broken, r.Without(err, "EvictionPolicies are not taken into account"))
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
	return r.Without(r.ListKind(ctx, state.Namespaces, metav1.NamespaceAll), follows)
}

// Budgets reads the PodDisruptionBudgets of a namespace, or of all namespaces.
func (r *Reader) Budgets(ctx context.Context, namespace string) error {
	err := r.ListKind(ctx, state.Budgets, namespace)
	return r.Without(err, "PodDisruptionBudgets are not taken into account")
}

// holders reads the admission policies that EvictionPolicies with ifDown: Hold need.
func (r *Reader) holders(ctx context.Context) error {
	if !holdWhenDown(r.Cluster.Policies) {
		return nil
	}
	all := r.Clients.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	err := List(ctx, r, "validatingadmissionpolicies", all.List, r.Cluster.Signs.AddHolder)
	r.Cluster.Signs.HoldersKnown = err == nil
	return r.Without(err, "it is not known whether ifDown: Hold has an effect")
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
