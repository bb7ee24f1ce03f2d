// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const (
	unreachableNoSchedule = "unreachable:NoSchedule"
	unreachableNoExecute  = "unreachable:NoExecute"
	notReadyNoSchedule    = "not-ready:NoSchedule"
	notReadyNoExecute     = "not-ready:NoExecute"
)

var (
	errForbidden = apierrors.NewForbidden(corev1.Resource("nodes"), "x", errors.New("a webhook says no"))
	errNotNow    = apierrors.NewInternalError(errors.New("etcdserver: no leader"))
)

// answers makes the API server answer patches of one node, or of its status, with an error.
func (w *world) answers(node, subresource string, err error) {
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		return patch.Name == node && patch.GetSubresource() == subresource, nil, err
	})
}

// wantReady wants the Ready condition of a node.
func (w *world) wantReady(name string, want corev1.ConditionStatus) {
	w.T.Helper()
	if c := readiness.Condition(w.Node(name), corev1.NodeReady); c == nil || c.Status != want {
		w.T.Errorf("after %s the condition Ready of node %s is %v, want %s", w.Now(), name, c, want)
	}
}

// wantPodReady wants the Ready condition of pods.
func (w *world) wantPodReady(want corev1.ConditionStatus, names ...string) {
	w.T.Helper()
	for _, name := range names {
		if c := w.podReady(name); c.Status != want || c.Reason != "Told" || want == corev1.ConditionFalse && c.LastTransitionTime.IsZero() {
			w.T.Errorf("after %s pod %s has %+v, want %s with the reason that it had", w.Now(), name, c, want)
		}
	}
}

// wantOnce wants one call whose description begins with some words.
func (w *world) wantOnce(words string) {
	w.T.Helper()
	if at := w.Did(words); len(at) != 1 {
		w.T.Errorf("%q at %v, want once", words, at)
	}
}

