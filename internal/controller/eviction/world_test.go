// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	ms   = time.Millisecond
	sec  = time.Second
	hour = time.Hour
)

func TestMain(m *testing.M) { bubble.Main(m) }

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

// act is something that happens in a world, or a check of it.
type act = func(w *world)

// tale is what happens to pod "p" of node "n". The pod tolerates nothing and the node has no taint, unless the tale has
// it otherwise.
type tale struct {
	given   []act               // before the pod is there, and the Evictor
	pod     []func(*corev1.Pod) // changes of the pod
	config  []func(*Config)
	happens []act // from the first second on; nil means that taint "k" is set. An hour passes after it
	want    []act
}

// playTales plays tales by their names.
func playTales(t *testing.T, tales map[string]tale) {
	t.Helper()
	for name, tale := range tales {
		t.Run(name, func(t *testing.T) { play(t, func(_ *testing.T, w *world) { tale.in(w) }) })
	}
}

func (s *tale) in(w *world) {
	w.T.Helper()
	all := func(acts []act) {
		for _, do := range acts {
			do(w)
		}
	}
	all(s.given)
	if _, err := w.API.Get(nodeResource, "", "n"); err != nil {
		w.addNode("n")
	}
	w.addPod("p", s.pod...)
	w.run(s.config...)
	w.Until(sec)
	if s.happens == nil {
		tainted("n", "k:NoExecute")(w)
	}
	all(s.happens)
	w.Pass(hour)
	all(s.want)
}

var (
	nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource  = corev1.SchemeGroupVersion.WithResource("pods")
)

// at lets something happen at an instant since the world began.
func at(when time.Duration, do ...act) act {
	return func(w *world) {
		w.Until(when)
		for _, each := range do {
			each(w)
		}
	}
}

func tainted(node string, specs ...string) act { return func(w *world) { w.Taint(node, specs...) } }

// during says whether a call, of which it is the first or the second and so on, is disturbed.
type during func(call int, now time.Duration) bool

func times(n int) during { return func(call int, _ time.Duration) bool { return call <= n } }
func before(end time.Duration) during {
	return func(_ int, now time.Duration) bool { return now < end }
}
func always(int, time.Duration) bool { return true }

func failDeletes(err error, some during) act { return refuses("delete", "pods", "", err, some) }
func failMarks(err error, some during) act   { return refuses("patch", "pods", "status", err, some) }
func failReads(err error, some during) act   { return refuses("get", "pods", "", err, some) }
func failStamps(err error, some during) act  { return refuses("patch", "nodes", "", err, some) }

// refuses makes the API server answer some calls with an error.
func refuses(verb, resource, subresource string, err error, some during) act {
	return func(w *world) {
		var calls atomic.Int32
		w.On(verb, resource, subresource, func() error {
			if some(int(calls.Add(1)), w.Now()) {
				return err
			}
			return nil
		})
	}
}

var (
	errInternal    = apierrors.NewInternalError(errors.New("not now"))
	errUnreachable = errors.New("connection refused")
	errForbidden   = apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("denied by a policy"))
)

// hang lets a reactor take its time without holding up the other calls to the fake clientset.
func (w *world) hang(d time.Duration) {
	w.Client.Unlock()
	w.InCall(d)
	w.Client.Lock()
}

// answers makes the API server answer calls of a verb on a resource with an object, for which it may take its time.
func (w *world) answers(verb, resource string, answer func(action clienttesting.Action) (runtime.Object, error)) {
	w.Client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := answer(action)
		return object != nil || err != nil, object, err
	})
}

