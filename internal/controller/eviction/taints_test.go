// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// These tests are about since when a taint counts: what watches and live reads show of it, and what its timeAdded says.

// noExecute is a taint as the node-lifecycle-controller writes it: with the second in which it is written.
func noExecute(key string) corev1.Taint { return withTimeAdded(key, time.Now()) }

func withTimeAdded(key string, added time.Time) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: added.Truncate(sec)}}
}

// byKubectl is a taint without a timeAdded.
var byKubectl = corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}

// has makes node "n" have exactly some taints.
func has(taints ...corev1.Taint) act { return func(w *world) { w.SetTaints("n", taints...) } }

// hasNow makes it have exactly the taint "k", set in this second.
func hasNow(w *world) { w.SetTaints("n", noExecute("k")) }

func heartbeat(w *world) { w.Heartbeat("n") }

func broken(w *world)   { w.API.Watches("nodes").Break() }
func repaired(w *world) { w.API.Watches("nodes").Repair() }

func lagging(d time.Duration) act { return func(w *world) { w.API.Watches("nodes").Lag(d) } }

func pass(d time.Duration) act { return func(w *world) { w.Pass(d) } }

// breaks breaks the watch again and again, for a second in which node "n" gets another version.
func breaks(count int) act {
	return func(w *world) {
		for range count {
			w.Pass(30 * sec)
			broken(w)
			w.Heartbeat("n")
			w.Pass(sec)
			repaired(w)
		}
	}
}

func restarted(w *world) { w.Stop(); w.run() }

// neverStamping leaves taints without timeAdded as they are.
func neverStamping(c *Config) { c.NeverStamp = true }

func nodeForbidden(name string) error {
	return apierrors.NewForbidden(corev1.Resource("nodes"), name, nil)
}

// refusedStampOf refuses the patches of one node only.
func refusedStampOf(name string) act {
	return func(w *world) {
		w.answers("patch", "nodes", func(action clienttesting.Action) (runtime.Object, error) {
			if action.(clienttesting.PatchAction).GetName() == name {
				return nil, nodeForbidden(name)
			}
			return nil, nil
		})
	}
}

// strippedStamps are accepted, and have no effect: a webhook, or an older version of the API, drops timeAdded.
func strippedStamps(w *world) {
	w.answers("patch", "nodes", func(action clienttesting.Action) (runtime.Object, error) {
		w.Book.Note(action)
		return w.API.Get(nodeResource, "", "n")
	})
}

// patient tolerates taint "k" for 100 s, and others for longer.
var patient = []func(*corev1.Pod){tolerating("k", 100), tolerating("other", 100_000)}

func TestBreaksOfTheWatchDoNotKeepATaintFromCountingToItsEnd(t *testing.T) {
	// client-go waits before it lists again, and the eviction until the list has brought what the live read shows.
	want := once("p", 100*sec, 146*sec)
	taintAndBreaks := []act{tainted("n", "k:NoExecute"), breaks(20)}
	playTales(t, map[string]tale{
		"stamped by us":     {pod: patient, happens: taintAndBreaks, want: []act{want}},
		"stamped before us": {given: []act{stampedNode}, pod: patient, happens: []act{breaks(20)}, want: []act{once("p", 99*sec, 146*sec)}},
		"stamping forbidden": {
			given: []act{failStamps(nodeForbidden("n"), always)}, pod: patient, happens: taintAndBreaks, want: []act{want},
		},
		"stamping refused with the 422 of a ValidatingAdmissionPolicy": {
			given: []act{failStamps(apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil), always)},
			pod:   patient, happens: taintAndBreaks, want: []act{want},
		},
		"stamping refused with the 400 of a webhook without a code": {
			given: []act{failStamps(apierrors.NewBadRequest("admission webhook denied the request"), always)},
			pod:   patient, happens: taintAndBreaks, want: []act{want},
		},
		"stamps stripped: few more are tried": {
			given: []act{strippedStamps}, pod: patient, happens: []act{tainted("n", "k:NoExecute"), breaks(60)},
			want: []act{want, between("patch n", 1, 15)},
		},
		"never stamped": {
			pod: patient, config: []func(*Config){neverStamping}, happens: taintAndBreaks, want: []act{want, did("patch n", 0)},
		},
		"a dry run": {
			pod: patient, config: []func(*Config){func(c *Config) { c.Mode = DryRun }},
			happens: []act{tainted("n", "k:NoExecute"), breaks(4)}, want: []act{ended(resultDryRun, 1)},
		},
		"another node is stamped all the time": {
			given: []act{refusedStampOf("n"), func(w *world) { w.addNode("m") }}, pod: patient,
			happens: []act{tainted("n", "k:NoExecute"), func(w *world) {
				for i := range 40 {
					w.Taint("m", []string{"other:NoExecute", "other-"}[i%2])
					breaks(1)(w)
				}
			}},
			want: []act{want},
		},
		"another node is untainted while it is read to be stamped": {
			given: []act{failStamps(nodeForbidden("n"), always), func(w *world) { w.addNode("m") }, func(w *world) {
				w.answers("get", "nodes", func(action clienttesting.Action) (runtime.Object, error) {
					if action.(clienttesting.GetAction).GetName() == "m" && w.Now() >= 65*sec && w.Now() < 66*sec {
						w.hang(2 * sec)
					}
					return nil, nil
				})
			}},
			pod: patient,
			happens: []act{tainted("n", "k:NoExecute"), at(64*sec, tainted("m", "other:NoExecute")), at(66*sec, func(w *world) {
				live, err := w.API.Get(nodeResource, "", "m")
				w.Must(nil, err)
				bare := live.(*corev1.Node).DeepCopy()
				bare.Spec.Taints = nil
				w.UpdateNode(bare)
			}), pass(2 * sec), breaks(1)},
			want: []act{want},
		},
	})
}

