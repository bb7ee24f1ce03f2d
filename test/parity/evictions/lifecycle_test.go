// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// Here upstream's node-lifecycle controller itself sets the taints, and swaps them, as kubelets come and go. The
// evictor is upstream's or ours.

// How kubelets and upstream's node-lifecycle controller behave by default.
const (
	statusEvery = 10 * sec
	healthEvery = 5 * sec
	silentAfter = 50 * sec
)

// ward is a cluster of one node that is sick, two that are not, and upstream's node-lifecycle controller.
type ward struct {
	t      *testing.T
	client *fake.Clientset

	mu      sync.Mutex
	deletes outcome
	silent  bool // the sick node's kubelet
	ready   bool
}

// playWard plays in a bubble of virtual time. The evictor starts when the script says so.
func playWard(t *testing.T, evictor contestant, script func(w *ward, evictor *arena.Process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset() // the other one keeps managed fields, which cost it milliseconds a call
		w := &ward{t: t, client: client, deletes: outcome{}, ready: true}
		w.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.deletes.note(action.(clienttesting.DeleteAction).GetName(), arena.Now())
			return false, nil, nil
		})
		for _, name := range []string{"sick", "well-1", "well-2"} {
			w.register(name)
		}
		w.until(sec)
		bubble.Run(t, "upstream's node-lifecycle controller", w.lifecycle)
		script(w, &arena.Process{T: t, Run: func(ctx context.Context) error { return evictor(ctx, w.client) }})
	})
}

// lifecycle is upstream's node-lifecycle controller with the defaults of kube-controller-manager.
func (w *ward) lifecycle(ctx context.Context) error {
	const (
		startup         = 60 * sec
		rate, slower    = 0.1, 0.01
		large, diseased = 50, 0.55
	)
	factory := informers.NewSharedInformerFactory(w.client, 0)
	defer factory.Shutdown()
	core := factory.Core().V1()
	controller, err := nodelifecycle.NewNodeLifecycleController(ctx, factory.Coordination().V1().Leases(), core.Pods(), core.Nodes(),
		factory.Apps().V1().DaemonSets(), arena.WithEvents(w.client, func(*corev1.Event) {}), healthEvery, startup, silentAfter, rate, slower, large, diseased)
	if err != nil {
		return fmt.Errorf("make upstream's node-lifecycle controller: %w", err)
	}
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", core.Pods().Informer().HasSyncedChecker(), core.Nodes().Informer().HasSyncedChecker())
	controller.Run(ctx)
	return nil
}

func (w *ward) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// register creates a node with its kubelet, which reports as often as kubelets do.
func (w *ward) register(name string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
	w.must(w.client.CoordinationV1().Leases(lease.Namespace).Create(w.t.Context(), lease, metav1.CreateOptions{}))
	w.report(name)
}

func (w *ward) report(name string) {
	w.mu.Lock()
	silent, ready := name == "sick" && w.silent, name != "sick" || w.ready
	w.mu.Unlock()
	if !silent {
		w.post(name, ready)
	}
	time.AfterFunc(statusEvery, func() {
		if w.t.Context().Err() == nil {
			w.report(name)
		}
	})
}

// post renews a node's lease and, if something changed, writes its status.
func (w *ward) post(name string, ready bool) {
	ctx, now := w.t.Context(), metav1.Now()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Time}
	w.must(w.client.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{}))
	node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	w.must(node, err)
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	if len(node.Status.Conditions) > 0 && node.Status.Conditions[0].Type == corev1.NodeReady && node.Status.Conditions[0].Status == status {
		return
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: now, LastTransitionTime: now}}
	w.must(w.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))
}

// kubelet says how the sick node's kubelet behaves from now on. A report comes at once.
func (w *ward) kubelet(ready, silent bool) {
	w.mu.Lock()
	w.ready, w.silent = ready, silent
	w.mu.Unlock()
	if !silent {
		w.post("sick", ready)
	}
}

// addPod binds a pod to the sick node. It has the tolerations that the API server gives to every pod.
func (w *ward) addPod(name string) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: "sick"},
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerating(key, 300)...)
	}
	w.must(w.client.CoreV1().Pods(namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}))
}

func (w *ward) until(at time.Duration) {
	arena.Sleep(at - arena.Now())
	synctest.Wait()
}

