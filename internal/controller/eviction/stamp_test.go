// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// counting is a pod whose countdown runs.
var counting = []func(*corev1.Pod){tolerating("k", 100_000)}

// between wants a number of calls whose description begins with the given words.
func between(words string, least, most int) act {
	return func(w *world) {
		w.T.Helper()
		if got := len(w.Did(words)); got < least || got > most {
			w.T.Errorf("%d times %q, want %d to %d", got, words, least, most)
		}
	}
}

// reconcileErrors wants controller-runtime to count as many errors of a controller as there were calls.
func reconcileErrors(controller string, test func() (calls int)) act {
	return func(w *world) {
		w.T.Helper()
		before := bubble.ReconcileErrors(w.T, controller)
		want := test()
		if got := bubble.ReconcileErrors(w.T, controller) - before; want == 0 || got != float64(want) {
			w.T.Errorf("controller-runtime counts %v errors of %s, want those of all %d tries", got, controller, want)
		}
	}
}

func TestHowOftenANodeIsStamped(t *testing.T) {
	playTales(t, map[string]tale{
		"whenever it is tainted": {
			pod: counting, happens: []act{func(w *world) {
				for range 20 {
					w.Taint("n", "k:NoExecute")
					w.Pass(5 * time.Minute)
					if w.Node("n").Spec.Taints[0].TimeAdded == nil {
						w.T.Fatalf("at %v the taint of five minutes ago has no timeAdded", w.Now())
					}
					w.Taint("n", "k-")
					w.Pass(5 * time.Minute)
				}
			}},
		},
		"every four to five minutes in the end while that is refused, and each is an error": {
			given: []act{failStamps(nodeForbidden("n"), always)}, pod: counting,
			happens: []act{func(w *world) {
				reconcileErrors("eviction-stamp", func() int {
					w.Taint("n", "k:NoExecute")
					w.Pass(hour)
					return len(w.Did("patch n"))
				})(w)
				between("patch n", 12, 30)(w)
			}},
		},
		"at least every 30 s while there are conflicts, which hold up no eviction": {
			given: []act{failStamps(errBusy, always)}, pod: []func(*corev1.Pod){tolerating("k", 100_000)},
			happens: []act{func(w *world) { w.addPod("soon", tolerating("k", 20)) }, tainted("n", "k:NoExecute")},
			want:    []act{once("soon", 21*sec, 21*sec), between("patch n", 120, 1000)},
		},
		"never where a server-side apply has set the taints": {
			given: []act{func(w *world) { gitops(w, "gpu") }}, pod: []func(*corev1.Pod){tolerating("k", 60)},
			happens: []act{at(10*sec, func(w *world) { gitops(w, "gpu"); gitops(w, "cpu") })},
			want:    []act{deletedAt(60 * sec)},
		},
	})
}

// gitops applies taint "k" of node "n", which must not conflict with a write of ours.
func gitops(w *world, value string) {
	w.T.Helper()
	taint := applycorev1.Taint().WithKey("k").WithValue(value).WithEffect(corev1.TaintEffectNoExecute)
	node := applycorev1.Node("n").WithUID("uid-of-node-n").WithSpec(applycorev1.NodeSpec().WithTaints(taint))
	_, err := w.Client.CoreV1().Nodes().Apply(w.T.Context(), node, metav1.ApplyOptions{FieldManager: "gitops"})
	w.Must(nil, err)
}

func TestARivalThatTakesTimeAddedAwayIsLeftAloneMoreAndMore(t *testing.T) {
	playTales(t, map[string]tale{"in six hours they become one an hour": {
		pod: counting, happens: []act{tainted("n", "k:NoExecute"), func(w *world) {
			for range 5 * 3600 {
				w.Pass(sec)
				if node := w.Node("n"); node.Spec.Taints[0].TimeAdded != nil {
					node.Spec.Taints[0].TimeAdded = nil
					w.UpdateNode(node)
				}
			}
		}},
		want: []act{between("patch n", 12, 20)},
	}})
}