func TestATaintSetAgainWhileTheWatchIsBrokenCountsFromItsSecondSetting(t *testing.T) {
	future := withTimeAdded("k", time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC))
	// A timeAdded is in whole seconds: this taint reads the same when it is set again within the second.
	inSecond1 := withTimeAdded("k", time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC))
	withinTheSecond := []act{
		at(1400*ms, has(inSecond1)), at(1500*ms, broken, tainted("n", "k:NoExecute-")), at(1900*ms, has(inSecond1), heartbeat),
	}
	restored := func(version int64, taints ...corev1.Taint) act {
		return func(w *world) { w.API.RestoreTo(version - 1); w.SetTaints("n", taints...) }
	}
	withOther := func(w *world) {
		w.SetTaints("n", noExecute("k"), corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute})
	}
	gap := []act{at(10*sec, withOther), at(60*sec, broken), at(61*sec, has()), at(90*sec, hasNow), at(91*sec, repaired)}
	playTales(t, map[string]tale{
		"with no timeAdded": {
			pod: []func(*corev1.Pod){tolerating("k", 20)},
			happens: []act{
				tainted("n", "k:NoExecute"), at(5*sec, broken), at(6*sec, has()), at(15*sec, tainted("n", "k:NoExecute")), at(16*sec, repaired),
			},
			want: []act{once("p", 35*sec, 60*sec)},
		},
		"within the same second, and the watch is back before the pod is due": {
			pod:     []func(*corev1.Pod){tolerating("k", 10)},
			happens: append(slices.Clone(withinTheSecond), at(5*sec, repaired)), want: []act{once("p", 11900*ms, 16*sec)},
		},
		"within the same second, and the live read decides": {
			pod:     []func(*corev1.Pod){tolerating("k", 10)},
			happens: append(slices.Clone(withinTheSecond), at(30*sec, repaired)), want: []act{once("p", 11900*ms, 16*sec)},
		},
		// A Date leaves a second of the API server's clock uncertain: what is stamped as of 11 s was seen at 10.2 s.
		"within the second that was stamped": {
			given: []act{serverAhead(0)}, pod: []func(*corev1.Pod){tolerating("k", 20), ofAnHourAgo},
			happens: []act{
				at(10*sec+200*ms, tainted("n", "k:NoExecute")), at(11*sec+500*ms, broken), at(11*sec+700*ms, has()),
				at(11*sec+900*ms, hasNow), at(13*sec, repaired),
			},
			want: []act{once("p", 31*sec+900*ms, 34*sec+900*ms)},
		},
		"with the timeAdded of before, which is in the future": {
			pod:     []func(*corev1.Pod){tolerating("k", 60)},
			happens: []act{has(future), at(30*sec, broken, has(), has(future), heartbeat), pass(sec), repaired},
			want:    []act{once("p", 90*sec, hour)},
		},
		// Its timeAdded has overwritten an earlier one, which is not written back.
		"with the timeAdded of before": {
			given: []act{failStamps(errUnreachable, before(60*sec))}, pod: patient,
			happens: []act{at(10*sec, hasNow), at(40*sec, hasNow), at(41*sec, broken, func(w *world) {
				again := w.Node("n").Spec.Taints
				w.SetTaints("n")
				w.SetTaints("n", again...)
			}, heartbeat), pass(sec), repaired},
			want: []act{once("p", 140*sec, 141*sec)},
		},
		"with another timeAdded": {pod: patient, happens: gap, want: []act{once("p", 190*sec, 200*sec)}},
		"with another timeAdded, and stamping is forbidden": {
			given: []act{failStamps(nodeForbidden("n"), always)}, pod: patient, happens: gap, want: []act{once("p", 190*sec, 200*sec)},
		},
		"with another timeAdded, and nothing is stamped": {
			pod: patient, config: []func(*Config){neverStamping}, happens: gap, want: []act{once("p", 190*sec, 200*sec)},
		},
		"and another node may not be stamped": {
			given: []act{refusedStampOf("m"), func(w *world) { w.addNode("m") }}, pod: patient,
			happens: []act{
				tainted("n", "k:NoExecute"), at(6*sec, tainted("m", "k:NoExecute")), at(60*sec, broken, tainted("n", "k-"), heartbeat),
				at(80*sec, tainted("n", "k:NoExecute"), heartbeat, heartbeat), pass(sec), repaired,
			},
			want: []act{once("p", 180*sec, 240*sec)},
		},
		// Half a minute of 500s, which is when watches break, too.
		"in a brown-out of the API server": {
			given: []act{failStamps(errInternal, before(time.Minute))}, pod: patient,
			happens: []act{
				at(5*sec, has(byKubectl)), at(40*sec, broken), at(41*sec, has()), at(50*sec, has(byKubectl)), at(51*sec, repaired),
			},
			want: []act{once("p", 150*sec, 200*sec)},
		},
		// Revisions go back: the taint that is set then has a version at which the node had the earlier taint.
		"and etcd is restored from a snapshot made before the taint": {
			pod: patient,
			happens: []act{
				at(5*sec, restored(500, byKubectl)),
				at(10*sec, func(w *world) { restored(900, w.Node("n").Spec.Taints...)(w) }),
				at(40*sec, broken, restored(400)), at(90*sec, restored(600, byKubectl)), at(120*sec, repaired),
			},
			want: []act{once("p", 190*sec, 300*sec)},
		},
		"and it only lags": {
			given: []act{failStamps(nodeForbidden("n"), always), lagging(2 * sec)}, pod: []func(*corev1.Pod){tolerating("k", 30)},
			happens: []act{
				heartbeat, tainted("n", "k:NoExecute"), at(30*sec, heartbeat, tainted("n", "k-"), heartbeat, tainted("n", "k:NoExecute"), heartbeat),
			},
			want: []act{once("p", 60*sec, 70*sec)},
		},
		// client-go waits after a 429 with Retry-After, and asks again.
		"and it was just being read to be stamped": {
			given: []act{failStamps(nodeForbidden("n"), before(200*sec)), func(w *world) {
				over := false
				w.answers("get", "nodes", func(clienttesting.Action) (runtime.Object, error) {
					if !over && w.Now() > 200*sec {
						over = true
						w.hang(5 * sec)
					}
					return nil, nil
				})
			}},
			pod: []func(*corev1.Pod){tolerating("k", 300)},
			happens: []act{tainted("n", "k:NoExecute"), at(200*sec, func(w *world) {
				for range 60 { // until the read before the next try is under way
					tried := w.Did("patch n")
					w.Pass(5 * sec)
					if w.Now() > 230*sec && len(w.Did("patch n")) == len(tried) {
						break
					}
				}
				w.Taint("n", "k-")
				w.Pass(sec)
				w.Taint("n", "k:NoExecute")
				taintedAgain := w.Now()
				w.Pass(hour)
				once("p", taintedAgain+300*sec, hour)(w)
			})},
		},
	})
}

