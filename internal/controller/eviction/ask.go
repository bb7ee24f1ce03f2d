// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
)

// asksLimits are the limits of evictions that ask, which have places of their own because a call may take 10 s by
// design. A namespace has at most two in flight, so one with a webhook that hangs leaves room for the others, and those
// that take long move to slow places. With deletes and the two reads of package policies, at most 98 calls are in
// flight, for which the API server has 98 seats.
func asksLimits() backlog.Limits {
	return backlog.Limits{
		Prompt: 8, Retries: 4, Slow: 8, PerGroup: 2, Patience: time.Second, Pace: 20 * time.Millisecond,
	}
}

// ask asks the Eviction API to evict a pod. It reads the pod first, because the API server charges the budget before it
// compares the UID, and refunds it only after two minutes
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go). The API server sets the condition DisruptionTarget
// itself.
func (x *executor) ask(ctx context.Context, t *try, pod *podcache.Pod) (result, error) {
	if err := x.api.token(ctx); err != nil {
		return "", err
	}
	live, done, err := x.look(ctx, pod)
	if done != "" || err != nil {
		return done, err
	}
	pod, v, done, err := x.decideWithToken(ctx, t, live)
	if done != "" || err != nil {
		return done, err
	}
	if err := x.api.evict(ctx, pod); err != nil {
		t.unanswered = !apicall.Answered(err)
		if done, err := x.ended(ctx, pod, err); done != "" || err != nil {
			return done, err
		}
		if refused(err) && t.tries+1 >= troubleAfter && t.refuser != refuser(err) {
			t.refuser = refuser(err)
			x.events.refused(pod, v, err)
		}
		return "", fmt.Errorf("ask the Eviction API about pod %s: %w", pod.Key(), err)
	}
	return x.left(ctx, pod, v), nil
}
