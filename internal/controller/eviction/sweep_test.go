// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/verdict"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// scenes are what happens to nodes "n" and "m", which have pods "now" (tolerates nothing), "soon" (for 10 s) and "never"
// (indefinitely) each. Whatever is disturbed meanwhile, the same pods leave as undisturbed, once, and none early.
var scenes = map[string]func(w *world){
	"a taint": func(w *world) {
		w.Taint("n", "k:NoExecute")
	},
	"a taint that is taken off": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.Taint("n", "k-")
	},
	"a taint that is taken off and set again": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.Taint("n", "k-")
		w.Until(8 * sec)
		w.Taint("n", "k:NoExecute")
	},
	"a second taint that nothing tolerates": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(6 * sec)
		w.Taint("n", "other:NoExecute")
	},
	"a second taint that is taken off": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.Taint("n", "k2:NoExecute")
		w.Until(7 * sec)
		w.Taint("n", "k2-")
	},
	"two nodes": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.Taint("m", "k:NoExecute")
	},
	"another value": func(w *world) {
		w.Taint("n", "k=a:NoExecute")
		w.Until(4 * sec)
		w.Taint("n", "k=b:NoExecute")
	},
	"another effect": func(w *world) {
		w.Taint("n", "k:NoSchedule")
		w.Until(4 * sec)
		w.Taint("n", "k:NoSchedule-", "k:NoExecute")
	},
	"a pod that tolerates less": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.ChangePod("n-soon", tolerationSeconds(6))
	},
	"a pod that tolerates more": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.ChangePod("n-soon", tolerationSeconds(20))
	},
	"a pod that comes later": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.addPod("n-late", tolerating("k", 3))
	},
	"not ready that becomes unreachable": func(w *world) {
		w.SetTaints("m", noExecute(corev1.TaintNodeNotReady))
		w.Until(4 * sec)
		w.swap("m", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	},
	"a node that is registered again": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.DeleteNode("n")
		w.addNode("n")
	},
}

const sceneEnds = 30 * sec

// playScene plays a scene with a disturbance, and returns when each pod was deleted.
func playScene(t *testing.T, scene func(w *world), disturb func(w *world)) map[string]time.Duration {
	t.Helper()
	deleted := map[string]time.Duration{}
	play(t, func(t *testing.T, w *world) {
		for _, node := range []string{"n", "m"} {
			w.addNode(node)
			w.addPod(node+"-now", onNode(node))
			w.addPod(node+"-soon", onNode(node), tolerating("k", 10), tolerating("k2", 5), tolerating(corev1.TaintNodeNotReady, 10), tolerating(corev1.TaintNodeUnreachable, 10))
			w.addPod(node+"-never", onNode(node), func(pod *corev1.Pod) {
				pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			})
		}
		disturb(w)
		w.Until(sec)
		scene(w)
		w.Until(sceneEnds + 2*time.Minute)
		for _, call := range w.Book.Calls() {
			name, ok := strings.CutPrefix(call.What, "delete ")
			if !ok || !strings.Contains(name, "-") { // of a node
				continue
			}
			if _, twice := deleted[name]; twice {
				t.Errorf("%s is deleted twice", name)
			}
			deleted[name] = call.At
		}
	})
	return deleted
}

// wantSame wants that the same pods were deleted as undisturbed, not earlier and not much later.
func wantSame(t *testing.T, what string, got, undisturbed map[string]time.Duration, slack time.Duration) {
	t.Helper()
	for name, want := range undisturbed {
		if at, ok := got[name]; !ok || at < want || at > want+slack {
			t.Errorf("%s: %s was deleted at %s (%t), undisturbed at %s", what, name, at, ok, want)
		}
	}
	for name, at := range got {
		if _, ok := undisturbed[name]; !ok {
			t.Errorf("%s: %s was deleted at %s, undisturbed never", what, name, at)
		}
	}
}

// wantSome wants that a sweep has not ended before it began.
func wantSome(t *testing.T, end int) {
	t.Helper()
	if end == 1 {
		t.Error("there is nothing to disturb")
	}
}

var errKilled = errors.New("the process is gone")

// mortal is an API server's client of a process that is killed at a call: before it, or after it was carried out.
type mortal struct {
	mu     sync.Mutex
	left   int // calls
	after  bool
	killed chan struct{}
}

func (m *mortal) dies(after bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return errKilled
	}
	if m.after != after {
		return nil
	}
	if m.left--; m.left > 0 {
		return nil
	}
	close(m.killed)
	return errKilled
}

func (m *mortal) before(context.Context, bubble.Request) error  { return m.dies(false) }
func (m *mortal) answers(context.Context, bubble.Request) error { return m.dies(true) }

// lives starts an Evictor, and another when that is killed.
func (m *mortal) lives(w *world) {
	m.killed = make(chan struct{})
	stop := w.starts(&bubble.Slow{Clientset: w.Client, Before: m.before, After: m.answers})
	go func() {
		select {
		case <-m.killed:
			stop()
			w.starts(&bubble.Slow{Clientset: w.Client})
		case <-w.T.Context().Done():
		}
	}()
}