func TestWhatATaintCountsFromDoesNotChange(t *testing.T) {
	defaults := []func(*corev1.Pod){tolerating(notReady, 300), tolerating(unreachable, 300)}
	for900s := []func(*corev1.Pod){tolerating("k", 900)}
	rewritten := func(rewrite func(i int, taint *corev1.Taint)) []act {
		return []act{at(10*sec, func(w *world) {
			for i := range 60 {
				taint := noExecute("k")
				rewrite(i, &taint)
				w.SetTaints("n", taint)
				w.Pass(30 * sec)
			}
		})}
	}
	value := func(value string, seconds *int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
			})
		}
	}
	playTales(t, map[string]tale{
		"its timeAdded is rewritten again and again": {
			pod: for900s, happens: rewritten(func(int, *corev1.Taint) {}), want: []act{deletedAt(910 * sec)},
		},
		"its timeAdded is taken away again and again": {
			pod: for900s, happens: rewritten(func(_ int, is *corev1.Taint) { is.TimeAdded = nil }), want: []act{deletedAt(910 * sec)},
		},
		"it has two values in turn": {
			pod: for900s, happens: rewritten(func(i int, is *corev1.Taint) { is.Value = []string{"x", "y"}[i%2] }), want: []act{deletedAt(910 * sec)},
		},
		"it has ever new values": {
			pod: for900s, happens: rewritten(func(i int, is *corev1.Taint) { is.Value = fmt.Sprint(i) }), want: []act{deletedAt(910 * sec)},
		},
		"its timeAdded is taken away again and again, and the process restarts": { // then second 1 counts from its end
			pod: []func(*corev1.Pod){tolerating("k", 60)},
			happens: []act{tainted("n", "k=v:NoExecute"), func(w *world) {
				for range 4 {
					w.Pass(10 * sec)
					w.Taint("n", "k=v:NoExecute")
				}
			}, pass(sec), restarted},
			want: []act{deletedAt(62 * sec)},
		},
		"not-ready becomes unreachable, and back, for two hours": {
			pod: defaults, happens: []act{at(10*sec, isNow(notReady)), func(w *world) {
				names := []string{notReady, unreachable}
				for i := range 30 {
					w.Pass(240 * sec)
					w.swap("n", names[i%2], names[(i+1)%2])
				}
			}},
			want: []act{deletedAt(310 * sec)},
		},
		"the process starts in the middle of a swap": {
			pod: defaults, happens: []act{at(10*sec, func(w *world) {
				w.Stop()
				first := noExecute(notReady)
				w.Until(210 * sec)
				w.SetTaints("n", first, noExecute(unreachable))
				w.run()
				w.SetTaints("n", noExecute(unreachable))
			})},
			want: []act{deletedAt(311 * sec)},
		},
		"a list brings nothing new": {
			given: []act{failStamps(errInternal, always)}, pod: patient,
			happens: []act{
				heartbeat, tainted("n", "k:NoExecute"), heartbeat, at(10*sec, broken), at(20*sec, repaired), at(time.Minute, heartbeat),
			},
			want: []act{deletedAt(101 * sec)},
		},
		"a live read shows it without the timeAdded that the watch has brought": {
			given: []act{failDeletes(errInternal, times(1))},
			happens: []act{func(w *world) {
				w.API.Watches("nodes").Hold()
				w.Taint("n", "k:NoExecute")
				before := w.Node("n")
				hasNow(w)
				w.answers("get", "nodes", func(clienttesting.Action) (runtime.Object, error) { return before, nil })
				w.API.Watches("nodes").Release()
			}},
			want: []act{tries("delete p", sec, 100*ms), func(w *world) { lateness(w.Did("delete p")[1] - sec)(w) }},
		},
		// What null and 1970 become in protobuf is no timeAdded.
		"its timeAdded is the zero time, and the process restarts again and again": {
			given: []act{func(w *world) {
				w.AddNode("n", "", func(node *corev1.Node) {
					node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{}}}
				})
			}},
			pod: []func(*corev1.Pod){tolerating("k", 20)},
			happens: []act{func(w *world) {
				for range 9 {
					w.Pass(15 * sec)
					restarted(w)
				}
			}},
			want: []act{deletedAt(21 * sec)}, // 20 s after the end of the second
		},
		"the pod is due while no process runs": {
			pod:     []func(*corev1.Pod){tolerating("k", 20)},
			happens: []act{tainted("n", "k:NoExecute"), pass(sec), func(w *world) { w.Stop(); w.Until(100 * sec); w.run() }},
			want:    []act{deletedAt(100 * sec)},
		},
		"a value that is tolerated indefinitely ends the countdown": {
			pod: []func(*corev1.Pod){value("planned", nil), value("now", new(int64(60)))},
			happens: []act{
				at(10*sec, tainted("n", "k=now:NoExecute")), at(40*sec, tainted("n", "k=planned:NoExecute")), at(hour, tainted("n", "k=now:NoExecute")),
			},
			want: []act{deletedAt(hour + 60*sec)},
		},
		"a value that it had before the pod came does not count": {
			pod: []func(*corev1.Pod){onNode("other")},
			happens: []act{
				at(10*sec, tainted("n", "k=x:NoExecute")), at(20*sec, tainted("n", "k=y:NoExecute")),
				at(30*sec, func(w *world) { w.addPod("late", value("x", new(int64(5))), value("y", new(int64(60)))) }),
			},
			want: []act{once("late", 90*sec, 90*sec)},
		},
		"etcd is restored from a moment ago, and a pod that terminated does no more": {
			pod: []func(*corev1.Pod){func(p *corev1.Pod) {
				p.Finalizers, p.DeletionTimestamp = []string{"example.com/f"}, new(metav1.Now())
			}},
			happens: []act{tainted("n", "k:NoExecute"), at(2*sec, changed("p", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil }))},
			want:    []act{did("delete p", 1)},
		},
	})
}