// mutePodWatch brings nothing after the first list.
func mutePodWatch(w *world) {
	w.Client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

// slowServer is the API server of a world with admission that takes its time. Unlike a reactor of the fake clientset it
// sees, as a real one does, when a client gives a call up.
type slowServer struct {
	client *bubble.Slow

	// takes says how long a call takes ("get", "patch" or "delete", and the name of the node or pod), and how it then
	// fails, if it does.
	takes func(verb, name string) (time.Duration, error)

	mu         sync.Mutex
	open, most int // calls
}

// slow makes the world's API server slow.
func (w *world) slow(takes func(verb, name string) (time.Duration, error)) *slowServer {
	s := &slowServer{takes: takes}
	s.client = &bubble.Slow{Clientset: w.Client, Before: s.wait}
	return s
}

// behind makes an Evictor use it.
func (s *slowServer) behind(c *Config) { c.Client, c.EventClient = s.client, s.client.Clientset }

// wait lets the time of a call pass. Patches of nodes are as fast as ever.
func (s *slowServer) wait(ctx context.Context, r bubble.Request) error {
	if r.Verb == "patch" && r.Resource == "nodes" {
		return nil
	}
	s.count(1)
	defer s.count(-1)
	takes, err := s.takes(r.Verb, r.Name)
	if cancelled := bubble.Takes(ctx, takes); cancelled != nil {
		return cancelled
	}
	return err
}

func (s *slowServer) count(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += calls
	s.most = max(s.most, s.open)
}

// limited gives an Evictor a rate limit of calls.
func limited(perSecond float64) func(*Config) {
	return func(c *Config) { c.Limiter = rate.NewLimiter(rate.Limit(perSecond), 1) }
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

// stampedNode is node "n" with taint "k" since a second before the world began.
func stampedNode(w *world) { w.addStampedNode("n", "k:NoExecute") }

// addPod creates a pod that is bound to node "n" unless a change says otherwise.
func (w *world) addPod(name string, change ...func(*corev1.Pod)) {
	w.T.Helper()
	w.AddPod(name, "n", change...)
}

var tolerating = scene.Tolerating

func toleratingAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

func inNamespace(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = name }
}

func priorityOf(priority int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &priority }
}

// tolerationSeconds changes those of a pod's first toleration.
func tolerationSeconds(n int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = &n }
}

func changed(pod string, change func(*corev1.Pod)) act {
	return func(w *world) { w.ChangePod(pod, change) }
}

// marked gives a pod the condition with which an eviction by taint begins.
func marked(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason, Message: message,
		}}
	}
}

var (
	markedByUs      = marked(v1alpha1.MarkMessage)
	markedByBuiltIn = marked("Taint manager: deleting due to NoExecute taint")
)

func unmarked(pod *corev1.Pod) { pod.Status.Conditions = nil }

// did wants a number of calls whose description begins with the given words.
func did(words string, want int) act {
	return func(w *world) {
		w.T.Helper()
		if got := w.Did(words); len(got) != want {
			w.T.Errorf("%q at %v, want %d times", words, got, want)
		}
	}
}

// tries wants calls at an instant, and then each after a backoff, of which up to a fifth is removed.
func tries(words string, first time.Duration, backoffs ...time.Duration) act {
	return func(w *world) {
		w.T.Helper()
		got := w.Did(words)
		right := len(got) == len(backoffs)+1 && got[0] == first
		for i := 0; right && i < len(backoffs); i++ {
			waited := got[i+1] - got[i]
			right = waited <= backoffs[i] && waited >= backoffs[i]*4/5
		}
		if !right {
			w.T.Errorf("%q at %v, want at %s and then after %v", words, got, first, backoffs)
		}
	}
}

// once wants a pod to be deleted once, between two instants.
func once(pod string, from, to time.Duration) act {
	return func(w *world) {
		w.T.Helper()
		if got := w.Did("delete " + pod); len(got) != 1 || got[0] < from || got[0] > to {
			w.T.Errorf("%s was deleted at %v, want once, between %v and %v", pod, got, from, to)
		}
	}
}

// stays wants that pod "p" is neither deleted nor marked.
func stays(w *world) {
	w.T.Helper()
	did("delete p", 0)(w)
	did("patch p", 0)(w)
}

// deletedAt wants pod "p" to be deleted once, at an instant.
func deletedAt(want time.Duration) act { return once("p", want, want) }

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

// counts wants the value of a counter or gauge.
func counts(name, label string, want float64) act {
	return func(w *world) {
		w.T.Helper()
		if got, ok := w.metric(name, label); !ok || got != want {
			w.T.Errorf("after %v %s{%s} is %v (there: %t), want %v", w.Now(), name, label, got, ok, want)
		}
	}
}

// ended wants a number of evictions with a result.
func ended(as result, want float64) act {
	return counts("taintkeeper_evictions_total", string(as), want)
}

// lacks wants a metric to be absent.
func lacks(name string) act {
	return func(w *world) {
		w.T.Helper()
		if got, ok := w.metric(name, ""); ok {
			w.T.Errorf("%s is %v, want it absent", name, got)
		}
	}
}