// builtIn is a BuiltIn without timers, whose record can be refused.
type builtIn struct{ refusal atomic.Pointer[error] }

func (b *builtIn) Decided(string) time.Time { return time.Time{} }

func (b *builtIn) Recorded(context.Context, string, time.Time) error {
	if refusal := b.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

func besideBuiltIn(c *Config) { c.BuiltIn = &builtIn{} }

func TestNoPodIsEvictedBeforeTheBuiltInsBacklogIsRecorded(t *testing.T) {
	var recorded builtIn
	recorded.refusal.Store(new(errors.New("no connection")))
	playTales(t, map[string]tale{"it is after 10 s": {
		config: []func(*Config){func(c *Config) { c.BuiltIn = &recorded }},
		happens: []act{tainted("n", "k:NoExecute"), at(10*sec, stays, func(w *world) {
			if retries, ok := w.metric("taintkeeper_retries_total", "NotRecorded"); !ok || retries == 0 {
				w.T.Error("no try is counted as NotRecorded")
			}
			recorded.refusal.Store(nil)
		})},
		want: []act{once("p", 10*sec, time.Minute)},
	}})
}

// Each write of a taint makes the built-in controller try all due pods of the node again.
func TestNextToTheBuiltInANodeOnWhichNoCountdownRunsIsNotStamped(t *testing.T) {
	stampedOnce := func(from, to time.Duration) act {
		return func(w *world) {
			w.T.Helper()
			if at := w.Did("patch n"); len(at) != 1 || at[0] < from || at[0] > to {
				w.T.Errorf("stamped at %v, want once, between %v and %v", at, from, to)
			}
		}
	}
	counts := func(w *world) { w.addPod("counts", tolerating("k", 100_000)) }
	for name, test := range map[string]tale{
		"until there is one": {
			happens: []act{func(w *world) { w.addPod("stays", toleratingAll) }, tainted("n", "k:NoExecute"), at(hour, did("patch n", 0), counts)},
			want:    []act{stampedOnce(hour, hour+sec)},
		},
		"and one does, once due pods have left at once": {
			happens: []act{counts, tainted("n", "k:NoExecute")}, want: []act{stampedOnce(sec, 21*sec)},
		},
		"and one does, once due pods have left after 20 s": {
			given: []act{failDeletes(errUnreachable, before(20*sec))}, happens: []act{counts, tainted("n", "k:NoExecute")},
			want: []act{stampedOnce(20*sec, 41*sec)},
		},
		"and one does, and due pods do not leave for a minute": {
			given: []act{failDeletes(errUnreachable, always)}, happens: []act{counts, tainted("n", "k:NoExecute")},
			want: []act{stampedOnce(time.Minute, 81*sec)},
		},
		// It is decided about again once it has its token: the built-in would try the due pod a second time.
		"and a pod becomes due while the write waits for the rate limit": {
			pod: []func(*corev1.Pod){tolerating("k", 12)}, config: []func(*Config){limited(0.1)},
			happens: []act{counts, tainted("n", "k:NoExecute")},
			want: []act{did("patch n", 1), did("delete p", 1), func(w *world) {
				if stamped := w.Did("patch n")[0]; stamped >= 13*sec && stamped < w.Did("delete p")[0] {
					w.T.Errorf("the node is stamped at %s, while p is due (from 13 s to %s)", stamped, w.Did("delete p"))
				}
			}},
		},
	} {
		test.config = append(test.config, besideBuiltIn)
		playTales(t, map[string]tale{name: test})
	}
}

// hasMark wants a pod's condition DisruptionTarget.
func hasMark(name string, status corev1.ConditionStatus, message string) act {
	return func(w *world) {
		w.T.Helper()
		for _, condition := range w.Pod(name).Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == status && condition.Message == message {
				return
			}
		}
		w.T.Errorf("pod %s has the conditions %v, want DisruptionTarget %s %q", name, w.Pod(name).Status.Conditions, status, message)
	}
}