// isNow makes node "n" have exactly a taint that the node-lifecycle-controller sets.
func isNow(key string) act { return func(w *world) { w.SetTaints("n", noExecute(key)) } }

// swap makes not-ready unreachable, or the other way round, as the node-lifecycle-controller does: it adds the new one,
// and then removes the old one.
func (w *world) swap(name, from, to string) {
	w.T.Helper()
	added := noExecute(to)
	w.SetTaints(name, append(w.Node(name).Spec.Taints, added)...)
	w.Pass(20 * ms)
	w.SetTaints(name, slices.DeleteFunc(w.Node(name).Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == from })...)
}

func TestWaitingForTheWatchTakesNoLongerThanItMust(t *testing.T) {
	playTales(t, map[string]tale{
		// From 9 s to 18 s the pod is due according to the cache, but the live read says that it is not.
		"a pod is tried as soon as the watch brings other taints": {
			given: []act{lagging(10 * sec), stampedNode}, pod: []func(*corev1.Pod){tolerating("k", 10)},
			happens: []act{at(8*sec, func(w *world) { w.SetTaints("n", w.Edit(nil, "gone:NoExecute")...) })},
			want:    []act{once("p", 18*sec, 18500*ms), func(w *world) { waitedForTheWatch(w) }, lacks("taintkeeper_refused_evictions")},
		},
		"the backoff of a failed call does not grow meanwhile": {
			given: []act{stampedNode, failDeletes(errInternal, times(1))}, pod: []func(*corev1.Pod){tolerating("k", 6)},
			happens: []act{func(w *world) {
				was := w.Node("n").Spec.Taints
				at(4*sec, broken, tainted("n", "k:NoExecute-"))(w)
				at(14*sec, has(was...))(w)
			}},
			want: []act{func(w *world) {
				if at := w.Did("delete p"); len(at) != 2 || at[1]-at[0] > sec {
					w.T.Errorf("deletes at %v, want the second soon after the first, which failed", at)
				}
			}},
		},
	})
}

