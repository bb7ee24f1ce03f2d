// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// clock hears what the API server's clock shows.
type clock interface{ Heard(date, asked time.Time) }

// Tell tells a clock that the API server's clock agrees with the bubble's, more precisely than a Date can.
func Tell(clock clock) {
	now := time.Now()
	clock.Heard(now, now)
	clock.Heard(now.Add(-time.Second), now)
}

// KeepTelling tells a clock the time repeatedly until the context ends, so that it stays known to a few milliseconds.
func KeepTelling(ctx context.Context, clock clock) {
	ticker := time.NewTicker(4 * time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		Tell(clock)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// TellTime makes every answer of a client tell a clock the time, so that tests can name instants. Tests about the
// imprecision of a Date use answers of their own.
func TellTime(client *fake.Clientset, clock clock) {
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		Tell(clock)
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		Tell(clock)
		return false, nil, nil
	})
}