func TestTheBuiltInsMarkOfAPodThatStaysIsTakenOff(t *testing.T) {
	unmarked := hasMark("p", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
	hasIt, getsIt := []func(*corev1.Pod){markedByBuiltIn}, []act{changed("p", markedByBuiltIn)}
	for name, test := range map[string]tale{
		"it was there before us": {pod: hasIt, happens: []act{pass(sec)}, want: []act{unmarked, did("delete p", 0)}},
		"it comes later":         {happens: getsIt, want: []act{unmarked, did("delete p", 0)}},
		// The built-in marks the pod again and the watch has not shown it: its version is not the one that we know.
		"it has changed meanwhile": {given: []act{failMarks(errBusy, times(2))}, happens: getsIt, want: []act{unmarked, did("patch p", 3)}},
		"that fails three times: each is an error": {
			given: []act{failMarks(errInternal, times(3))},
			happens: []act{func(w *world) {
				reconcileErrors("eviction-reclaim", func() int {
					w.ChangePod("p", markedByBuiltIn)
					w.Pass(time.Minute)
					return 3
				})(w)
			}},
			want: []act{unmarked},
		},
		"its countdown runs, after which we set our own": {
			given: []act{stampedNode, failDeletes(errUnreachable, always)}, pod: []func(*corev1.Pod){tolerating("k", 61), markedByBuiltIn},
			happens: []act{pass(sec), unmarked, at(61*sec, hasMark("p", corev1.ConditionTrue, v1alpha1.MarkMessage))},
		},
		// A pod has one writer at a time. If the reclaimer is first, the eviction waits as for a lagging watch.
		"it is due: our mark comes first": {
			given: []act{stampedNode}, pod: hasIt, happens: []act{}, want: []act{once("p", 0, 500*ms), between("patch p", 1, 9)},
		},
		"it was due when that began to wait for the rate limit": {
			given: []act{stampedNode, func(w *world) {
				for _, pod := range []string{"q", "r", "s"} {
					w.addPod(pod, markedByBuiltIn)
				}
			}},
			pod: hasIt, config: []func(*Config){limited(0.1)}, happens: []act{at(5*sec, tainted("n", "k-"))},
			want: []act{func(w *world) {
				for _, pod := range []string{"p", "q", "r", "s"} {
					if object, err := w.API.Get(podResource, "default", pod); err == nil {
						if is := object.(*corev1.Pod).Status.Conditions[0]; is.Status != corev1.ConditionFalse {
							w.T.Errorf("an hour after the untaint pod %s is marked: %q", pod, is.Message)
						}
					}
				}
			}},
		},
	} {
		test.config = append(test.config, besideBuiltIn)
		playTales(t, map[string]tale{name: test})
	}
	playTales(t, map[string]tale{"but not where the built-in does not run": {
		pod: hasIt, happens: []act{}, want: []act{hasMark("p", corev1.ConditionTrue, "Taint manager: deleting due to NoExecute taint")},
	}})
}

// A kubelet that starts ends pods without a toleration.
func TestAPodWhoseEvictionIsRefusedForAMinuteIsKeptAlive(t *testing.T) {
	webhook := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New(`admission webhook "no.test" denied the request`))
	playTales(t, map[string]tale{
		"it is refused for long": {
			given: []act{failDeletes(webhook, always)},
			happens: []act{tainted("n", "k=v:NoExecute"), at(60*sec, did("keep", 0)), at(10*time.Minute, func(w *world) {
				if ended := w.RestartKubelet("n"); len(ended) > 0 {
					w.T.Errorf("the kubelet ends %v", ended)
				}
			})},
			want: []act{tries("keep p", 61*sec)},
		},
		"it is refused for half a minute": {given: []act{failDeletes(webhook, before(30*sec))}, want: []act{gone, did("keep", 0)}},
		"it has finished": {
			given: []act{failDeletes(webhook, always)}, pod: []func(*corev1.Pod){finished}, want: []act{did("keep", 0)},
		},
	})
}
