// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// observer watches all pods, as a bystander, and remembers when each left: when it was first seen terminating, or gone.
// It is safe for concurrent use.
type observer struct {
	mu      sync.Mutex
	left    map[types.UID]time.Time
	changed chan struct{} // closed, and replaced, when a pod leaves
}

// observe starts a watch, which ends with ctx, and returns once it has begun.
func observe(ctx context.Context, client kubernetes.Interface) (*observer, error) {
	o := newObserver()
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.see,
		UpdateFunc: func(_, object any) { o.see(object) },
		DeleteFunc: o.miss,
	})
	if err != nil {
		return nil, fmt.Errorf("watch all pods: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, errors.New("watch all pods: interrupted")
	}
	return o, nil
}

func newObserver() *observer {
	return &observer{left: map[types.UID]time.Time{}, changed: make(chan struct{})}
}

func (o *observer) see(object any) {
	if pod, ok := object.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		o.note(pod.UID)
	}
}

func (o *observer) miss(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		o.note(pod.UID)
	}
}

func (o *observer) note(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.left[uid]; known {
		return
	}
	o.left[uid] = time.Now()
	close(o.changed)
	o.changed = make(chan struct{})
}

// leftAt returns when a pod left.
func (o *observer) leftAt(uid types.UID) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.left[uid]
	return at, ok
}

// remaining returns how many of the pods have not left, and a channel that is closed when that may have changed.
func (o *observer) remaining(pods []*corev1.Pod) (int, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, pod := range pods {
		if _, left := o.left[pod.UID]; !left {
			n++
		}
	}
	return n, o.changed
}

// await returns when all the pods have left, or the instant has come, and how many have not left then.
func (o *observer) await(ctx context.Context, limit time.Time, pods ...*corev1.Pod) (int, error) {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		n, changed := o.remaining(pods)
		if n == 0 {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return n, context.Cause(ctx)
		case <-timer.C:
			return n, nil
		case <-changed:
		}
	}
}

// departure returns how a pod left that was due some time after began, by an instant.
func (o *observer) departure(ctx context.Context, pod *corev1.Pod, began time.Time, due, watched time.Duration) (departure, error) {
	d := departure{due: due, watched: watched}
	if _, err := o.await(ctx, began.Add(watched), pod); err != nil {
		return d, err
	}
	if at, left := o.leftAt(pod.UID); left {
		d.left, d.after = true, at.Sub(began)
	}
	return d, nil
}

// pause lets time pass that is part of a scenario.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
