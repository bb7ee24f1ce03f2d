// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

func TestProgressSaysAfterASecondThatAServerDoesNotAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		takes time.Duration
		want  string
	}{
		{"an answer within a second", 900 * time.Millisecond, ""},
		{"an answer after three", 3 * time.Second, "Waiting for the API server https://slow to list nodes\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				env := command.Env{Clock: clock.RealClock{}}
				env.ErrOut = &stderr
				r := &Reader{Server: "https://slow", Progress: output.NewProgress(env)}
				list := func(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
					time.Sleep(test.takes) //nolint:forbidigo // the time is virtual
					return &corev1.NodeList{}, nil
				}
				if err := List(t.Context(), r, "nodes", list, func(*corev1.Node) {}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := stderr.String(); got != test.want {
					t.Errorf("stderr has %q, want %q", got, test.want)
				}
			})
		})
	}
}
