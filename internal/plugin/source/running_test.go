// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestANoteSaysThatTaintkeeperDoesNotEvictOnlyIfNothingShowsThatItDoes(t *testing.T) {
	const (
		exception = "EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."
		builtIn   = " Due pods leave only if the built-in controller evicts them."
	)
	policies := []*v1alpha1.EvictionPolicy{{}}
	keeper := func(mode string) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tk", Name: "keeper", Labels: map[string]string{
			"app.kubernetes.io/name": "taintkeeper", "taintkeeper.dev/mode": mode,
		}}}
	}
	marked := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "marked"}, Reason: v1alpha1.EventEviction,
		Message: v1alpha1.MarkingText + "shop/web", LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	}
	fresh, stale := now.Add(-3*time.Second), now.Add(-time.Hour)
	for name, test := range map[string]struct {
		objects  []runtime.Object
		denied   []string
		policies []*v1alpha1.EvictionPolicy
		want     string
		calls    int
	}{
		"a leader is asked for once": {
			objects: []runtime.Object{lease("tk", "taintkeeper", fresh)}, calls: 1,
		},
		"the Lease is stale": {
			objects: []runtime.Object{lease("tk", "taintkeeper", stale)}, calls: 7,
			policies: policies, want: "Taintkeeper is not running (Lease tk/taintkeeper was last renewed 60m ago), so " + exception + builtIn,
		},
		"there is no Lease, and there are no policies":        {calls: 7, want: "Taintkeeper is not running, or runs without leader election." + builtIn},
		"leases may not be listed, and there are no policies": {denied: []string{"list leases", "get leases"}, calls: 9},
		"leases may not be listed": {
			denied: []string{"list leases", "get leases"}, calls: 9, policies: policies,
			want: "It is not known whether Taintkeeper is running. If it is not, " + exception,
		},
		"the Lease has another name": {
			objects: []runtime.Object{lease("tk", "mine", fresh), keeper("enforce")}, calls: 2,
		},
		"shadow mode": {
			objects: []runtime.Object{keeper("shadow")}, calls: 7,
			policies: policies, want: "Taintkeeper runs in shadow mode, so " + exception + builtIn,
		},
		"a process with a clock and without a Lease": {
			objects: []runtime.Object{evictionClock("tk", fresh)}, calls: 4,
		},
		"kube-controller-manager has just evicted": {
			objects: []runtime.Object{lease("kube-system", "kube-controller-manager", fresh), marked}, calls: 7,
			want: "Taintkeeper is not running, or runs without leader election. kube-controller-manager evicts due pods, by its own rule.",
		},
		"pods may not be listed": {
			objects: []runtime.Object{lease("tk", "taintkeeper", stale)}, denied: []string{"list pods"}, calls: 7,
			policies: policies, want: "It is not known whether Taintkeeper is running. If it is not, " + exception,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(test.objects...)
			forbid(clients, test.denied...)
			env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clocktesting.NewFakePassiveClock(now)}
			r := NewReader("", clients, nil, nil, show.NewProgress(env))
			r.Clock = &timeline.Clock{Wall: func() time.Time { return now }}
			r.Cluster = &state.Cluster{Policies: test.policies}
			if err := r.FindEvictor(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.Cluster.Idle != test.want {
				t.Errorf("it says %q, want %q", r.Cluster.Idle, test.want)
			}
			if calls := len(clients.Actions()); calls != test.calls {
				t.Errorf("there were %d calls, want %d", calls, test.calls)
			}
		})
	}
}
