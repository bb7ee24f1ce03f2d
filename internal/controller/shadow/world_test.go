// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const sec = time.Second

// world is a cluster of client-go's fake clientset in virtual time, with a Comparison at work in it. The built-in is
// played by the tests; what upstream's own controller is seen to do is in test/parity/evictions.
type world struct {
	t          *testing.T
	client     *fake.Clientset
	book       *bubble.Book // of the calls that change something
	registry   *prometheus.Registry
	comparison *Comparison
	start      time.Time
	clock      *timeline.Clock // knows the API server's exactly
}

// play runs a test in a bubble of virtual time. The Comparison does not run yet.
func play(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := &world{t: t, client: client, start: time.Now(), clock: &timeline.Clock{}}
		bubble.TellTime(client, w.clock)
		w.book = bubble.NewBook(client, func(action clienttesting.Action) string {
			if event, ok := action.(clienttesting.CreateActionImpl); ok && action.GetResource().Resource == "events" {
				return "event " + event.Object.(*corev1.Event).Reason + " " + event.Object.(*corev1.Event).Message
			}
			return ""
		})
		test(w)
	})
}

// run starts the Comparison.
func (w *world) run() {
	w.t.Helper()
	w.registry = prometheus.NewPedanticRegistry()
	var err error
	if w.comparison, err = New(Config{Client: w.client, Registerer: w.registry, Clock: w.clock}); err != nil {
		w.t.Fatal(err)
	}
	bubble.Run(w.t, "the Comparison", w.comparison.Run)
}

// until lets virtual time pass up to an instant since the world began.
func (w *world) until(at time.Duration) {
	time.Sleep(at - time.Since(w.start)) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// addNode adds node "n".
func (w *world) addNode() {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-of-n"}}
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
}

// taint edits the node's taints as kubectl does.
func (w *world) taint(specs ...string) {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), "n", metav1.GetOptions{})
	w.must(node, err)
	edit, err := taints.ParseEdit(specs...)
	w.must(edit, err)
	node.Spec.Taints, err = edit.Apply(node.Spec.Taints, taints.OverwriteExisting)
	w.must(node.Spec.Taints, err)
	w.must(w.client.CoreV1().Nodes().Update(w.t.Context(), node, metav1.UpdateOptions{}))
}

// addPod binds a pod to node "n". It tolerates the key "k" for some seconds, or not at all.
func (w *world) addPod(name string, seconds int64) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
			CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
	if seconds > 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}}
	}
	w.must(w.client.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}))
}

func (w *world) changePod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(pod, err)
	change(pod)
	w.must(w.client.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}))
}

const builtInMark = "Taint manager: deleting due to NoExecute taint"

// mark marks a pod for deletion as a taint eviction does: the built-in's message, or ours.
func (w *world) mark(name, message string) {
	w.t.Helper()
	w.changePod(name, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: podcache.EvictionReason, Message: message,
			LastTransitionTime: metav1.Now(),
		}}
	})
}

// end deletes a pod with a grace period of 30 s, which it takes.
func (w *world) end(name string) {
	w.t.Helper()
	const grace = 30
	w.changePod(name, func(pod *corev1.Pod) {
		at := metav1.NewTime(time.Now().Add(grace * sec).Truncate(time.Second))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, new(int64(grace))
	})
}

// evict does what the built-in does.
func (w *world) evict(name string) {
	w.t.Helper()
	w.mark(name, builtInMark)
	w.end(name)
}

func (w *world) remove(name string) {
	w.t.Helper()
	w.must(nil, w.client.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// wantPods checks how many pods were counted, of the outcomes that are given, and that there are none of the others: in
// the report and in the metric.
func (w *world) wantPods(want map[Outcome]int) {
	w.t.Helper()
	for outcome, got := range w.comparison.Report().Pods {
		if got != want[outcome] {
			w.t.Errorf("%d pods are %s, want %d", got, outcome, want[outcome])
		}
		metric := testutil.ToFloat64(w.comparison.book.report.metrics.pods.WithLabelValues(string(outcome)))
		if int(metric) != got {
			w.t.Errorf("the report has %d pods that are %s, the metric %v", got, outcome, metric)
		}
	}
}

// wantSaid checks the sentences of the report, newest first: each has to contain what is given.
func (w *world) wantSaid(want ...string) {
	w.t.Helper()
	said := w.comparison.Report().Differences
	if len(said) != len(want) {
		w.t.Fatalf("%d differences, want %d: %+v", len(said), len(want), said)
	}
	for i := range want {
		if !strings.Contains(said[i].Sentence, want[i]) {
			w.t.Errorf("%q is said of pod %s, want %q in it", said[i].Sentence, said[i].Pod, want[i])
		}
	}
}