// How a zone gives tokens and what a node should become is tested in package readiness, and how that turns out over
// time is compared with its forecast. Here is what the Controller makes of it.
func TestNodes(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	playStories(t, map[string]func(w *world){
		"a silent node is tainted when its grace period is over": func(w *world) {
			w.addZone("a", 3)
			w.run()
			w.Until(35 * time.Second)
			w.falls("a-0") // its last renewal was at 30 s
			w.Until(80 * time.Second)
			w.WantTaints("a-0")
			w.Until(81 * time.Second)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
			w.wantReady("a-0", corev1.ConditionUnknown)
			if patches := w.Did("patch nodes a-0/"); len(patches) != 2 {
				w.T.Errorf("patches at %v, want one of the conditions and one of both taints", patches)
			}
			w.wantOnce("event a-0 NodeNotReady Node a-0 status is now: NodeNotReady")
			w.wantUntouched("a-1", "a-2")
		},
		"a pressure and a cordon keep pods away for as long as they last": func(w *world) {
			w.addZone("a", 3)
			w.run()
			w.Report("a-0", corev1.NodeDiskPressure, corev1.ConditionTrue)
			w.WantTaints("a-0", "disk-pressure:NoSchedule")
			w.Report("a-0", corev1.NodeDiskPressure, corev1.ConditionFalse)
			w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.WantTaints("a-0", "unschedulable:NoSchedule")
			w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = false })
			w.WantTaints("a-0")
		},
		"nodes are tainted at the rate of their zone, in the order in which they fell": func(w *world) {
			nodes := w.addZone("a", 10)
			w.run()
			for _, name := range nodes[:4] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			for i := range 4 {
				w.Until(time.Duration(i)*10*time.Second + time.Second)
				w.wantTainted(i+1, nodes...)
				w.wantTainted(i+1, nodes[:i+1]...)
			}
			w.wantOnce("event a-2 NoExecuteTaintHeld Taint node.kubernetes.io/not-ready:NoExecute is held back: zone /a is in state Normal")
			w.WantMetric("node_collector_evictions_total", nil, 4)
		},
		"a small zone in partial disruption is left alone": func(w *world) {
			w.addZone("b", 1)
			nodes := w.addZone("a", 10)
			w.run()
			w.falls(nodes[:6]...)
			w.Until(10 * time.Minute)
			w.wantTainted(0, nodes...)
			w.WantTaints("a-0", unreachableNoSchedule)
			w.WantMetric("taintkeeper_zone_state", map[string]string{"zone": "/a", "state": "PartialDisruption"}, 1)
			w.WantMetric("taintkeeper_zone_taint_rate", map[string]string{"zone": "/a"}, 0)
			w.WantMetric("taintkeeper_zone_held_nodes", map[string]string{"zone": "/a"}, 6)
			w.WantMetric("node_collector_zone_health", map[string]string{"zone": ":\x00:a"}, 40)
			if events := w.Did("event a-5 NoExecuteTaintHeld"); len(events) == 0 {
				w.T.Error("no event says why a-5 is not tainted")
			}
			w.resumes("a-0")
			w.Until(10*time.Minute + 45*time.Second) // 5 of 10: the zone is Normal again
			w.wantTainted(4, nodes...)
		},
		"no node is tainted when every node falls silent at the same moment": func(w *world) {
			nodes := append(w.addZone("a", 20), w.addZone("b", 20)...)
			w.run()
			w.falls(nodes...)
			w.Until(2 * time.Minute)
			w.wantTainted(0, nodes...)
			for _, name := range nodes {
				if patches := w.Did("patch nodes " + name + "/"); len(patches) != 2 {
					w.T.Fatalf("%s was patched at %v, want its conditions and its NoSchedule taint once", name, patches)
				}
			}
		},
		"when the disruption of all zones ends, every node has its grace period again": func(w *world) {
			nodes := w.addZone("a", 3)
			w.run()
			w.falls(nodes...)
			w.Until(30 * time.Second)
			w.Report("a-2", corev1.NodeReady, corev1.ConditionFalse) // its last sign of life
			w.Until(70 * time.Second)
			w.resumes("a-0")
			w.Until(70*time.Second + defaultGrace.Monitor - time.Second)
			w.wantReady("a-2", corev1.ConditionFalse) // as its kubelet posted
			w.Until(silentBy(70 * time.Second))
			w.wantReady("a-2", corev1.ConditionUnknown)
		},
		"taints are taken off in full disruption though the conditions of a node cannot be written for now": func(w *world) {
			nodes := w.addZone("a", 4)
			w.answers("a-3", "status", errNotNow)
			w.run()
			w.falls("a-0")
			w.Until(80 * time.Second)
			w.wantTainted(1, nodes...)
			w.falls(nodes...)
			w.Until(4 * time.Minute)
			w.wantTainted(0, nodes...)
		},
		"nodes that are excluded from disruption checks do not count": func(w *world) {
			w.addZone("b", 1)
			nodes := w.addZone("a", 10)
			for _, name := range nodes[5:] {
				w.ChangeNode(name, func(n *corev1.Node) { n.Labels[excludeDisruption] = "" })
			}
			w.run()
			w.falls(nodes[:3]...) // 3 of 5 that count: a small zone in partial disruption
			w.Until(3 * time.Minute)
			w.wantTainted(0, nodes...)
		},
		"one node that flaps does not keep its zone from being tainted": func(w *world) {
			w.addZone("b", 1)
			nodes := w.addZone("a", 10)
			w.run()
			for _, name := range nodes[:5] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			for range 150 { // twenty minutes; half of the time the zone is Normal
				w.Report("a-9", corev1.NodeReady, corev1.ConditionFalse)
				w.Until(w.Now() + 4*time.Second)
				w.Report("a-9", corev1.NodeReady, corev1.ConditionTrue)
				w.Until(w.Now() + 4*time.Second)
			}
			w.wantTainted(5, nodes[:5]...)
		},
		"a node that cannot be changed does not stop its zone": func(w *world) {
			nodes := w.addZone("a", 20)
			w.run()
			w.answers("a-7", "status", errForbidden) // a webhook; or its status is invalid and every patch a 422
			w.falls("a-7")
			for _, name := range nodes[:9] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			w.Until(65 * time.Second)
			w.wantTainted(7, nodes[:7]...)
			w.Until(time.Hour)
			w.WantTaints("a-8", notReadyNoExecute, notReadyNoSchedule)
		},
		"nodes whose conditions are refused are tainted at the rate of their zone": func(w *world) {
			nodes := w.addZone("a", 30)
			for _, name := range nodes[:10] {
				w.answers(name, "status", errForbidden)
			}
			w.run()
			w.Report("a-0", corev1.NodeDiskPressure, corev1.ConditionFalse)
			w.falls(nodes[:10]...)
			w.Until(2 * time.Minute)
			w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.Until(170 * time.Second)
			w.wantTainted(10, nodes...)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule, "unschedulable:NoSchedule")
		},
		// An admission policy refuses changes of node labels.
		"a label that is refused does not keep a node from its taints": func(w *world) {
			w.addZone("a", 3)
			w.addNode("n", "a", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
			w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return strings.Contains(string(action.(clienttesting.PatchActionImpl).Patch), "beta.kubernetes.io/os"), nil, errForbidden
			})
			w.run()
			w.falls("n")
			w.Until(2 * time.Minute)
			w.WantTaints("n", unreachableNoExecute, unreachableNoSchedule)
		},
		"a conflict is tried again until it succeeds": func(w *world) {
			w.addZone("a", 3)
			var tries atomic.Int32
			w.On("patch", "nodes", "", func() error {
				if tries.Add(1) < 20 {
					return apierrors.NewConflict(corev1.Resource("nodes"), "a-0", errors.New("changed"))
				}
				return nil
			})
			w.run()
			w.falls("a-0")
			w.Until(20 * time.Minute)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		},
		// Its kubelet has no lease, and is back just when it is considered silent; the watch of nodes is late.
		"a conflict means a live read, which may be a sign of life": func(w *world) {
			w.addZone("a", 3)
			late := w.API.Watches("nodes")
			w.run()
			w.Must(nil, w.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, "a-0"))
			w.Until(45 * time.Second)
			late.Hold()
			w.Report("a-0", corev1.NodeReady, corev1.ConditionTrue)
			w.Until(90 * time.Second)
			late.Release()
			w.Pass(time.Second)
			w.wantReady("a-0", corev1.ConditionTrue)
			w.WantTaints("a-0")
		},
		// Another client writes the node all the time, and the watch lags.
		"a dead node whose object others change faster than the watch brings it is called silent": func(w *world) {
			w.addZone("a", 3)
			late := w.API.Watches("nodes")
			w.run()
			w.falls("a-0")
			w.Until(40 * time.Second)
			late.Hold()
			for second := 41; second <= 60; second++ {
				w.ChangeNode("a-0", func(n *corev1.Node) { n.Labels["written"] = strconv.Itoa(second) })
				w.Until(time.Duration(second) * time.Second)
			}
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
			late.Release()
			w.Pass(time.Second)
		},
		// An API server that has just started can say so.
		"a node that a patch does not find is looked at again": func(w *world) {
			w.addZone("a", 3)
			var said atomic.Bool
			w.On("patch", "nodes", "status", func() error {
				if said.Swap(true) {
					return nil
				}
				return apierrors.NewNotFound(corev1.Resource("nodes"), "a-0")
			})
			w.run()
			w.falls("a-0")
			w.Until(2 * time.Minute)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		},
		"nodes that come and go are reported, also when the watch is interrupted": func(w *world) {
			w.addZone("a", 3)
			late := w.API.Watches("nodes")
			w.run()
			w.Until(5 * time.Second)
			w.addNode("new", "a")
			w.wantOnce("event new RegisteredNode Node new event: Registered Node new in Controller")
			late.Hold()
			w.Must(nil, w.Client.CoreV1().Nodes().Delete(w.T.Context(), "a-0", metav1.DeleteOptions{}))
			late.Expire()
			w.Until(time.Minute)
			w.wantOnce("event a-0 RemovingNode")
		},
		// A node that has its token cannot be tainted. controller-runtime counts each try that failed, as our own metric
		// does.
		"what controller-runtime counts as errors is true": func(w *world) {
			w.addZone("a", 5)
			w.On("patch", "nodes", "", func() error {
				if w.Now() > 3*time.Minute {
					return nil
				}
				return errNotNow
			})
			w.run()
			w.Until(7 * time.Second)
			before := bubble.ReconcileErrors(w.T, "node-health-taint")
			w.falls("a-0")
			w.Until(2 * time.Minute)
			failed := bubble.ReconcileErrors(w.T, "node-health-taint") - before
			if failed < 5 {
				w.T.Errorf("controller-runtime counts %v errors, want those of all tries", failed)
			}
			w.WantMetric("taintkeeper_node_health_retries_total", map[string]string{"reason": "InternalError"}, failed)
			w.Until(4 * time.Minute)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		},
		// This machine's clock is behind. The next leader's may be right: pods would then leave too early because of a
		// timeAdded that is too early.
		"timeAdded is the API server's time": func(w *world) {
			const behind = 5 * time.Minute
			clock := &timeline.Clock{}
			clock.Heard(time.Now().Add(behind), time.Now())
			w.addZone("a", 3)
			w.run(func(c *Config) { c.Clock = clock })
			w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
			w.WantTaints("a-0", notReadyNoExecute, notReadyNoSchedule)
			for _, taint := range w.Node("a-0").Spec.Taints {
				if early := time.Now().Add(behind).Truncate(time.Second).Sub(taint.TimeAdded.Time); early > 0 {
					w.T.Errorf("timeAdded of %s is %s before the API server's clock", taint.ToString(), early)
				}
			}
		},
	})
}

