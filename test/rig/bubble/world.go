// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// World is a cluster in a bubble of testing/synctest.
type World struct {
	T        *testing.T
	Client   *fake.Clientset
	API      *API
	Book     *Book // of the calls that describe has words for
	Clock    *timeline.Clock
	Registry *prometheus.Registry // of the controller that was started last
	Start    time.Time
	Silent   map[string]bool // kubelets, by node, that do not renew their leases
	Stop     func()          // the controller that was started last

	// NoLeases says that no lease can be renewed now, neither by kubelets nor by ours.
	NoLeases atomic.Bool

	kubelets bool
}

// Play runs a test in a bubble of virtual time. Answers tell the world's clock the API server's time exactly. The
// book has the calls for which describe has words.
func Play(t *testing.T, describe func(clienttesting.Action) string, test func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset() // the other one keeps managed fields, which cost it milliseconds a call
		w := &World{
			T: t, Client: client, API: NewAPI(client), Clock: &timeline.Clock{},
			Start: time.Now(), Silent: map[string]bool{}, Stop: func() {},
		}
		TellTime(client, w.Clock)
		w.Book = NewBook(client, describe)
		w.wantsLocks()
		w.On("patch", "leases", "", func() error {
			if w.NoLeases.Load() {
				return apierrors.NewInternalError(errors.New("etcdserver: no leader"))
			}
			return nil
		})
		test(w)
	})
}

// DescribeWrites has words for the calls that change something: patches and events. Applies of our own lease come each
// second, and are left out.
func DescribeWrites(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.PatchActionImpl:
		if action.PatchType == types.ApplyPatchType {
			return ""
		}
		return fmt.Sprintf("patch %s %s/%s", action.Resource.Resource, action.Name, action.Subresource)
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			return fmt.Sprintf("event %s %s %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	return ""
}

// wantsLocks fails the test for a patch of a node without the optimistic lock: a taint of another client would be lost.
func (w *World) wantsLocks() {
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		if patch.PatchType != types.ApplyPatchType && !bytes.Contains(patch.Patch, []byte(`"resourceVersion":"`)) {
			w.T.Errorf("node %s is patched without the optimistic lock: %s", patch.Name, patch.Patch)
		}
		return false, nil, nil
	})
}

// Run runs a controller, and returns when what can happen has happened. It ends with the test, or when Stop is called.
func (w *World) Run(who string, controller func(context.Context) error) {
	w.T.Helper()
	w.Stop = Run(w.T, who, controller)
}

// Pass lets virtual time pass.
func (w *World) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// InCall lets virtual time pass inside a call to the API server.
func (w *World) InCall(d time.Duration) {
	time.Sleep(d)
}

// Until lets virtual time pass up to an instant since the world began, in which kubelets renew their leases.
func (w *World) Until(at time.Duration) {
	w.T.Helper()
	for w.kubelets {
		next := w.Now().Truncate(RenewEvery) + RenewEvery
		if next > at {
			break
		}
		w.Pass(next - w.Now())
		w.RenewAll()
	}
	w.Pass(at - w.Now())
}

// Now returns how long the world has been there.
func (w *World) Now() time.Duration { return time.Since(w.Start) }

// Must fails the test when the world itself did not do what it was told. It takes the answers of a client.
func (w *World) Must(_ any, err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Did returns the instants of the calls whose description begins with the given words.
func (w *World) Did(words string) []time.Duration { return w.Book.When(words) }

// On makes the API server answer calls of a verb on a resource, or on its subresource, with an error as long as the
// function returns one.
func (w *World) On(verb, resource, subresource string, answer func() error) {
	w.Book.Refuse(verb, resource, subresource, answer)
}

// Metrics returns the metrics with a name and all the given labels.
func (w *World) Metrics(name string, labels map[string]string) []*dto.Metric {
	w.T.Helper()
	families, err := w.Registry.Gather()
	w.Must(nil, err)
	for _, family := range families {
		if family.GetName() == name {
			return slices.DeleteFunc(family.GetMetric(), func(metric *dto.Metric) bool {
				return slices.ContainsFunc(metric.GetLabel(), func(pair *dto.LabelPair) bool {
					value, asked := labels[pair.GetName()]
					return asked && value != pair.GetValue()
				})
			})
		}
	}
	return nil
}

// Metric returns the value of the counter or gauge with the given labels, if it is there.
func (w *World) Metric(name string, labels map[string]string) (float64, bool) {
	w.T.Helper()
	for _, metric := range w.Metrics(name, labels) {
		return metric.GetCounter().GetValue() + metric.GetGauge().GetValue(), true
	}
	return 0, false
}

// WantMetric wants the value of a counter or gauge.
func (w *World) WantMetric(name string, labels map[string]string, want float64) {
	w.T.Helper()
	if got, ok := w.Metric(name, labels); !ok || got != want {
		w.T.Errorf("after %s %s%v is %v (there: %t), want %v", w.Now(), name, labels, got, ok, want)
	}
}