func waitedForTheWatch(w *world) {
	w.T.Helper()
	if retries, ok := w.metric("taintkeeper_retries_total", "Unconfirmed"); !ok || retries == 0 {
		w.T.Error("no eviction waited for the watch")
	}
}

// A node that agents change all the time, under a watch that is a little late: what is read live is never what the
// watch has just brought.
func TestANodeThatChangesAllTheTimeIsStampedAndItsPodsLeave(t *testing.T) {
	for _, c := range []struct{ lag, every time.Duration }{{1500 * ms, sec}, {300 * ms, 250 * ms}, {500 * ms, sec}} {
		for name, refused := range map[string]during{"stamping refused": always, "stamping allowed": times(0)} {
			playTales(t, map[string]tale{fmt.Sprintf("every %s, %s late, %s", c.every, c.lag, name): {
				given: []act{failStamps(nodeForbidden("n"), refused), lagging(c.lag)}, pod: []func(*corev1.Pod){tolerating("k", 30)},
				happens: []act{heartbeat, tainted("n", "k:NoExecute"), heartbeats(int(time.Minute/c.every), c.every)},
				want: []act{once("p", 31*sec, 37*sec), func(w *world) {
					if stamped := w.Node("n").Spec.Taints[0].TimeAdded != nil; stamped == refused(1, 0) {
						w.T.Errorf("timeAdded is written: %t", stamped)
					}
				}},
			}})
		}
	}
}