func TestPodsOfSilentNodes(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		"they are marked not ready, until all are done": func(w *world) {
			w.addZone("a", 3)
			w.addPod("p", "a-0")
			w.addPod("q", "a-0")
			w.addPod("other", "a-1")
			var refused atomic.Int32
			w.On("patch", "pods", "status", func() error {
				if refused.Add(1) < 10 {
					return errNotNow
				}
				return nil
			})
			before := bubble.ReconcileErrors(w.T, "node-health-mark")
			w.run()
			w.falls("a-0")
			w.Until(2 * time.Minute)
			w.wantPodReady(corev1.ConditionFalse, "p", "q")
			w.wantPodReady(corev1.ConditionTrue, "other")
			w.wantOnce("event p NodeNotReady Node is not ready")
			w.addPod("late", "a-0") // bound to a node that is silent
			w.wantPodReady(corev1.ConditionFalse, "late")
			if failed := bubble.ReconcileErrors(w.T, "node-health-mark") - before; failed < 5 {
				w.T.Errorf("controller-runtime counts %v errors, want those of all tries", failed)
			}
		},
		"a mark is decided about once it has its token": func(w *world) {
			w.addZone("a", 3)
			for i := range 6 {
				w.addPod(fmt.Sprint("p", i), "a-0")
			}
			w.run(func(c *Config) { c.Limiter = rate.NewLimiter(0.1, 1) }) // one call in ten seconds
			w.Pass(time.Minute)
			w.falls("a-0")
			for len(w.Did("patch pods p")) < 2 && w.Now() < 10*time.Minute {
				w.Pass(time.Second)
			}
			w.Pass(2 * time.Second)
			w.resumes("a-0")
			heard := w.Now()
			w.Pass(time.Minute)
			marked := w.Did("patch pods p")
			if len(marked) < 2 || marked[len(marked)-1] > heard {
				w.T.Errorf("the node was heard at %s, and its pods are marked at %v", heard, marked)
			}
		},
		"a living kubelet is not fought over its pods": func(w *world) {
			w.addZone("a", 3)
			w.addPod("p", "a-0")
			w.run()
			// Its lease is renewed; its status was set to Unknown once, and the kubelet's patch of it is refused.
			w.Report("a-0", corev1.NodeReady, corev1.ConditionUnknown)
			for range 500 { // a kubelet reconciles what differs from what it knows at once
				w.Pass(20 * time.Millisecond)
				if w.podReady("p").Status == corev1.ConditionTrue {
					continue
				}
				pod := w.Pod("p")
				pod.Status.Conditions[0].Status = corev1.ConditionTrue
				w.Must(w.Client.CoreV1().Pods("default").UpdateStatus(w.T.Context(), pod, metav1.UpdateOptions{}))
			}
			if got := len(w.Did("patch pods p/")); got > 15 {
				w.T.Errorf("%d patches of one pod within 10 s", got)
			}
		},
	}
	for name, test := range map[string]struct {
		answer       error
		most         time.Duration // between two tries
		fewest, many int           // tries of one pod within an hour
	}{
		"refused":    {errForbidden, 5 * time.Minute, 12, 30},
		"not at all": {errNotNow, 30 * time.Second, 110, 200},
	} {
		stories["those that cannot be marked are tried less and less often, and others at once: "+name] = func(w *world) {
			w.addZone("a", 5)
			var mended atomic.Bool
			for i := range 10 {
				w.addPod(fmt.Sprint("p", i), "a-0")
			}
			w.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if pod := action.(clienttesting.PatchAction).GetName(); mended.Load() || !strings.HasPrefix(pod, "p") {
					return false, nil, nil
				}
				w.Book.Note(action)
				return true, nil, test.answer
			})
			w.run()
			w.falls("a-0")
			w.Until(30 * time.Minute)
			w.addPod("late", "a-0")
			w.wantPodReady(corev1.ConditionFalse, "late")
			w.Until(61 * time.Minute)
			together := map[time.Duration]int{}
			for i := range 10 {
				tries := w.Did(fmt.Sprintf("patch pods p%d/", i))
				if got := len(tries); got < test.fewest || got > test.many {
					w.T.Errorf("pod p%d was tried %d times within an hour, want %d to %d", i, got, test.fewest, test.many)
				}
				together[tries[len(tries)-1]]++
			}
			if len(together) < 5 {
				w.T.Errorf("the last tries of ten pods were at %v, want them apart", together)
			}
			mended.Store(true)
			w.Until(61*time.Minute + test.most)
			for i := range 10 {
				w.wantPodReady(corev1.ConditionFalse, fmt.Sprint("p", i))
			}
		}
	}
	playStories(t, stories)
}

