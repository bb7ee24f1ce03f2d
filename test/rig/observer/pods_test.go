// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func podOf(uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), Namespace: "n", UID: uid, ResourceVersion: version}}
}

func terminating(uid types.UID, version string) *corev1.Pod {
	pod := podOf(uid, version)
	pod.DeletionTimestamp = new(metav1.Now())
	return pod
}

// pass lets virtual time pass.
func pass(t *testing.T, length time.Duration) {
	t.Helper()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Error(context.Cause(t.Context()))
	}
}

func TestAPodHasLeftWhenItIsFirstSeenTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := NewPods(), time.Now()
		go func() {
			p.Changed(watch.Added, podOf("a", "1"))
			pass(t, 3*time.Second)
			p.Changed(watch.Modified, terminating("a", "2"))
			pass(t, time.Second)
			p.Changed(watch.Modified, terminating("a", "3"))
			p.Changed(watch.Deleted, terminating("a", "4"))
		}()
		if n, err := p.Await(t.Context(), start.Add(time.Minute), podOf("a", "")); n != 0 || err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%d remain after %s, %v", n, time.Since(start), err)
		}
		pass(t, time.Minute)
		if at, _ := p.Left("a"); !at.Equal(start.Add(3 * time.Second)) {
			t.Errorf("it left after %s, as was seen later", at.Sub(start))
		}
		if got := p.Of("a"); len(got.Sightings) != 3 || !got.Gone.Equal(start.Add(4*time.Second)) {
			t.Errorf("seen: %v", got)
		}
	})
}

func TestAPodThatIsGoneHasLeft(t *testing.T) {
	p := NewPods()
	p.Changed(watch.Added, podOf("a", "1"))
	p.Changed(watch.Deleted, podOf("a", "2"))
	if _, left := p.Left("a"); !left {
		t.Error("it has not")
	}
}

func TestAPodThatAListLacksIsGoneAndOneThatItBringsAgainIsNotSeenTwice(t *testing.T) {
	p := NewPods()
	p.Listed([]*corev1.Pod{podOf("a", "1"), podOf("b", "1")})
	p.Listed([]*corev1.Pod{podOf("b", "1")})
	if _, left := p.Left("a"); !left {
		t.Error("the pod that the list lacks is there")
	}
	if _, left := p.Left("b"); left || len(p.Of("b").Sightings) != 1 {
		t.Errorf("of the pod that stays was seen: %v", p.Of("b"))
	}
}

func TestAPodThatStaysIsWaitedForToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := NewPods(), time.Now()
		p.Changed(watch.Modified, terminating("another", "1"))
		n, err := p.Await(t.Context(), start.Add(time.Minute), podOf("a", ""))
		if err != nil || n != 1 || time.Since(start) != time.Minute {
			t.Errorf("%d remain, %v after %s", n, err, time.Since(start))
		}
	})
}