// untilTainted lets time pass until the sick node has the NoExecute taint with a key and no other, and returns the
// instant to the tenth of a second.
func (w *ward) untilTainted(key string) time.Duration {
	w.t.Helper()
	for deadline := arena.Now() + 10*time.Minute; arena.Now() < deadline; w.until(arena.Now().Truncate(100*ms) + 100*ms) {
		node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), "sick", metav1.GetOptions{})
		w.must(node, err)
		keys := []string{}
		for _, taint := range node.Spec.Taints {
			if taint.Effect == corev1.TaintEffectNoExecute {
				keys = append(keys, taint.Key)
			}
		}
		if slices.Equal(keys, []string{key}) {
			return arena.Now()
		}
	}
	w.t.Fatalf("upstream's node-lifecycle controller did not set %s", key)
	return 0
}

// wantDelete checks that a pod was deleted once, within a second from an instant.
func (w *ward) wantDelete(name string, at time.Duration) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.deletes[name]; len(got) != 1 || (got[0]-at).Abs() > sec {
		w.t.Errorf("pod %s was deleted at %s, want once, at %s", name, when(got), arena.Clock(at))
	}
}

// bothTend plays a script with both evictors.
func bothTend(t *testing.T, script func(w *ward, evictor *arena.Process, who string)) {
	t.Helper()
	for who, c := range map[string]contestant{"ours": ours, "upstream": upstream} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			playWard(t, c, func(w *ward, evictor *arena.Process) {
				evictor.Start()
				w.addPod("p")
				w.until(60 * sec)
				script(w, evictor, who)
				evictor.Kill()
			})
		})
	}
}

func TestANodeThatIsNotReadyAndThenSilentLosesItsPodsInTimeWithBoth(t *testing.T) {
	bothTend(t, func(w *ward, _ *arena.Process, _ string) {
		w.kubelet(false, false)
		first := w.untilTainted(corev1.TaintNodeNotReady)
		w.until(first + 200*sec)
		w.kubelet(false, true)
		if swapped := w.untilTainted(corev1.TaintNodeUnreachable); swapped > first+290*sec {
			w.t.Errorf("the swap came %s after the first taint", swapped-first)
		}
		w.until(first + 1000*sec)
		w.wantDelete("p", first+300*sec)
	})
}

func TestANodeThatIsSickNowThisWayNowThatForTwoHoursLosesItsPodsInTimeWithBoth(t *testing.T) {
	bothTend(t, func(w *ward, _ *arena.Process, _ string) {
		w.kubelet(false, false)
		first := w.untilTainted(corev1.TaintNodeNotReady)
		var second time.Duration
		for swaps := 0; arena.Now() < first+2*time.Hour; swaps++ {
			w.until(first + time.Duration(2*swaps+1)*240*sec - silentAfter)
			w.kubelet(false, true)
			w.untilTainted(corev1.TaintNodeUnreachable)
			if swaps == 2 {
				w.addPod("q")
				second = arena.Now()
			}
			w.until(first + time.Duration(2*swaps+2)*240*sec)
			w.kubelet(false, false)
			w.untilTainted(corev1.TaintNodeNotReady)
		}
		w.wantDelete("p", first+300*sec)
		w.wantDelete("q", second+300*sec)
	})
}

func TestANodeThatWasReadyInBetweenCountsAgainWithBoth(t *testing.T) {
	bothTend(t, func(w *ward, _ *arena.Process, _ string) {
		w.kubelet(false, false)
		first := w.untilTainted(corev1.TaintNodeNotReady)
		w.until(first + 200*sec)
		w.kubelet(true, false)
		w.until(first + 230*sec)
		w.kubelet(true, true)
		second := w.untilTainted(corev1.TaintNodeUnreachable)
		w.until(second + 1000*sec)
		w.wantDelete("p", second+300*sec)
	})
}

func TestASwapOutlastsARestartWithOursAndUpstreamStartsAgain(t *testing.T) {
	bothTend(t, func(w *ward, evictor *arena.Process, who string) {
		w.kubelet(false, false)
		first := w.untilTainted(corev1.TaintNodeNotReady)
		w.until(first + 200*sec)
		w.kubelet(false, true)
		w.untilTainted(corev1.TaintNodeUnreachable)
		w.until(first + 280*sec)
		evictor.Kill()
		evictor.Start()
		w.until(first + 1000*sec)
		w.wantDelete("p", map[string]time.Duration{"ours": first + 300*sec, "upstream": first + 580*sec}[who])
	})
}
