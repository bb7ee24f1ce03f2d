// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// world is a cluster of client-go's fake clientset in virtual time, with our whole Evictor at
// work in it. What the API server would refuse is refused by reactors of the single tests.
type world struct {
	t        *testing.T
	client   *fake.Clientset
	book     *bubble.Book // of the calls that change something
	registry *prometheus.Registry
	start    time.Time
	clock    *timeline.Clock // knows the API server's exactly
	stop     func()
}

// play runs a test in a bubble of virtual time.
func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	playIn(t, fake.NewClientset, test)
}

// playMany is play for many objects, whose managed fields are not kept: they cost the fake clientset milliseconds a
// call.
func playMany(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	playIn(t, fake.NewSimpleClientset, test)
}

func playIn(t *testing.T, newClientset func(objects ...runtime.Object) *fake.Clientset, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, clock := newClientset(), &timeline.Clock{}
		bubble.TellTime(client, clock)
		test(t, &world{t: t, client: client, book: bubble.NewBook(client, describe), start: time.Now(), clock: clock})
	})
}

// describe has words for calls that change something.
func describe(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		return "delete " + action.Name
	case clienttesting.PatchActionImpl:
		return "patch " + action.Name
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			return "event " + event.Message
		}
	}
	return ""
}

// run starts an Evictor, and stops it when the test ends or stop is called.
func (w *world) run(change ...func(*Config)) {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	config := Config{Client: w.client, Registerer: w.registry, Clock: w.clock}
	for _, apply := range change {
		apply(&config)
	}
	evictor, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = bubble.Run(w.t, "the Evictor", evictor.Run)
}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

// inCall lets virtual time pass inside a call to the API server.
func (w *world) inCall(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
}

// until lets virtual time pass up to an instant since the world began.
func (w *world) until(at time.Duration) { w.pass(at - time.Since(w.start)) }

func (w *world) addNode(name string, specs ...string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-node-" + name)}}
	node.Spec.Taints = w.edit(nil, specs...)
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
}

// addStampedNode creates a node whose taints have a timeAdded: the second before now.
func (w *world) addStampedNode(name string, specs ...string) {
	w.t.Helper()
	stamped := w.edit(nil, specs...)
	for i := range stamped {
		stamped[i].TimeAdded = &metav1.Time{Time: time.Now().Add(-time.Second)}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-node-" + name)}}
	node.Spec.Taints = stamped
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	w.must(nil, w.client.CoreV1().Nodes().Delete(w.t.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

func (w *world) edit(current []corev1.Taint, specs ...string) []corev1.Taint {
	w.t.Helper()
	if len(specs) == 0 {
		return current
	}
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		w.t.Fatal(err)
	}
	edited, err := edit.Apply(current, taints.OverwriteExisting)
	if err != nil {
		w.t.Fatal(err)
	}
	return edited
}

// taint edits a node's taints as kubectl does, and lets what can happen happen.
func (w *world) taint(name string, specs ...string) {
	w.t.Helper()
	node := w.node(name)
	node.Spec.Taints = w.edit(node.Spec.Taints, specs...)
	w.updateNode(node)
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *world) updateNode(node *corev1.Node) {
	w.t.Helper()
	w.must(w.client.CoreV1().Nodes().Update(w.t.Context(), node, metav1.UpdateOptions{}))
	synctest.Wait()
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// addPod creates a pod that is bound to node "n" unless a change says otherwise.
func (w *world) addPod(name string, change ...func(*corev1.Pod)) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Generation: 7,
			CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
	for _, apply := range change {
		apply(pod)
	}
	w.must(w.client.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}))
	synctest.Wait()
}

func (w *world) deletePod(namespace, name string) {
	w.t.Helper()
	w.must(nil, w.client.CoreV1().Pods(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// changePod updates a pod.
func (w *world) changePod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod := w.pod(name)
	change(pod)
	w.must(w.client.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}))
	synctest.Wait()
}

// tolerating makes a pod tolerate NoExecute taints of a key for some seconds.
func tolerating(key string, seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
}

// on makes the API server answer calls of a verb ("delete", "patch") on pods, or pods/status, by
// an error for as long as the function returns one.
func (w *world) on(verb, resource, subresource string, answer func() error) {
	w.book.Refuse(verb, resource, subresource, answer)
}

// did returns the instants of the calls whose description begins with the given words.
func (w *world) did(words string) []time.Duration { return w.book.When(words) }

// wantTries wants calls whose description begins with the given words: at an instant, and then each after a backoff, of
// which up to a fifth is taken off.
func (w *world) wantTries(words string, first time.Duration, backoffs ...time.Duration) {
	w.t.Helper()
	got := w.did(words)
	right := len(got) == len(backoffs)+1 && got[0] == first
	for i := 0; right && i < len(backoffs); i++ {
		waited := got[i+1] - got[i]
		right = waited <= backoffs[i] && waited >= backoffs[i]*4/5
	}
	if !right {
		w.t.Fatalf("%q at %v, want at %s and then after %v", words, got, first, backoffs)
	}
}

// deleted returns the names of the deleted pods, in order.
func (w *world) deleted() []string {
	var names []string
	for _, c := range w.book.Calls() {
		if name, ok := strings.CutPrefix(c.What, "delete "); ok {
			names = append(names, name)
		}
	}
	return names
}

// metric returns the value of a counter or gauge with the given label value, if it is there.
func (w *world) metric(name, label string) (float64, bool) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (label == "" || metric.GetLabel()[0].GetValue() == label) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

func (w *world) wantMetric(name, label string, want float64) {
	w.t.Helper()
	if got, ok := w.metric(name, label); !ok || got != want {
		w.t.Errorf("%s{%s} is %v (there: %t), want %v", name, label, got, ok, want)
	}
}

// wantLateness checks the sum of both histograms, upstream's and ours, in seconds.
func (w *world) wantLateness(want time.Duration) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, family := range families {
		if histogram := family.GetMetric()[0].GetHistogram(); histogram != nil {
			sums[family.GetName()] = histogram.GetSampleSum()
		}
	}
	for _, name := range []string{"taint_eviction_controller_pod_deletion_duration_seconds", "taintkeeper_eviction_lateness_seconds"} {
		if got, ok := sums[name]; !ok || got != want.Seconds() {
			w.t.Errorf("%s observed %v in all (there: %t), want %v", name, got, ok, want.Seconds())
		}
	}
}

func (w *world) wantNoMetric(name string) {
	w.t.Helper()
	if got, ok := w.metric(name, ""); ok {
		w.t.Errorf("%s is %v, want it absent", name, got)
	}
}

// wantDeletes fails unless exactly the given pods were deleted, each once, at the given instant.
func (w *world) wantDeletes(want map[string]time.Duration) {
	w.t.Helper()
	got := map[string][]time.Duration{}
	for _, c := range w.book.Calls() {
		if name, ok := strings.CutPrefix(c.What, "delete "); ok {
			got[name] = append(got[name], c.At)
		}
	}
	for name, at := range want {
		if !slices.Equal(got[name], []time.Duration{at}) {
			w.t.Errorf("pod %s was deleted at %v, want once, at %v", name, got[name], at)
		}
	}
	for name, at := range got {
		if _, ok := want[name]; !ok {
			w.t.Errorf("pod %s was deleted at %v, want never", name, at)
		}
	}
}