// timeAdded wants that of the first taint of node "n": the second of an instant since the world began.
func timeAdded(from, to time.Duration) act {
	return func(w *world) {
		w.T.Helper()
		added := w.Node("n").Spec.Taints[0].TimeAdded
		if added == nil || added.Time.Before(w.Start.Add(from)) || added.After(w.Start.Add(to)) {
			w.T.Errorf("after %v timeAdded is %v, want %v to %v", w.Now(), added, w.Start.Add(from), w.Start.Add(to))
		}
	}
}

func TestWhichTimeAddedIsWritten(t *testing.T) {
	counting := []func(*corev1.Pod){tolerating("k", 7200), tolerating(notReady, 7200), tolerating(unreachable, 7200)}
	future := func(by time.Duration) act {
		return func(w *world) { w.SetTaints("n", withTimeAdded("k", w.Start.Add(by))) }
	}
	newValue := byKubectl
	newValue.Value = "soon"
	playTales(t, map[string]tale{
		"not that of a NoSchedule taint": {
			given: []act{func(w *world) { w.addNode("n", "k:NoSchedule") }}, pod: counting,
			happens: []act{at(5*sec+300*ms, tainted("n", "k=v:NoExecute"))},
			want: []act{did("patch n", 1), func(w *world) {
				for _, taint := range w.Node("n").Spec.Taints {
					if (taint.TimeAdded != nil) != (taint.Effect == corev1.TaintEffectNoExecute) {
						w.T.Errorf("%s has timeAdded %v", taint.ToString(), taint.TimeAdded)
					}
				}
			}},
		},
		"the second in which the taint was first seen": {
			pod: counting, happens: []act{at(5*sec+300*ms, tainted("n", "k=v:NoExecute"))}, want: []act{timeAdded(5*sec, 5*sec)},
		},
		"that of not-ready, after it has become unreachable": {
			pod:     counting,
			happens: []act{at(10*sec+300*ms, isNow(notReady)), at(210*sec, func(w *world) { w.swap("n", notReady, unreachable) })},
			want:    []act{timeAdded(10*sec, 10*sec)},
		},
		// The clock of the client that set the taint is ahead: it counts from first sight.
		"none instead of one in the future that no other client has overwritten": {
			pod: counting, happens: []act{at(10*sec, future(20*sec))}, want: []act{timeAdded(20*sec, 20*sec)},
		},
		"the first sight instead of a second one in the future": {
			pod: counting, happens: []act{at(10*sec, future(20*sec)), at(11*sec, future(30*sec))}, want: []act{timeAdded(10*sec, 10*sec)},
		},
		// Nothing is written while the value changes.
		"that of the value, if it changed before it was written": {
			given: []act{failStamps(errUnreachable, before(15*sec))}, pod: counting,
			happens: []act{at(10*sec, has(byKubectl)), at(13*sec, has(newValue))}, want: []act{timeAdded(13*sec, 13*sec)},
		},
		"not that of an earlier taint, whose removal a lagging watch has not brought": {
			given: []act{lagging(3 * sec)}, pod: counting,
			happens: []act{
				heartbeat, tainted("n", "k:NoExecute"), heartbeats(20, 50*ms),
				at(4*sec+200*ms, heartbeat, tainted("n", "k-"), heartbeat, tainted("n", "k:NoExecute")), heartbeats(100, 50*ms),
				pass(10 * sec), timeAdded(4*sec, hour),
			},
		},
	})
}

// What fails is tried again at ever longer intervals, but what waits for a lagging watch is not.
func TestABusyNodeIsStampedSoonAfterItCanBe(t *testing.T) {
	playTales(t, map[string]tale{"no writes for two minutes": {
		given: []act{failStamps(errInternal, before(2*time.Minute)), lagging(1500 * ms)}, pod: []func(*corev1.Pod){tolerating("k", 7200)},
		happens: []act{heartbeat, tainted("n", "k:NoExecute"), heartbeats(180, sec), timeAdded(0, 3*time.Minute)},
	}})
}
