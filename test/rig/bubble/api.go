// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// API adds to client-go's fake clientset what it lacks compared with an API server: each change makes a
// resourceVersion, a write that names another version or another UID is refused, an apply creates missing objects, and
// watches continue from a version. It is safe for concurrent use.
type API struct {
	clienttesting.ObjectTracker // the clientset's own

	// Changed, unless nil, is told of each change before the watches are.
	Changed func(watch.EventType, runtime.Object)

	version atomic.Int64
	nodes   Watches
	pods    Watches
	leases  Watches
	others  Watches // are told, and nothing disturbs them
}

// NewAPI makes an API server of a clientset, which keeps its objects.
func NewAPI(client *fake.Clientset) *API {
	a := &API{ObjectTracker: client.Tracker()}
	client.PrependReactor("*", "*", a.React)
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if action, ok := action.(clienttesting.WatchActionImpl); ok {
			options = action.ListOptions
		}
		stream, err := a.Watch(action.GetResource(), action.GetNamespace(), options)
		return true, stream, err
	})
	return a
}

// React answers a call, but not a watch.
func (a *API) React(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "list" && a.Watches(action.GetResource().Resource).IsBroken() {
		return true, nil, &apierrors.StatusError{ErrStatus: *Expired()}
	}
	patch, ok := action.(clienttesting.PatchActionImpl)
	if ok && patch.PatchType == types.ApplyPatchType && patch.Resource.Resource == "leases" {
		lease, err := a.applyLease(patch)
		return true, lease, err
	}
	return clienttesting.ObjectReaction(a)(action)
}

// applyLease merges a lease into the stored one, or creates it. client-go's fake goes through YAML and a strategic
// merge for that, which takes half the time of tests in which our own lease is renewed each second.
func (a *API) applyLease(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	lease := &coordinationv1.Lease{}
	stored, err := a.Get(action.Resource, action.Namespace, action.Name)
	known := !apierrors.IsNotFound(err)
	switch {
	case known && err != nil:
		return nil, err
	case known:
		lease = stored.(*coordinationv1.Lease)
	}
	if err := json.Unmarshal(action.Patch, lease); err != nil {
		return nil, err
	}
	if !known {
		return lease, a.Create(action.Resource, lease, action.Namespace)
	}
	return lease, a.Update(action.Resource, lease, action.Namespace)
}

// Watches returns the watches of a resource, which tests disturb.
func (a *API) Watches(resource string) *Watches {
	switch resource {
	case "nodes":
		return &a.nodes
	case "pods":
		return &a.pods
	case "leases":
		return &a.leases
	}
	return &a.others
}

// RestoreTo makes later writes get the versions after the given one, as when etcd was restored from a snapshot. The
// test itself writes the restored objects.
func (a *API) RestoreTo(version int64) {
	a.version.Store(version)
	for _, watches := range []*Watches{&a.nodes, &a.pods, &a.leases, &a.others} {
		watches.forget()
	}
}

// Create implements clienttesting.ObjectTracker.
func (a *API) Create(gvr schema.GroupVersionResource, object runtime.Object, namespace string,
	options ...metav1.CreateOptions,
) error {
	if created := object.(metav1.Object); created.GetNamespace() == "" {
		created.SetNamespace(namespace)
	}
	a.setNextVersion(object)
	if err := a.ObjectTracker.Create(gvr, object, namespace, options...); err != nil {
		return err
	}
	a.tell(gvr, watch.Added, object)
	return nil
}

// Update implements clienttesting.ObjectTracker.
func (a *API) Update(gvr schema.GroupVersionResource, object runtime.Object, namespace string,
	options ...metav1.UpdateOptions,
) error {
	return a.put(gvr, object, namespace, func() error {
		return a.ObjectTracker.Update(gvr, object, namespace, options...)
	})
}

// Patch implements clienttesting.ObjectTracker. The version and the UID that the object then has are those that the
// patch names, if it does.
func (a *API) Patch(gvr schema.GroupVersionResource, object runtime.Object, namespace string,
	options ...metav1.PatchOptions,
) error {
	return a.put(gvr, object, namespace, func() error {
		return a.ObjectTracker.Patch(gvr, object, namespace, options...)
	})
}

