// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetaintrule

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// FromInformer returns the nodes of an informer that has not begun yet, or has: whoever made it runs it.
func FromInformer(informer cache.SharedIndexInformer) Nodes { return &informed{informer: informer} }

// informed are the nodes of an informer, for one subscriber.
type informed struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
}

// Subscribe implements Nodes.
func (n *informed) Subscribe(changed func(before, after *corev1.Node)) error {
	var err error
	n.handler, err = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object.(*corev1.Node)) },
		UpdateFunc: func(before, after any) { changed(before.(*corev1.Node), after.(*corev1.Node)) },
		DeleteFunc: func(object any) {
			if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok { // the watch was interrupted
				object = unseen.Obj
			}
			if node, ok := object.(*corev1.Node); ok {
				changed(node, nil)
			}
		},
	})
	return err
}

// Name implements cache.DoneChecker.
func (n *informed) Name() string { return "nodes" }

// Done implements cache.DoneChecker.
func (n *informed) Done() <-chan struct{} { return n.handler.HasSyncedChecker().Done() }
