// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnObstructionAdmitsADeleteAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, start := newObstruction(6*time.Second), time.Now()
		answered := make(chan *metav1.Status)
		go func() { answered <- o.review(t.Context(), &metav1.PartialObjectMetadata{}) }()
		if err := o.asked(t.Context(), nil); err != nil || o.waiting.Load() != 1 {
			t.Errorf("%d deletes wait, %v", o.waiting.Load(), err)
		}
		if refusal := <-answered; refusal != nil || time.Since(start) != 6*time.Second {
			t.Errorf("answered %v after %s", refusal, time.Since(start))
		}
		if n := o.waiting.Load(); n != 0 {
			t.Errorf("%d deletes wait in the end", n)
		}
	})
}

func TestAnObstructionThatIsOverAdmitsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, start := newObstruction(hanging), time.Now()
		time.AfterFunc(time.Second, func() { close(o.over) })
		if refusal := o.review(t.Context(), &metav1.PartialObjectMetadata{}); refusal != nil || time.Since(start) != time.Second {
			t.Errorf("answered %v after %s", refusal, time.Since(start))
		}
	})
}

func TestAnObstructionRefusesTheProbeAtOnce(t *testing.T) {
	o := newObstruction(hanging)
	if o.review(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: probeName}}) == nil {
		t.Error("it is admitted")
	}
}
