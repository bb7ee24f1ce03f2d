// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// evictionReason is the reason of the condition DisruptionTarget that a taint eviction sets, upstream's and Taintkeeper's.
const evictionReason = "DeletionByTaintManager"

// sighting is what was seen of one pod, identified by its UID, and when. It is a value.
type sighting struct {
	pod    *corev1.Pod
	bound  time.Time // when it was first seen on a node
	left   time.Time // when it was first seen terminating, or gone
	marked bool      // as evicted by a taint, before it left
}

// see returns the sighting after the pod was seen in a new state.
func (s sighting) see(pod *corev1.Pod, at time.Time) sighting {
	s.pod = pod
	if s.bound.IsZero() && pod.Spec.NodeName != "" {
		s.bound = at
	}
	if s.left.IsZero() && pod.DeletionTimestamp != nil {
		s.left = at
	}
	s.marked = s.marked || isMarked(pod)
	return s
}

// gone returns the sighting after the pod was deleted.
func (s sighting) gone(pod *corev1.Pod, at time.Time) sighting {
	s = s.see(pod, at)
	if s.left.IsZero() {
		s.left = at
	}
	return s
}

// corrected returns the sighting with better instants of what was seen, where there are any.
func (s sighting) corrected(bound, left time.Time) sighting {
	if !s.bound.IsZero() && !bound.IsZero() {
		s.bound = bound
	}
	if !s.left.IsZero() && !left.IsZero() {
		s.left = left
	}
	return s
}

func isMarked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == evictionReason
	})
}

func (s sighting) leftBefore(at time.Time) bool { return !s.left.IsZero() && s.left.Before(at) }

func (s sighting) running() bool {
	return s.left.IsZero() && !s.bound.IsZero() && s.pod.Status.Phase == corev1.PodRunning
}

// rule is what the rule needs to know of the pod.
func (s sighting) rule() verdict.Pod {
	return verdict.Pod{Tolerations: s.pod.Spec.Tolerations, Bound: verdict.Precise(verdict.Bound(s.pod), s.bound)}
}

// observer watches all pods of the demo and remembers when it saw what. It is safe for concurrent use.
type observer struct {
	mu   sync.Mutex
	seen map[types.UID]sighting
}

// observe starts a watch, which ends with ctx, and returns once all pods that there are have been seen.
func observe(ctx context.Context, client kubernetes.Interface) (*observer, error) {
	o := &observer{seen: map[types.UID]sighting{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.record(object, sighting.see) },
		UpdateFunc: func(_, object any) { o.record(object, sighting.see) },
		DeleteFunc: func(object any) { o.record(object, sighting.gone) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of the demo: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, errors.New("watch the pods of the demo: interrupted")
	}
	return o, nil
}

func (o *observer) record(object any, change func(sighting, *corev1.Pod, time.Time) sighting) {
	at := time.Now()
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[pod.UID] = change(o.seen[pod.UID], pod, at)
}

// sightings returns what was seen of all pods until now, in no order.
func (o *observer) sightings() []sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]sighting, 0, len(o.seen))
	for _, s := range o.seen {
		all = append(all, s)
	}
	return all
}
