// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// unready knows since when pods have not been ready. Records say only whether they are ready, so it reads a pod that is
// not from the API server, once. It is safe for concurrent use.
type unready struct {
	client kubernetes.Interface
	clock  *timeline.Clock
	asked  chan *podcache.Pod // are to be read

	mu    sync.Mutex
	since map[types.UID]time.Time // zero: it is being read
}

// readAhead is how many pods can wait to be read. One that finds no room is asked for again when it is looked at next.
const readAhead = 1000

func newUnready(client kubernetes.Interface, clock *timeline.Clock) *unready {
	return &unready{
		client: client, clock: clock,
		asked: make(chan *podcache.Pod, readAhead), since: map[types.UID]time.Time{},
	}
}

// of returns since when a pod has not been ready, for one that is not; zero if that is not known yet.
func (u *unready) of(pod *podcache.Pod) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, known := u.since[pod.UID]
	if !known {
		select {
		case u.asked <- pod:
			u.since[pod.UID] = time.Time{}
		default:
		}
	}
	return since
}

// forget forgets a pod that is ready or gone.
func (u *unready) forget(pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, pod)
}

// run reads pods and tells of those that have not been ready for some time.
func (u *unready) run(ctx context.Context, tell func(nodes ...string)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case pod := <-u.asked:
			since, err := u.read(ctx, pod)
			u.mu.Lock()
			if _, wanted := u.since[pod.UID]; wanted && err == nil {
				u.since[pod.UID] = since
			} else {
				delete(u.since, pod.UID)
			}
			u.mu.Unlock()
			if err == nil {
				tell(pod.Node)
			}
		}
	}
}

// read reads since when a pod has not been ready. A pod that is ready meanwhile, or has been replaced, counts from now.
func (u *unready) read(ctx context.Context, pod *podcache.Pod) (time.Time, error) {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	live, err := u.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
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
