// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"net/http/httptest"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	live "github.com/taintkeeper/taintkeeper/internal/plugin/web"
)

// Objects are what a scene consists of when its board is opened.
type Objects struct {
	Cluster string
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Events  []corev1.Event
	Rules   []*unstructured.Unstructured
	Shadow  v1alpha1.ShadowReport // none if it has no time
}

// Scene is a board of objects that change as they are told to.
type Scene struct {
	// Address of the page.
	Address string

	nodes, pods *watch.FakeWatcher
	cancel      context.CancelFunc
	server      *httptest.Server
	running     sync.WaitGroup
}

// Open opens a scene.
func Open(ctx context.Context, objects Objects) *Scene {
	ctx, cancel := context.WithCancel(ctx)
	s := &Scene{nodes: watch.NewFake(), pods: watch.NewFake(), cancel: cancel}
	clients := fake.NewClientset()
	one := metav1.ListMeta{ResourceVersion: "1"}
	feed(clients, "nodes", &corev1.NodeList{ListMeta: one, Items: objects.Nodes}, s.nodes)
	feed(clients, "pods", &corev1.PodList{ListMeta: one, Items: objects.Pods}, s.pods)
	feed(clients, "events", &corev1.EventList{ListMeta: one, Items: objects.Events}, watch.NewFake())
	feed(clients, "configmaps", &corev1.ConfigMapList{ListMeta: one, Items: objects.report()}, watch.NewFake())
	var rules []runtime.Object
	for _, rule := range objects.Rules {
		rules = append(rules, rule)
	}
	kinds := map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("nodetaintrules"): "NodeTaintRuleList",
	}
	shown := live.New(live.Config{
		Cluster: objects.Cluster, Clients: clients, Now: time.Now,
		Rules:    dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, rules...),
		Policies: func(context.Context, func(*state.Cluster, error)) {},
		Ping:     func(context.Context) error { return nil },
	})
	s.running.Go(func() { shown.Run(ctx) })
	token := live.NewToken()
	s.server = httptest.NewServer(shown.Handler(token))
	s.Address = s.server.URL + "/" + token + "/"
	return s
}

// report returns the ConfigMap with the report of shadow mode, if there is one.
func (o *Objects) report() []corev1.ConfigMap {
	data, err := o.Shadow.Data()
	if err != nil || o.Shadow.Time.IsZero() {
		return nil
	}
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: v1alpha1.ShadowConfigMap}
	return []corev1.ConfigMap{{ObjectMeta: meta, Data: data}}
}

// feed answers the calls for a kind.
func feed(clients *fake.Clientset, resource string, list runtime.Object, changes watch.Interface) {
	clients.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, list, nil
	})
	clients.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, changes, nil
	})
}

// SetNode tells the board of a node that has changed.
func (s *Scene) SetNode(node *corev1.Node) { s.nodes.Modify(node) }

// SetPod tells the board of a pod that has changed.
func (s *Scene) SetPod(pod *corev1.Pod) { s.pods.Modify(pod) }

// Disconnect breaks the connections of all pages, which come back by themselves.
func (s *Scene) Disconnect() { s.server.CloseClientConnections() }

// Close ends the board and its pages.
func (s *Scene) Close() {
	s.cancel()
	s.server.CloseClientConnections()
	s.server.Close()
	s.running.Wait()
}