// starts is run for any goroutine of a bubble. It returns a function that ends the Evictor and waits for it.
func (w *world) starts(client kubernetes.Interface) (stop func()) {
	evictor := w.evictor(func(c *Config) { c.Client, c.EventClient = client, w.Client })
	ctx, end := context.WithCancel(w.T.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := evictor(ctx); err != nil {
			panic(err)
		}
	}()
	return func() { end(); <-ended }
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left == 0
}

func TestWhenTheProcessIsKilledAtAnyCallTheSamePodsLeave(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			undisturbed := playScene(t, scene, func(w *world) { w.run() })
			for _, after := range []bool{false, true} {
				for call := 1; ; call++ {
					m := &mortal{left: call, after: after}
					got := playScene(t, scene, m.lives)
					if !m.dead() {
						wantSome(t, call)
						break
					}
					what := map[bool]string{false: "killed before call", true: "killed after call"}[after]
					wantSame(t, what+" "+strconv.Itoa(call), got, undisturbed, 6*sec)
				}
			}
		})
	}
}

// lossy drops, doubles or swaps one event of the watches of nodes and pods. At the end of the scene the watches end, and
// lists repair what was lost.
type lossy struct {
	what string
	at   int

	mu    sync.Mutex
	seen  int
	open  []*watch.RaceFreeFakeWatcher
	ended bool
}

func (l *lossy) watches(w *world) {
	w.Client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		prompt, err := w.Client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		out := watch.NewRaceFreeFake()
		l.mu.Lock()
		l.open = append(l.open, out)
		l.mu.Unlock()
		w.T.Cleanup(prompt.Stop)
		go l.carry(prompt.ResultChan(), out)
		return true, out, nil
	})
	w.run()
	go func() {
		w.InCall(sceneEnds)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = true
		for _, out := range l.open {
			out.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		}
	}()
}

func (l *lossy) carry(from <-chan watch.Event, to *watch.RaceFreeFakeWatcher) {
	var held []watch.Event
	for event := range from {
		event.Object = event.Object.DeepCopyObject()
		events := append([]watch.Event{event}, held...)
		held = nil
		switch {
		case !l.disturbs():
		case l.what == "drop":
			events = events[1:]
		case l.what == "double":
			events = append(events, event)
		default:
			held, events = events, nil
		}
		for _, event := range events {
			to.Action(event.Type, event.Object)
		}
	}
}

// disturbs reports whether the next event is disturbed.
func (l *lossy) disturbs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	return l.seen == l.at && !l.ended
}

func (l *lossy) disturbed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen >= l.at
}

// mustLeave reports whether a pod must leave its node, now or later, by what the API server has stored. It may be asked
// in the middle of a call.
func (w *world) mustLeave(name string) bool {
	core := corev1.SchemeGroupVersion
	pod, err := w.Client.Tracker().Get(core.WithResource("pods"), "default", name)
	if err != nil {
		return false
	}
	spec := pod.(*corev1.Pod).Spec
	node, err := w.Client.Tracker().Get(core.WithResource("nodes"), "", spec.NodeName)
	if err != nil {
		return false
	}
	on := verdict.Advance(nil, node.(*corev1.Node).Spec.Taints, verdict.SeenAt(time.Now()))
	return verdict.Rule{}.Decide(verdict.Pod{Tolerations: spec.Tolerations}, on).Leaves
}

// An API server drops nothing without saying so, but proxies have. What is not known cannot be kept to the second. But
// what must leave has left in the end, and what need not is never deleted.
func TestWhenAWatchDropsOrSwapsAnyEventWhatMustLeaveLeavesAndNothingElse(t *testing.T) {
	for name, scene := range scenes {
		for _, what := range []string{"drop", "swap"} {
			t.Run(name+", "+what, func(t *testing.T) {
				for at := 1; ; at++ {
					l := &lossy{what: what, at: at}
					playScene(t, func(w *world) {
						scene(w)
						w.Until(sceneEnds + time.Minute)
						pods, err := w.Client.CoreV1().Pods("default").List(w.T.Context(), metav1.ListOptions{})
						w.Must(pods, err)
						for _, pod := range pods.Items {
							if w.mustLeave(pod.Name) {
								t.Errorf("%s event %d: %s is still there", what, at, pod.Name)
							}
						}
					}, func(w *world) {
						w.Client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtimeObject, error) {
							if name := action.(clienttesting.DeleteAction).GetName(); !w.mustLeave(name) {
								t.Errorf("%s event %d: %s is deleted, and need not leave", what, at, name)
							}
							return false, nil, nil
						})
						l.watches(w)
					})
					if !l.disturbed() {
						wantSome(t, at)
						break
					}
				}
			})
		}
	}
}

func TestWhenAWatchDoublesAnyEventTheSamePodsLeaveAtTheSameTime(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			undisturbed := playScene(t, scene, func(w *world) { w.run() })
			for at := 1; ; at++ {
				l := &lossy{what: "double", at: at}
				got := playScene(t, scene, l.watches)
				if !l.disturbed() {
					wantSome(t, at)
					break
				}
				wantSame(t, "double event "+strconv.Itoa(at), got, undisturbed, 100*ms)
			}
		})
	}
}

