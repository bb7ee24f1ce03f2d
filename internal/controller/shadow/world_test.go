// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const sec = time.Second

func TestMain(m *testing.M) { bubble.Main(m) }

// world is a cluster with a Comparison at work in it. The built-in is played by the tests; what upstream's own
// controller does is observed in test/parity/histories.
type world struct {
	*bubble.World

	comparison *Comparison
	writes     []write
	refusal    atomic.Pointer[error] // why the API server does not write the report
	log        []string              // lines about the report
}

// write is a write of the report.
type write struct {
	at   time.Duration
	data map[string]string
}

// play runs a test in a bubble of virtual time. The Comparison does not run yet.
func play(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble.Play(t, func(action clienttesting.Action) string {
		if event, ok := action.(clienttesting.CreateActionImpl); ok && action.GetResource().Resource == "events" {
			return "event " + event.Object.(*corev1.Event).Reason + " " + event.Object.(*corev1.Event).Message
		}
		return ""
	}, func(base *bubble.World) {
		w := &world{World: base}
		w.Client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if refusal := w.refusal.Load(); refusal != nil {
				return true, nil, *refusal
			}
			applied := &corev1.ConfigMap{}
			w.Must(nil, json.Unmarshal(action.(clienttesting.PatchActionImpl).Patch, applied))
			if applied.Namespace != "home" || applied.Name != v1alpha1.ShadowConfigMap {
				t.Errorf("it writes ConfigMap %s/%s", applied.Namespace, applied.Name)
			}
			w.writes = append(w.writes, write{w.Now(), applied.Data})
			return true, applied, nil
		})
		test(w)
	})
}

// run starts the Comparison.
func (w *world) run() {
	w.T.Helper()
	registry, caches := prometheus.NewPedanticRegistry(), caches.New(w.Client, w.Clock, true)
	w.Registry = registry
	var err error
	w.comparison, err = New(Config{
		Client: w.Client, Namespace: "home", EventClient: w.Client, Nodes: caches.Nodes, Pods: caches.Pods, Registerer: registry, Clock: w.Clock,
		Logger: funcr.New(func(_, line string) {
			if strings.Contains(line, "Cannot write") {
				w.log = append(w.log, line)
			}
		}, funcr.Options{}),
	})
	w.Must(nil, err)
	w.Run("the Comparison", caches.With(w.comparison.Run))
}

func (w *world) addNode() { w.AddNode("n", "") }

// taint edits the node's taints as kubectl does.
func (w *world) taint(specs ...string) { w.Taint("n", specs...) }

// addPod binds a pod to node "n". It tolerates the key "k" for some seconds, or not at all.
func (w *world) addPod(name string, seconds int64) {
	w.T.Helper()
	w.AddPod(name, "n", func(pod *corev1.Pod) {
		if seconds > 0 {
			scene.Tolerating("k", seconds)(pod)
		}
	})
}

const builtInMark = "Taint manager: deleting due to NoExecute taint"

// mark marks a pod for deletion as a taint eviction does: the built-in's message, or ours.
func (w *world) mark(name, message string) {
	w.T.Helper()
	w.ChangePod(name, func(pod *corev1.Pod) { pod.Status.Conditions = builtInCondition(message) })
}

func builtInCondition(message string) []corev1.PodCondition {
	return []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason, Message: message,
		LastTransitionTime: metav1.Now(),
	}}
}

// end deletes a pod with a grace period of 30 s, all of which it takes.
func (w *world) end(name string) {
	w.T.Helper()
	const grace = 30
	w.ChangePod(name, func(pod *corev1.Pod) {
		at := metav1.NewTime(time.Now().Add(grace * sec).Truncate(time.Second))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, new(int64(grace))
	})
}

// evict does what the built-in does.
func (w *world) evict(name string) {
	w.T.Helper()
	w.mark(name, builtInMark)
	w.end(name)
}

func (w *world) remove(name string) { w.DeletePod("default", name) }

// wantPods checks, in the report and in the metric, how many pods were counted with the given outcomes, and that there
// are none with other outcomes.
func (w *world) wantPods(want map[v1alpha1.ShadowOutcome]int) {
	w.T.Helper()
	var metric strings.Builder
	metric.WriteString("# HELP taintkeeper_shadow_pods_total " + podsHelp + "\n# TYPE taintkeeper_shadow_pods_total counter\n")
	for outcome, got := range w.comparison.Report().Pods {
		if got != want[outcome] {
			w.T.Errorf("%d pods are %s, want %d", got, outcome, want[outcome])
		}
		fmt.Fprintf(&metric, "taintkeeper_shadow_pods_total{outcome=%q} %d\n", outcome, want[outcome])
	}
	w.Must(nil, testutil.GatherAndCompare(w.Registry, strings.NewReader(metric.String()), "taintkeeper_shadow_pods_total"))
}

// wantSaid checks the sentences of the report, newest first: each must contain what is given.
func (w *world) wantSaid(want ...string) {
	w.T.Helper()
	said := w.comparison.Report().Differences
	if len(said) != len(want) {
		w.T.Fatalf("%d differences, want %d: %+v", len(said), len(want), said)
	}
	for i := range want {
		if !strings.Contains(said[i].Sentence, want[i]) {
			w.T.Errorf("%q was about pod %s, want %q in it", said[i].Sentence, said[i].Pod, want[i])
		}
	}
}
