// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// slowServer is the API server of a world with admission that takes its time. Unlike a reactor of the fake clientset it
// sees, as a real one does, when a client gives a call up.
type slowServer struct {
	kubernetes.Interface

	// takes says how long a call takes ("get", "patch" or "delete", and the name of the node or pod), and how it then
	// fails, if it does.
	takes func(verb, name string) (time.Duration, error)

	mu         sync.Mutex
	open, most int // calls
}

// slow makes the world's API server slow.
func (w *world) slow(takes func(verb, name string) (time.Duration, error)) *slowServer {
	return &slowServer{Interface: w.client, takes: takes}
}

// behind makes an Evictor use it.
func (s *slowServer) behind(c *Config) { c.Client, c.EventClient = s, s.Interface }

func (s *slowServer) CoreV1() typedcorev1.CoreV1Interface {
	return slowCore{s.Interface.CoreV1(), s}
}

// IsWatchListSemanticsUnSupported says for client-go what the fake clientset says: it does not stream lists.
func (s *slowServer) IsWatchListSemanticsUnSupported() bool { return true }

// wait lets the time of a call pass.
func (s *slowServer) wait(ctx context.Context, verb, name string) error {
	s.count(1)
	defer s.count(-1)
	takes, err := s.takes(verb, name)
	if takes == 0 { // timers of a bubble that end at once, on several threads, crash the race detector of Go 1.26
		return err
	}
	select {
	case <-time.After(takes):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowServer) count(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += calls
	s.most = max(s.most, s.open)
}

// mostOpen returns how many calls were open at once.
func (s *slowServer) mostOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

type slowCore struct {
	typedcorev1.CoreV1Interface

	server *slowServer
}

func (c slowCore) Pods(namespace string) typedcorev1.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(namespace), c.server}
}

func (c slowCore) Nodes() typedcorev1.NodeInterface {
	return slowNodes{c.CoreV1Interface.Nodes(), c.server}
}

type slowPods struct {
	typedcorev1.PodInterface

	server *slowServer
}

func (p slowPods) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if err := p.server.wait(ctx, "delete", name); err != nil {
		return err
	}
	return p.PodInterface.Delete(ctx, name, options)
}

func (p slowPods) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Pod, error) {
	if err := p.server.wait(ctx, "patch", name); err != nil {
		return nil, err
	}
	return p.PodInterface.Patch(ctx, name, kind, patch, options, subresources...)
}

type slowNodes struct {
	typedcorev1.NodeInterface

	server *slowServer
}

func (n slowNodes) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error) {
	if err := n.server.wait(ctx, "get", name); err != nil {
		return nil, err
	}
	return n.NodeInterface.Get(ctx, name, options)
}
