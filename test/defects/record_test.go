// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
)

func TestADepartureIsWhenAPodLeftAfterItsBeginning(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	terminating := pod.DeepCopy()
	terminating.DeletionTimestamp = new(metav1.Now())
	for name, test := range map[string]struct {
		seen []*corev1.Pod
		want departure
	}{
		"it leaves": {[]*corev1.Pod{terminating}, departure{due: 3 * time.Second, left: true, after: 3 * time.Second, watched: time.Minute}},
		"it stays":  {nil, departure{due: 3 * time.Second, watched: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, start := observed{observer.NewPods()}, time.Now()
				go func() {
					o.Changed(watch.Added, pod)
					for _, version := range test.seen {
						pass(t, 3*time.Second)
						o.Changed(watch.Modified, version)
					}
				}()
				got, err := o.departure(t.Context(), pod, start, 3*time.Second, time.Minute)
				if err != nil || got != test.want {
					t.Errorf("%+v, %v; want %+v", got, err, test.want)
				}
				if watched := time.Since(start); !got.left && watched != time.Minute {
					t.Errorf("a pod that stays was watched for %s", watched)
				}
			})
		})
	}
}

// pass lets virtual time pass.
func pass(t *testing.T, length time.Duration) {
	t.Helper()
	if err := pause(t.Context(), length); err != nil {
		t.Error(err)
	}
}

const auditLines = `{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T00:00:01.000000Z"}
{"verb":"patch","user":{"username":"us"},"objectRef":{"resource":"pods","subresource":"status","namespace":"n","name":"p"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T00:00:02.000000Z"}
{"verb":"delete","user":{"username":"them"},"objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T00:00:03.000000Z"}
{"verb":"delete","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"other","name":"p"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T00:00:03.000000Z"}
{"verb":"delete","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":422},"stageTimestamp":"2026-01-01T00:00:04.000000Z"}
{"verb":"delete","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T00:00:05.000000Z"}
{"verb":"delete","user":{"username":"us"},"objectRef":{"resour`

func TestCallsAreThoseOfAUserInANamespaceThatAreCompleteInTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(auditLines), 0o600); err != nil {
		t.Fatal(err)
	}
	calls, err := auditlog.New(path).Events(auditlog.By("us"), auditlog.In("n"))
	if err != nil || len(calls) != 4 || calls[1].Resource != "pods/status" {
		t.Fatalf("%+v, %v", calls, err)
	}
	deletes := podDeletes(calls)
	if len(deletes) != 1 || !deletes[0].Answered.Equal(began.Add(5*time.Second)) {
		t.Errorf("deletes %+v, want the one that was accepted", deletes)
	}
	if later := since(calls, began.Add(3*time.Second)); len(later) != 2 {
		t.Errorf("after three seconds: %+v", later)
	}
}

func TestOnlyLinesOfALogThatCameAfterTheMarkAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("a junk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mark, err := markLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a junk\nb junk junk\nc\nd junk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := mark.lines("junk"); err != nil || n != 2 {
		t.Errorf("%d lines, %v; want 2", n, err)
	}
}
