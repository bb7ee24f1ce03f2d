// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// slowDelete makes each delete take 10 s.
func slowDelete(verb, _ string) (time.Duration, error) {
	if verb == "delete" {
		return 10 * sec, nil
	}
	return 0, nil
}

func TestAnUntaintAbortsTheDeleteInFlight(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.run(w.slow(slowDelete).behind)
		w.until(sec)
		w.taint("n", "k:NoExecute")
		w.until(3 * sec)
		w.taint("n", "k-")
		w.pass(hour)
		w.wantDeletes(nil)
		if said := w.did("event Cancelling"); len(said) != 1 || said[0] != 3*sec {
			t.Errorf("'Cancelling deletion' was said at %v, want once, at the untaint", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
	})
}

func TestAnEvictionThatIsAbortedIsCarriedOutWhenThePodHasToLeaveAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.run(w.slow(slowDelete).behind)
		w.until(sec)
		w.taint("n", "k:NoExecute")
		w.until(3 * sec)
		w.taint("n", "k-")
		w.taint("n", "k:NoExecute")
		w.pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 13 * sec})
	})
}

func TestATolerationThatComesDuringTheDeleteAbortsIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 1))
		w.run(w.slow(slowDelete).behind)
		w.taint("n", "k:NoExecute")
		w.until(3 * sec)
		w.changePod("p", tolerationSeconds(60))
		w.pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 70 * sec})
		if said := w.did("event Cancelling"); len(said) != 0 {
			t.Errorf("'Cancelling deletion' was said at %v of a pod that leaves later", said)
		}
	})
}

// An API server that does not notice that a call was given up.
func TestNothingIsSaidToBeCancelledThatIsDeletedAllTheSame(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			w.hang(10 * sec)
			return false, nil, nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.until(sec)
		w.taint("n", "k:NoExecute")
		w.until(3 * sec)
		w.taint("n", "k-")
		w.pass(hour)
		if said := w.did("event Cancelling"); len(said) != 0 {
			t.Errorf("'Cancelling deletion' was said at %v of a pod that was deleted", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "deleted", 1)
	})
}

func TestRefusalsBackOffAndAreNamed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.on("delete", "pods", "", func() error {
			return apierrors.NewForbidden(podsResource, "p", errors.New("ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: not now"))
		})
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.pass(hour)
		if tries := len(w.did("delete p")); tries > 30 {
			t.Errorf("%d tries within an hour, want one every 4 to 5 minutes in the end", tries)
		}
		w.wantMetric("taintkeeper_refused_evictions", "policy keep", 1)
		if said := w.did("event Eviction of Pod default/p is refused by policy keep"); len(said) != 1 {
			t.Errorf("the refusal was said at %v, want once", said)
		}
		if got := w.pod("p").Status.Conditions[0]; got.Type != corev1.DisruptionTarget || !strings.HasSuffix(got.Message, "; the deletion is refused by policy keep") {
			t.Errorf("the condition is %v, want that it names the policy", got)
		}
		w.taint("n", "k-")
		w.pass(sec)
		w.wantNoMetric("taintkeeper_refused_evictions")
	})
}

// The delete of a pod comes back at the very moment at which its node is untainted.
func TestNothingIsSaidToBeCancelledThatIsDeletedAtThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		client := fake.NewClientset(pod, node)
		nodes, pods := newNodes(nodecache.New(client), &apicall.Clock{}), podcache.New(client)
		bubble.Run(t, "the cache of nodes", nodes.cache.Run)
		bubble.Run(t, "the cache of pods", pods.Run)
		record, _ := pods.Get("p")
		was := leaving{pod: record, due: time.Now()}

		slots, under := newSlots(1), &attempts{under: map[PodRequest]*attempt{}}
		events := newEvents(Evict, client)
		bubble.Run(t, "the events", func(ctx context.Context) error { events.Run(ctx); return nil })
		d := &decider{nodes: nodes, pods: pods, events: events, execute: newHandover(under, slots)}
		slots.take()
		begun, _ := under.get(was.request())
		try, _ := slots.begin(t.Context(), was.request(), "n", begun)

		slots.mu.Lock() // the decider is on its way to ask whether the eviction is carried out now
		go d.withdraw(t.Context(), "n", time.Now(), decision{"p": was}, nil)
		for under.begun(was.request()) {
			runtime.Gosched()
		}
		pods.MarkTerminating("p")
		try.over = true
		slots.mu.Unlock()
		synctest.Wait()
		slots.done(was.request())
		if said, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}); err != nil || len(said.Items) != 0 {
			t.Error("'Cancelling deletion' was said of a pod that was deleted")
		}
	})
}

// atTurn is a context that does something when a try asks whether its turn has come.
type atTurn struct {
	context.Context

	do func()
}

func (c atTurn) Err() error {
	c.do()
	return c.Context.Err()
}

// A node is untainted, and tainted again when the eviction has seen that it need not go on and is still known as begun.
func TestAnEvictionThatWasHandedOverWhileItEndedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		client := fake.NewClientset(pod)
		nodes, pods := newNodes(nodecache.New(client), &apicall.Clock{}), podcache.New(client)
		bubble.Run(t, "the cache of pods", pods.Run)
		slots, under, req := newSlots(1), &attempts{under: map[PodRequest]*attempt{}}, PodRequest{Namespace: "default", Name: "p", UID: "p"}
		x := &executor{judge: judge{clock: &apicall.Clock{}}, nodes: nodes, pods: pods, attempts: under, slots: slots, turns: &turns{}, metrics: newMetrics(), builtIn: alone{}}
		defer slots.done(req)
		slots.take()

		var result reconcile.Result
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			result, _ = x.Reconcile(atTurn{t.Context(), under.mu.Lock}, req)
		}()
		for slots.withdrawable(req) {
			runtime.Gosched()
		}
		nodes.observe(seenAt(time.Now(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}},
		}))
		under.mu.Unlock()
		<-ended
		if result.RequeueAfter == 0 {
			t.Error("the eviction is over, although it was begun when the node was tainted again")
		}
	})
}

// withdrawable reports whether a try has not begun or is not over.
func (s *slots) withdrawable(req PodRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.open[req]
	return !ok || !t.over
}

// The watch is late, and the node is untainted while the third refusal takes its time: the condition of a pod that
// stays is left alone.
func TestARefusalIsNotSaidOfAPodThatStaysByNow(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var tries atomic.Int32
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb != "delete" {
				return 0, nil
			}
			takes := time.Duration(0)
			if tries.Add(1) == troubleAfter {
				takes = 2 * sec
			}
			return takes, apierrors.NewForbidden(podsResource, "p", errors.New("ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: not now"))
		})
		w.laggingNodeWatch(10 * sec)
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(server.behind)
		for range 100 {
			if w.pass(100 * ms); tries.Load() == troubleAfter {
				break
			}
		}
		w.taint("n", "k-")
		w.pass(time.Minute)
		if n := tries.Load(); n != troubleAfter {
			t.Errorf("the delete was tried %d times, want %d: the last one is refused after the node is untainted", n, troubleAfter)
		}
		if got := w.pod("p").Status.Conditions[0]; strings.Contains(got.Message, "refused") {
			t.Errorf("the condition of a pod that stays was set again: %q", got.Message)
		}
	})
}
