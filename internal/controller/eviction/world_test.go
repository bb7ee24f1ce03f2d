// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// world is a cluster with our whole Evictor at work in it. What the API server would refuse is refused by reactors of
// the individual tests.
type world struct{ *bubble.World }

// play runs a test in a bubble of virtual time.
func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Play(t, describe, func(w *bubble.World) { test(w.T, &world{w}) })
}

// describe describes the calls that change something.
func describe(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		return "delete " + action.Name
	case clienttesting.PatchActionImpl:
		if action.Resource.Resource == "pods" && action.Subresource == "" {
			return "keep " + action.Name
		}
		return "patch " + action.Name
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			return "event " + event.Message
		}
	}
	return ""
}

// run starts an Evictor with metrics of its own.
func (w *world) run(change ...func(*Config)) {
	w.T.Helper()
	w.Registry = prometheus.NewRegistry()
	w.Run("the Evictor", w.evictor(append(change, func(c *Config) { c.Registerer = w.Registry })...))
}

// evictor returns a function that runs an Evictor and its caches.
func (w *world) evictor(change ...func(*Config)) func(context.Context) error {
	config := Config{Client: w.Client, Clock: w.Clock}
	for _, apply := range change {
		apply(&config)
	}
	caches := caches.New(config.Client, config.Clock, config.NeverStamp || config.Mode == DryRun)
	config.Nodes, config.Pods = caches.Nodes, caches.Pods
	evictor, err := New(config)
	w.Must(nil, err)
	return caches.With(evictor.Run)
}

func (w *world) addNode(name string, specs ...string) {
	w.T.Helper()
	w.AddNode(name, "", func(node *corev1.Node) { node.Spec.Taints = w.Edit(nil, specs...) })
}

// addStampedNode creates a node whose taints have a timeAdded: the second before now.
func (w *world) addStampedNode(name string, specs ...string) {
	w.T.Helper()
	w.AddNode(name, "", func(node *corev1.Node) {
		node.Spec.Taints = w.Edit(nil, specs...)
		for i := range node.Spec.Taints {
			node.Spec.Taints[i].TimeAdded = &metav1.Time{Time: time.Now().Add(-time.Second)}
		}
	})
}

// addPod creates a pod that is bound to node "n" unless a change says otherwise.
func (w *world) addPod(name string, change ...func(*corev1.Pod)) {
	w.T.Helper()
	w.AddPod(name, "n", change...)
}

var tolerating = scene.Tolerating

// wantTries wants calls whose description begins with the given words: at an instant, and then each after a backoff, of
// which up to a fifth is removed.
func (w *world) wantTries(words string, first time.Duration, backoffs ...time.Duration) {
	w.T.Helper()
	got := w.Did(words)
	right := len(got) == len(backoffs)+1 && got[0] == first
	for i := 0; right && i < len(backoffs); i++ {
		waited := got[i+1] - got[i]
		right = waited <= backoffs[i] && waited >= backoffs[i]*4/5
	}
	if !right {
		w.T.Fatalf("%q at %v, want at %s and then after %v", words, got, first, backoffs)
	}
}

// deleted returns the names of the deleted pods, in order.
func (w *world) deleted() []string {
	var names []string
	for _, c := range w.Book.Calls() {
		if name, ok := strings.CutPrefix(c.What, "delete "); ok {
			names = append(names, name)
		}
	}
	return names
}

// metric returns the value of a counter or gauge whose first label has the given value, if it is there.
func (w *world) metric(name, label string) (float64, bool) {
	w.T.Helper()
	for _, metric := range w.Metrics(name, nil) {
		if label == "" || metric.GetLabel()[0].GetValue() == label {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

func (w *world) wantMetric(name, label string, want float64) {
	w.T.Helper()
	if got, ok := w.metric(name, label); !ok || got != want {
		w.T.Errorf("%s{%s} is %v (there: %t), want %v", name, label, got, ok, want)
	}
}

// wantLateness checks the sum of both histograms, upstream's and ours, in seconds.
func (w *world) wantLateness(want time.Duration) {
	w.T.Helper()
	for _, name := range []string{"taint_eviction_controller_pod_deletion_duration_seconds", "taintkeeper_eviction_lateness_seconds"} {
		histograms := w.Metrics(name, nil)
		if len(histograms) != 1 || histograms[0].GetHistogram().GetSampleSum() != want.Seconds() {
			w.T.Errorf("%s observed %v, want %v in all", name, histograms, want)
		}
	}
}

func (w *world) wantNoMetric(name string) {
	w.T.Helper()
	if got, ok := w.metric(name, ""); ok {
		w.T.Errorf("%s is %v, want it absent", name, got)
	}
}

// wantDeletes fails unless exactly the given pods were deleted, each once, at the given instant.
func (w *world) wantDeletes(want map[string]time.Duration) {
	w.T.Helper()
	got := map[string][]time.Duration{}
	for _, c := range w.Book.Calls() {
		if name, ok := strings.CutPrefix(c.What, "delete "); ok {
			got[name] = append(got[name], c.At)
		}
	}
	for name, at := range want {
		if !slices.Equal(got[name], []time.Duration{at}) {
			w.T.Errorf("pod %s was deleted at %v, want once, at %v", name, got[name], at)
		}
	}
	for name, at := range got {
		if _, ok := want[name]; !ok {
			w.T.Errorf("pod %s was deleted at %v, want never", name, at)
		}
	}
}
