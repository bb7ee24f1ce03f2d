// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// unready knows since when pods and nodes have not been ready. Records of pods say only whether a pod is ready, so it
// reads each unready pod from the API server, once, and again if that fails. It knows only pods that the cache shows as
// unready; a decision can outlive its pod. It is safe for concurrent use.
type unready struct {
	client kubernetes.Interface
	clock  *timeline.Clock
	cached func(types.UID) (*podcache.Pod, bool)
	asked  chan struct{} // signals that there are pods to read

	mu     sync.Mutex
	since  map[types.UID]time.Time // zero if it must be read
	nodes  map[string]time.Time
	toRead []*podcache.Pod
}

// readAgainAfter is how long it waits after a failed read.
const readAgainAfter = time.Second

func newUnready(
	client kubernetes.Interface, clock *timeline.Clock, cached func(types.UID) (*podcache.Pod, bool),
) *unready {
	return &unready{
		client: client, clock: clock, cached: cached,
		asked: make(chan struct{}, 1), since: map[types.UID]time.Time{}, nodes: map[string]time.Time{},
	}
}

// of returns since when an unready pod has not been ready; zero if that is not known yet.
func (u *unready) of(pod *podcache.Pod) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, known := u.since[pod.UID]
	if known {
		return since
	}
	// The cache changes before it tells, so a change after this look is told after this function has returned.
	if now, ok := u.cached(pod.UID); ok && !now.Flags.Has(podcache.Ready) {
		u.since[pod.UID] = time.Time{}
		u.ask(pod)
	}
	return time.Time{}
}

// ofNode returns since when a node has not been ready; zero if it is ready. Of a node that was not ready when it was
// first seen, its condition says so.
func (u *unready) ofNode(node *nodecache.Node) time.Time {
	ready := readiness.Condition(node.Node, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	since, known := u.nodes[node.Name]
	if !known {
		if since = u.clock.Now(); ready != nil {
			since = u.clock.See().Since(&ready.LastTransitionTime)
		}
		u.nodes[node.Name] = since
	}
	return since
}

// nodeChanged follows whether a node is ready.
func (u *unready) nodeChanged(before, after *nodecache.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case after == nil || readiness.IsReady(after.Node):
		delete(u.nodes, cmp.Or(before, after).Name)
	case before != nil && readiness.IsReady(before.Node):
		u.nodes[after.Name] = u.clock.Now()
	}
}

// ask requests a read of a pod. The caller holds the lock.
func (u *unready) ask(pod *podcache.Pod) {
	u.toRead = append(u.toRead, pod)
	select {
	case u.asked <- struct{}{}:
	default:
	}
}

// forget forgets a pod that is ready or gone.
func (u *unready) forget(pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, pod)
}

// run reads pods, and reports the node of each once it is known since when the pod has not been ready.
func (u *unready) run(ctx context.Context, tell func(nodes ...string)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.asked:
		}
		for pod := u.next(); pod != nil; pod = u.next() {
			since, err := u.read(ctx, pod)
			if err == nil {
				u.know(pod.UID, since)
				tell(pod.Node)
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(readAgainAfter):
			}
			u.mu.Lock()
			u.ask(pod)
			u.mu.Unlock()
		}
	}
}

// next returns the next pod to read, or nil if there is none.
func (u *unready) next() *podcache.Pod {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.toRead) > 0 {
		pod := u.toRead[0]
		u.toRead = u.toRead[1:]
		if since, wanted := u.since[pod.UID]; wanted && since.IsZero() {
			return pod
		}
	}
	return nil
}

// know notes since when a pod has not been ready, unless it is forgotten.
func (u *unready) know(pod types.UID, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, wanted := u.since[pod]; wanted {
		u.since[pod] = since
	}
}

// read reads since when a pod has not been ready. If the pod has become ready meanwhile, or is gone, the answer is now.
func (u *unready) read(ctx context.Context, pod *podcache.Pod) (time.Time, error) {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	live, err := u.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return u.clock.Now(), nil
	case err != nil:
		return time.Time{}, err
	}
	for i := range live.Status.Conditions {
		c := &live.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && live.UID == pod.UID {
			return u.clock.See().Since(&c.LastTransitionTime), nil
		}
	}
	return u.clock.Now(), nil
}
