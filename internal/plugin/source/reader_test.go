// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestProgressSaysAfterASecondThatAServerDoesNotAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		takes time.Duration
		want  string
	}{
		{"an answer within a second", 900 * time.Millisecond, ""},
		{"an answer after three", 3 * time.Second, "\r\x1b[KWaiting for the API server https://slow to list nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				env := command.Env{Clock: clock.RealClock{}}
				env.ErrOut = &stderr
				r := &Reader{Server: "https://slow", Progress: show.NewProgress(env)}
				r.Progress.Moves = true // it is a terminal
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

func TestWhatSuccessorsNeedIsReadOrSaidToBeUnknown(t *testing.T) {
	clients := fake.NewClientset()
	var listed []string
	clients.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		listed = append(listed, action.GetResource().Resource)
		forbidden := action.GetResource().Resource == "volumeattachments"
		return forbidden, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", nil)
	})
	r := NewReader("https://server", clients, nil, nil, show.NewProgress(command.Env{Clock: clock.RealClock{}}))
	if err := r.Read(t.Context(), Wants{Successors: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{"nodes", "pods", "persistentvolumes", "persistentvolumeclaims", "volumeattachments", "resourcequotas", "statefulsets"}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("it lists something else (-want +got):\n%s", diff)
	}
	unknown := []state.Unknown{{
		Resource: "volumeattachments",
		Says: "You may not list volumeattachments, so the command assumes that a volume of a CSI driver is attached to the node " +
			"of the pod that uses it.",
	}}
	if diff := cmp.Diff(unknown, r.Cluster.Unknown); diff != "" {
		t.Errorf("something else is unknown (-want +got):\n%s", diff)
	}
}

func TestAPolicyOfAFileIsRefusedAsTheAPIServerRefusesIt(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want string // empty if it is accepted
	}{
		"a good one": {spec: map[string]any{"action": "Hold", "deadline": "5m"}},
		"two rules that are broken": {
			spec: map[string]any{"action": "Delete", "deadline": "5m", "unready": "Ask"},
			want: "spec: a deadline ends the action Evict or Hold, and the action Delete needs none: remove the deadline, or choose another action; " +
				"spec: unready says what happens to pods that the action Evict asks about: remove it, or set the action to Evict; " +
				"spec: the policy does nothing: set the action to Evict or Hold, or add a pace, a breaker, paused, finished: Keep, or ifDown: Hold",
		},
		"a value that is not known": {
			spec: map[string]any{"action": "Dance"},
			want: `spec.action: Unsupported value: "Dance": supported values: "Delete", "Evict", "Hold"`,
		},
		"no action": {spec: map[string]any{}, want: "spec.action: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validatePolicy(map[string]any{
				"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy", "metadata": map[string]any{"name": "p"}, "spec": test.spec,
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
		})
	}
}