// put replaces a stored object, if it is the version that the client says it has seen. The client need not say so.
func (a *API) put(gvr schema.GroupVersionResource, object runtime.Object, namespace string, keep func() error) error {
	said := object.(metav1.Object)
	stored, err := a.Get(gvr, namespace, said.GetName())
	if err != nil {
		return err
	}
	if err := refuse(gvr, stored.(metav1.Object), said.GetUID(), said.GetResourceVersion()); err != nil {
		return err
	}
	a.setNextVersion(object)
	if err := keep(); err != nil {
		return err
	}
	a.tell(gvr, watch.Modified, object)
	return nil
}

// refuse refuses a write that is about an object other than the stored one, or about another version of it.
func refuse[UID ~string](gvr schema.GroupVersionResource, stored metav1.Object, uid UID, version string) error {
	if uid != "" && string(uid) != string(stored.GetUID()) {
		return apierrors.NewConflict(gvr.GroupResource(), stored.GetName(),
			errors.New("the UID in the precondition does not match"))
	}
	if version != "" && version != stored.GetResourceVersion() {
		return apierrors.NewConflict(gvr.GroupResource(), stored.GetName(), errors.New("the object has been modified"))
	}
	return nil
}

// Refuse refuses a delete that is about an object other than the stored one.
func Refuse(gvr schema.GroupVersionResource, stored metav1.Object, asked metav1.DeleteOptions) error {
	if asked.Preconditions == nil || asked.Preconditions.UID == nil {
		return nil
	}
	return refuse(gvr, stored, *asked.Preconditions.UID, "")
}

// Apply implements clienttesting.ObjectTracker.
func (a *API) Apply(gvr schema.GroupVersionResource, applied runtime.Object, namespace string,
	options ...metav1.PatchOptions,
) error {
	name := applied.(metav1.Object).GetName()
	if _, err := a.Get(gvr, namespace, name); apierrors.IsNotFound(err) {
		object, err := scheme.Scheme.New(applied.GetObjectKind().GroupVersionKind())
		if err != nil {
			return err
		}
		fields := applied.(*unstructured.Unstructured).Object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object); err != nil {
			return err
		}
		return a.Create(gvr, object, namespace)
	}
	if err := a.ObjectTracker.Apply(gvr, applied, namespace, options...); err != nil {
		return err
	}
	object, err := a.Get(gvr, namespace, name)
	if err != nil {
		return err
	}
	return a.Update(gvr, object, namespace)
}

// Delete implements clienttesting.ObjectTracker.
func (a *API) Delete(gvr schema.GroupVersionResource, namespace, name string, options ...metav1.DeleteOptions) error {
	object, err := a.Get(gvr, namespace, name)
	if err != nil {
		return err
	}
	for _, asked := range options {
		if err := Refuse(gvr, object.(metav1.Object), asked); err != nil {
			return err
		}
	}
	if err := a.ObjectTracker.Delete(gvr, namespace, name, options...); err != nil {
		return err
	}
	a.setNextVersion(object)
	a.tell(gvr, watch.Deleted, object)
	return nil
}

// List implements clienttesting.ObjectTracker.
func (a *API) List(gvr schema.GroupVersionResource, gvk schema.GroupVersionKind, namespace string,
	options ...metav1.ListOptions,
) (runtime.Object, error) {
	list, err := a.ObjectTracker.List(gvr, gvk, namespace, options...)
	if err != nil {
		return nil, err
	}
	listed, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	listed.SetResourceVersion(strconv.FormatInt(a.version.Load(), 10))
	return list, nil
}

// Watch implements clienttesting.ObjectTracker.
func (a *API) Watch(gvr schema.GroupVersionResource, namespace string,
	options ...metav1.ListOptions,
) (watch.Interface, error) {
	from := a.version.Load()
	for _, asked := range options {
		if asked.ResourceVersion != "" {
			from = VersionOf(asked.ResourceVersion)
		}
	}
	return a.Watches(gvr.Resource).Begin(gvr.String(), namespace, from)
}

func (a *API) tell(gvr schema.GroupVersionResource, kind watch.EventType, object runtime.Object) {
	if a.Changed != nil {
		a.Changed(kind, object)
	}
	a.Watches(gvr.Resource).Tell(gvr.String(), kind, object)
}

func (a *API) setNextVersion(object runtime.Object) {
	object.(metav1.Object).SetResourceVersion(strconv.FormatInt(a.version.Add(1), 10))
}

// VersionOf is the number of a resourceVersion, or zero if it has none.
func VersionOf(version string) int64 {
	number, _ := strconv.ParseInt(version, 10, 64)
	return number
}
