// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
)

// feeds are all watches.
func (c *cluster) feeds(clients kubernetes.Interface, rules dynamic.Interface, namespace string) []follow.Feed {
	// client-go's recorder writes events on objects without a namespace there.
	nodeEvents := clients.CoreV1().Events(metav1.NamespaceDefault)
	warnings := fields.Set{"involvedObject.kind": "Node", "type": corev1.EventTypeWarning}.AsSelector()
	ruleClient := rules.Resource(v1alpha1.GroupVersion.WithResource(kindRules))
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeTaintRule"))
	return append(follow.ClusterFeeds(clients, namespace, nil, c),
		follow.Feed{
			Kind: kindEvents, Client: clients, Object: &corev1.Event{},
			Calls: follow.CallsOf(nodeEvents.List, nodeEvents.Watch, warnings),
			Set:   follow.Only(c.setEvent),
			Gone:  func(uid types.UID, _ string, _ metav1.Object) { delete(c.events, uid) },
		},
		follow.Feed{
			Kind: kindRules, Client: rules, Object: rule,
			Calls: follow.CallsOf(ruleClient.List, ruleClient.Watch, fields.Everything()),
			Set:   follow.Only(c.setRule),
			Gone:  func(uid types.UID, _ string, _ metav1.Object) { delete(c.rules, uid) },
		})
}

// How often the API server is pinged, and how long it may take to respond.
const (
	pingEvery   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// pingServer pings until the context ends, and passes on the results.
func (b *Board) pingServer(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		at := b.config.Now()
		asking, cancel := context.WithTimeout(ctx, pingTimeout)
		err := b.config.Ping(asking)
		cancel()
		b.follower.Do(ctx, func() { b.cluster.pinged(at, err) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
