// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// filled is an informer that never runs: it holds the given objects, and passes them to handlers immediately.
type filled struct {
	cache.SharedIndexInformer
}

// AddEventHandler implements cache.SharedInformer.
func (f filled) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range f.GetIndexer().List() {
		handler.OnAdd(object, true)
	}
	return nil, nil //nolint:nilnil // Nobody waits for a handler that already has all objects.
}

// informersOf returns informers from which plugins read a cluster. They have no client, and must not be started.
func informersOf(cluster *state.Cluster) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	owners := ownersOf(cluster)
	for _, err := range []error{
		fill(factory, &appsv1.ReplicaSet{}, owners.replicaSets),
		fill(factory, &appsv1.StatefulSet{}, owners.statefulSets),
		fill(factory, &corev1.ReplicationController{}, owners.replicationControllers),
	} {
		if err != nil {
			return nil, err
		}
	}
	for _, kind := range state.Kinds {
		if !kind.Scheduling && kind != state.Namespaces {
			continue
		}
		if err := fill(factory, kind.New(), versioned(kind.Objects(cluster))); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

// fill creates the informer for one type, with its objects.
func fill[P runtime.Object](factory informers.SharedInformerFactory, example P, objects []P) error {
	informer := factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return filled{cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers)}
	})
	for _, object := range objects {
		if err := informer.GetIndexer().Add(object); err != nil {
			return fmt.Errorf("fill the scheduler's cache with %T: %w", object, err)
		}
	}
	return nil
}

// versioned gives a resource version to objects without one, which may come from files. The scheduler compares versions
// when it assumes that a volume is bound.
func versioned(objects []runtime.Object) []runtime.Object {
	for i, object := range objects {
		if is, ok := object.(metav1.Object); ok && is.GetResourceVersion() == "" {
			copied := object.DeepCopyObject()
			copied.(metav1.Object).SetResourceVersion("1")
			objects[i] = copied
		}
	}
	return objects
}