// The events of which every order is played. They happen to nodes "n", where pod "n-p" is, and "m", where "m-p" is.
var reordered = []func(w *world, _ *oracle){
	func(w *world, _ *oracle) {
		w.putTaint("n", corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
	},
	func(w *world, _ *oracle) {
		w.putTaint("n", corev1.Taint{Key: "a", Value: "v", Effect: corev1.TaintEffectNoExecute})
	},
	func(w *world, _ *oracle) {
		w.putTaint("n", corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute})
	},
	func(w *world, _ *oracle) { w.takeTaint("n", "a") },
	func(w *world, _ *oracle) {
		w.putTaint("m", corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
	},
	func(w *world, _ *oracle) { w.takeTaint("m", "a") },
	func(w *world, o *oracle) {
		o.pods["n"].Tolerations[1].TolerationSeconds = new(int64(2))
		w.toleratesFor("n-p", "b", 2)
	},
}

// putTaint sets a taint on a node and replaces another of its key.
func (w *world) putTaint(name string, taint corev1.Taint) {
	w.T.Helper()
	w.SetTaints(name, append(w.taintsBut(name, taint.Key), taint)...)
}

func (w *world) takeTaint(name, key string) {
	w.T.Helper()
	w.SetTaints(name, w.taintsBut(name, key)...)
}

func (w *world) taintsBut(name, key string) []corev1.Taint {
	w.T.Helper()
	return slices.DeleteFunc(w.Node(name).Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// toleratesFor changes for how long a pod tolerates a key, if it is there.
func (w *world) toleratesFor(name, key string, seconds int64) {
	if _, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name); err != nil {
		return
	}
	w.ChangePod(name, func(pod *corev1.Pod) {
		for i := range pod.Spec.Tolerations {
			if pod.Spec.Tolerations[i].Key == key {
				pod.Spec.Tolerations[i].TolerationSeconds = &seconds
			}
		}
	})
}

// oracle follows the rule alone: it sees the nodes and pods after each event, and says when each pod is due.
type oracle struct {
	taints map[string][]verdict.Taint // by node
	pods   map[string]verdict.Pod     // by node
	due    map[string]time.Time
	gone   map[string]time.Duration
}

// see takes in what the API server has stored now.
func (o *oracle) see(w *world) {
	now := time.Now()
	o.evict(w, now, time.Time{})
	for _, name := range []string{"n", "m"} {
		o.taints[name] = verdict.Advance(o.taints[name], w.Node(name).Spec.Taints, verdict.SeenAt(now))
		delete(o.due, name+"-p")
		if _, gone := o.gone[name+"-p"]; gone {
			continue
		}
		if v := (verdict.Rule{}).Decide(o.pods[name], o.taints[name]); v.Leaves {
			o.due[name+"-p"] = v.Due
		}
	}
	o.evict(w, now, now)
}

// evict lets the pods leave that are due until an instant, and none before it was known.
func (o *oracle) evict(w *world, until, known time.Time) {
	for name, due := range o.due {
		if !due.After(until) {
			o.gone[name] = timeline.Later(due, known).Sub(w.Start)
			delete(o.due, name)
		}
	}
}

func TestWhateverTheOrderOfEventsPodsLeaveWhenTheRuleSays(t *testing.T) {
	each(len(reordered), func(order []int) {
		o := &oracle{
			taints: map[string][]verdict.Taint{}, pods: map[string]verdict.Pod{},
			due: map[string]time.Time{}, gone: map[string]time.Duration{},
		}
		got := map[string]time.Duration{}
		play(t, func(_ *testing.T, w *world) {
			for _, name := range []string{"n", "m"} {
				w.addNode(name)
				w.addPod(name+"-p", onNode(name), tolerating("a", 4), tolerating("b", 6))
				o.pods[name] = verdict.Pod{Tolerations: w.Pod(name + "-p").Spec.Tolerations, Bound: w.Start}
			}
			w.run()
			for i, event := range order {
				w.Until(sec + time.Duration(i)*1300*ms)
				reordered[event](w, o)
				o.see(w)
			}
			w.Until(time.Minute)
			o.see(w)
			for _, name := range w.deleted() {
				got[name] = w.Did("delete " + name)[0]
			}
		})
		for _, name := range []string{"n-p", "m-p"} {
			want, leaves := o.gone[name]
			at, left := got[name]
			if leaves != left || (at-want).Abs() > 20*ms {
				t.Errorf("order %v: %s was deleted at %s (%t), by the rule at %s (%t)", order, name, at, left, want, leaves)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	})
}

// each calls a function for every order of the given number of things.
func each(count int, do func(order []int)) {
	order := make([]int, 0, count)
	var more func()
	more = func() {
		if len(order) == count {
			do(slices.Clone(order))
			return
		}
		for i := range count {
			if !slices.Contains(order, i) {
				order = append(order, i)
				more()
				order = order[:len(order)-1]
			}
		}
	}
	more()
}
