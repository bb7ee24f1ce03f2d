// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// late is a contestant that deletes everything a second late.
func late(right contestant) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		onDelete(client, func(string) bool {
			arena.TakeTime(client, func() { arena.Sleep(sec) })
			return false
		})
		return right(ctx, client)
	}
}

// forgetful is a contestant that forgets every third delete.
func forgetful(right contestant) contestant {
	var deletes atomic.Int32
	return func(ctx context.Context, client *fake.Clientset) error {
		onDelete(client, func(string) bool { return deletes.Add(1)%3 == 0 })
		return right(ctx, client)
	}
}

// greedy is a contestant that deletes another pod together with the first.
func greedy(right contestant) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		var once sync.Once
		onDelete(client, func(name string) bool {
			once.Do(func() { go deleteAnother(ctx, client, name) })
			return false
		})
		return right(ctx, client)
	}
}

func deleteAnother(ctx context.Context, client *fake.Clientset, name string) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		if pod.Name != name && client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}) == nil {
			return
		}
	}
}

// onDelete lets a function see every delete of a pod first, and swallow it.
func onDelete(client *fake.Clientset, swallow func(name string) bool) {
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return swallow(action.(clienttesting.DeleteAction).GetName()), nil, nil
	})
}

func TestAWrongContestantIsFoundAndShownInAFewSteps(t *testing.T) {
	for name, test := range map[string]struct {
		contest contest
		kind    arena.Kind
	}{
		"ours, a second late":      {contest{late(ours), upstream}, oursBreaksTheRule},
		"ours, forgetting":         {contest{forgetful(ours), upstream}, oursBreaksTheRule},
		"ours, one too many":       {contest{greedy(ours), upstream}, oursBreaksTheRule},
		"upstream, a second late":  {contest{ours, late(upstream)}, upstreamIsUnexplained},
		"upstream, forgetting":     {contest{ours, forgetful(upstream)}, upstreamIsUnexplained},
		"the plugin, wrong":        {contest{ours, late(upstream)}, timersAreWrong},
		"upstream instead of ours": {contest{upstream, upstream}, oursBreaksTheRule},
		"ours instead of upstream": {contest{ours, ours}, upstreamIsUnexplained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const enough, seed = 60, 1 // this checks the checker, not what a seed generates
			found, smallest, ok := test.contest.series().Search(t, seed, enough, test.kind)
			if !ok {
				t.Fatalf("not found in %d histories", enough)
			}
			const few = 3
			if len(smallest.Steps) > few || len(smallest.specs()) > few || len(smallest.Nodes) > few {
				t.Errorf("%d steps, %d pods and %d nodes are left of %d steps, want %d at most\n%s", len(smallest.Steps), len(smallest.specs()),
					len(smallest.Nodes), len(found.Steps), few, test.contest.try(t, smallest).Timetable())
			}
		})
	}
}
