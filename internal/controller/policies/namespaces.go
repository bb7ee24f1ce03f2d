// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// namespaces knows the labels of namespaces, and which of them are being deleted, once there is a policy. It is safe
// for concurrent use.
type namespaces struct {
	informer cache.SharedIndexInformer
	needed   chan struct{} // closed when there is a policy
	once     sync.Once
}

// newNamespaces returns a watch of namespaces' metadata that calls a function when a change can affect what policies
// say.
func newNamespaces(from client.WithWatch, changed func()) *namespaces {
	list := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		return list
	}
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			all := list()
			return all, from.List(ctx, all, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), &client.ListOptions{Raw: &options})
		},
	}
	n := &namespaces{needed: make(chan struct{})}
	n.informer = cache.NewSharedIndexInformer(listwatch.Bounded(calls, from), &metav1.PartialObjectMetadata{}, 0, nil)
	_, _ = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail before it runs
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
			if !equality.Semantic.DeepEqual(was.Labels, is.Labels) || !is.DeletionTimestamp.Equal(was.DeletionTimestamp) {
				changed()
			}
		},
	})
	return n
}

// need starts the watch of namespaces.
func (n *namespaces) need() { n.once.Do(func() { close(n.needed) }) }

func (n *namespaces) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-n.needed:
		n.informer.RunWithContext(ctx)
	}
	return nil
}

// get returns the labels of a namespace, nil if the watch has not brought it, and whether it is being deleted.
func (n *namespaces) get(name string) (_ labels.Labels, ends bool) {
	object, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	is := object.(*metav1.PartialObjectMetadata)
	return labels.Set(is.Labels), is.DeletionTimestamp != nil
}