func TestRestartsAndDryRuns(t *testing.T) {
	unready := func(n *corev1.Node) { readiness.Condition(n, corev1.NodeReady).Status = corev1.ConditionUnknown }
	stories := map[string]func(w *world){
		"a restart changes nothing, and delays a silent node by one grace period at most": func(w *world) {
			w.addZone("a", 5)
			w.run()
			w.falls("a-0")
			w.Until(time.Minute)
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
			w.falls("a-1")
			w.Until(90 * time.Second)
			w.Stop()
			patches := len(w.Did("patch nodes"))
			w.run()
			w.Until(139 * time.Second)
			if now := len(w.Did("patch nodes")); now != patches {
				w.T.Errorf("%d patches after the restart, want none", now-patches)
			}
			w.Until(silentBy(90 * time.Second))
			w.WantTaints("a-1", unreachableNoExecute, unreachableNoSchedule)
			w.WantTaints("a-2")
		},
		// Renewals take 6 s, so no echo is ever fresh. Five nodes said that they are not ready before they fell silent.
		"a standby that becomes the leader without a fresh echo keeps to the rate": func(w *world) {
			w.renewalsTake(6 * time.Second)
			nodes := w.addZone("a", 20)
			leads := w.standsBy()
			w.Until(15 * time.Second)
			for _, name := range nodes[:5] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			w.falls(nodes[:5]...)
			w.Until(105 * time.Second)
			leads()
			w.Pass(3 * time.Second)
			if got := w.tainted(nodes...); len(got) > 1 {
				w.T.Errorf("within 3 s %q were tainted, want one in 10 s", got)
			}
		},
		// The watches of a large cluster take a while to bring their first lists.
		"a process that has just started gives no node more time than the grace period": func(w *world) {
			w.addZone("a", 3)
			w.falls("a-0")
			leads := w.standsBy()
			w.Pass(3 * time.Second)
			leads()
			w.Until(silentBy(0))
			w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		},
		"a standby forgets nodes that went": func(w *world) {
			k, _ := w.health()
			bubble.Run(w.T, "the events", func(ctx context.Context) error { k.events.Run(ctx); return nil })
			bubble.Run(w.T, "the cache of nodes", k.nodes.Run)
			w.comeAndGo(100)
			w.wantForgotten(k)
		},
		"a dry run forgets nodes that went": func(w *world) {
			k, caches := w.health(func(c *Config) { c.DryRun = true })
			w.Run("the Controller", caches.With(k.Run))
			w.comeAndGo(20, unready)
			w.wantForgotten(k)
		},
		"a dry run changes nothing, and its events say that it is one": func(w *world) {
			nodes := w.addZone("a", 20)
			w.addPod("p", "a-4")
			w.run(func(c *Config) { c.DryRun = true })
			for _, name := range nodes[:3] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			w.falls("a-4")
			w.addNode("late", "a")
			w.Until(5 * time.Minute)
			calls := w.Book.Calls()
			if len(calls) == 0 {
				w.T.Error("no event says that a taint would be held back")
			}
			for _, c := range calls {
				if !strings.HasSuffix(c.What, " (dry run)") {
					w.T.Errorf("in a dry run: %s", c.What)
				}
			}
		},
		"in a dry run a node that was silent and renews its lease is ready again": func(w *world) {
			w.addZone("a", 5)
			w.run(func(c *Config) { c.DryRun = true })
			w.falls("a-0")
			w.Until(5 * time.Minute)
			w.WantMetric("node_collector_unhealthy_nodes_in_zone", nil, 1)
			delete(w.Silent, "a-0") // its Ready condition was True all along
			w.Until(30 * time.Minute)
			w.WantMetric("node_collector_unhealthy_nodes_in_zone", nil, 0)
		},
	}
	for name, test := range map[string]struct {
		nodes, notReady, restarts int
		every                     time.Duration
	}{
		"Normal":                    {20, 8, 6, time.Second},
		"large, partial disruption": {51, 30, 9, 11 * time.Second},
	} {
		stories["restarts give no tokens to a zone: "+name] = func(w *world) {
			w.addZone("b", 1)
			nodes := w.addZone("a", test.nodes)
			for _, name := range nodes[:test.notReady] {
				w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
			}
			w.run()
			for range test.restarts {
				w.Until(w.Now() + test.every)
				w.Stop()
				w.run()
			}
			if got := len(w.tainted(nodes...)); got > 2 {
				w.T.Errorf("%d nodes are tainted after %s", got, w.Now())
			}
		}
	}
	playStories(t, stories)
}

// wantForgotten wants a Controller to know nothing of any node.
func (w *world) wantForgotten(k *Controller) {
	w.T.Helper()
	for name, known := range k.records.nodes {
		if known.seen {
			w.T.Errorf("node %s, which is gone, is remembered", name)
		}
	}
	for _, zone := range k.records.status() {
		if zone.Size > 0 {
			w.T.Errorf("zone %s still has %d nodes", zone.Name, zone.Size)
		}
	}
}

// comeAndGo creates and removes the given number of nodes.
func (w *world) comeAndGo(count int, change ...func(*corev1.Node)) {
	for i := range count {
		name := fmt.Sprint("n-", i)
		w.addNode(name, "a", change...)
		synctest.Wait()
		w.Must(nil, w.Client.CoreV1().Nodes().Delete(w.T.Context(), name, metav1.DeleteOptions{}))
		synctest.Wait()
	}
}
