// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// followed is what an Account would be told in a cluster where an Evictor works and no pod can be deleted.
type followed struct {
	*bubble.World

	tries *builtInTries

	mu    sync.Mutex
	begun []string // when tries began, in seconds since the world did
	last  builtin.NodeTries
}

func (f *followed) Decided(node string) time.Time { return f.tries.seeNode(node) }

func (f *followed) Recorded(_ context.Context, node string, since time.Time) error {
	f.tries.seeNodeSince(node, since)
	return nil
}

func (f *followed) add(is builtin.NodeTries) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is.Begun > 0 {
		f.begun = append(f.begun, fmt.Sprintf("%d since %v", is.Begun, is.From.Sub(f.Start)))
	}
	f.last = is
}

// isGone deletes a pod in spite of the API server's refusals.
func (f *followed) isGone(pod string) {
	f.Must(nil, f.API.Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", pod))
}

func (f *followed) terminates(pod string) {
	f.ChangePod(pod, func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"}
	})
}

// caches makes the caches of a process that follows the built-in.
func (f *followed) caches() caches.Caches {
	caches := caches.New(f.Client, f.Clock, true)
	f.tries = newBuiltInTries(AccountConfig{Clock: f.Clock, Nodes: caches.Nodes, Pods: caches.Pods}, f.add)
	return caches
}

// follow runs a test in a cluster with nodes "n" and "m", in which the Evictor starts once the pods are there.
func follow(t *testing.T, pods, test func(f *followed)) {
	t.Helper()
	bubble.Play(t, bubble.DescribeWrites, func(w *bubble.World) {
		w.On("delete", "pods", "", func() error { return errors.New("not now") })
		w.AddNode("n", "")
		w.AddNode("m", "")
		f := &followed{World: w}
		pods(f)
		caches := f.caches()
		evictor, err := eviction.New(eviction.Config{
			Client: w.Client, Clock: w.Clock, Nodes: caches.Nodes, Pods: caches.Pods, BuiltIn: f, NeverStamp: true,
		})
		w.Must(nil, err)
		w.Run("the Evictor", caches.With(evictor.Run))
		w.Pass(time.Second)
		test(f)
	})
}

// Pod "now" tolerates nothing. Pod "later" tolerates "soon" for 10 s, and "late" and "k" for an hour. The node is tainted
// after a second.
func TestAllPodsThatAreDueAreReportedWhateverTheyWaitFor(t *testing.T) {
	taint := func(specs ...string) func(f *followed) { return func(f *followed) { f.Taint("n", specs...) } }
	tolerates := func(pod, key string, seconds int64) func(f *followed) {
		return func(f *followed) { f.ChangePod(pod, rig.Tolerating(key, seconds)) }
	}
	pass := func(d time.Duration) func(f *followed) { return func(f *followed) { f.Pass(d) } }
	then := func(all ...func(f *followed)) func(f *followed) {
		return func(f *followed) {
			for _, each := range all {
				each(f)
				f.Pass(time.Second)
			}
		}
	}
	for name, test := range map[string]struct {
		happens func(f *followed)
		begun   []string // tries
		due     int      // in the end
		spared  bool     // a pod that was tried stays in the end
	}{
		"a taint that only one tolerates for a while": {taint("k:NoExecute"), []string{"1 since 1s"}, 1, false},
		"a toleration that ends": {
			then(taint("soon:NoExecute"), pass(30*time.Second)), []string{"1 since 1s", "1 since 11s"}, 2, false,
		},
		"tries that begin together count from the first": {
			then(taint("soon:NoExecute"), pass(30*time.Second), taint("other:NoExecute")),
			[]string{"1 since 1s", "1 since 11s", "2 since 1s"}, 2, false,
		},
		"and so they do in the other order": {
			then(tolerates("now", "soon", 30), taint("soon:NoExecute"), pass(time.Minute), taint("other:NoExecute")),
			[]string{"1 since 12s", "1 since 32s", "2 since 12s"}, 2, false,
		},
		"another taint": {then(taint("k:NoExecute"), taint("other:NoExecute")), []string{"1 since 1s", "2 since 1s"}, 2, false},
		"a heartbeat":   {then(taint("k:NoExecute"), func(f *followed) { f.Heartbeat("n") }), []string{"1 since 1s"}, 1, false},
		"an untaint":    {then(taint("k:NoExecute"), taint("k-")), []string{"1 since 1s"}, 0, true},
		"an untaint at once, before anything is decided": {
			func(f *followed) {
				f.Taint("n", "k:NoExecute")
				f.Taint("n", "k-")
			}, []string{"1 since 1s"}, 0, true,
		},
		"an untaint, and the same taint again": {
			then(taint("k:NoExecute"), taint("k-"), taint("k:NoExecute")), []string{"1 since 1s", "1 since 3s"}, 1, false,
		},
		"another taint instead, which is tolerated for a while": {
			then(tolerates("now", "late", 3600), taint("k:NoExecute"), taint("k-", "late:NoExecute")), []string{"1 since 2s"}, 0, true,
		},
		"a toleration that comes late": {
			then(taint("k:NoExecute"), tolerates("now", "k", 3600)), []string{"1 since 1s"}, 0, true,
		},
		"a toleration that comes late and is over soon": {
			then(taint("k:NoExecute"), tolerates("now", "k", 60), pass(2*time.Minute)), []string{"1 since 1s", "1 since 1m1s"}, 1, false,
		},
		"a toleration that comes late and was over before: it is looked at again": {
			then(taint("k:NoExecute"), tolerates("now", "k", 1), tolerates("now", "other", 1)),
			[]string{"1 since 1s", "1 since 2s", "1 since 2s"}, 1, false,
		},
		// processPodOnNode returns if something is scheduled already.
		"a timer stays when the taint that set it goes, and another remains": {
			then(tolerates("now", "soon", 3600), tolerates("now", "late", 3600), taint("soon:NoExecute", "late:NoExecute"), taint("soon-"), pass(10*time.Second)),
			[]string{"1 since 13s"}, 0, true,
		},
		"a timer stays when the taint that set it is replaced": {
			then(tolerates("now", "soon", 3600), tolerates("now", "late", 3600), taint("soon:NoExecute"), taint("soon-", "late:NoExecute"), pass(10*time.Second)),
			[]string{"1 since 13s"}, 0, true,
		},
		"a timer stays when the pod tolerates the taint for longer": {
			then(tolerates("now", "soon", 3600), taint("soon:NoExecute"), func(f *followed) {
				f.ChangePod("later", func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = new(int64(3600)) })
			}, pass(10*time.Second)),
			[]string{"1 since 12s"}, 0, true,
		},
		"a pod that terminates is tried, too": {
			then(taint("k:NoExecute"), func(f *followed) { f.terminates("now") }, taint("other:NoExecute"), taint("other-")),
			[]string{"1 since 1s", "2 since 1s", "1 since 1s"}, 1, true,
		},
		"a pod that terminates does not stay": {
			then(taint("k:NoExecute"), func(f *followed) { f.terminates("now") }, taint("k-")), []string{"1 since 1s"}, 0, false,
		},
		"a pod that is gone is no longer due": {
			then(taint("k:NoExecute"), func(f *followed) { f.isGone("now") }), []string{"1 since 1s"}, 0, false,
		},
		"a pod that is gone does not stay": {
			then(taint("k:NoExecute"), taint("k-"), func(f *followed) { f.isGone("now") }), []string{"1 since 1s"}, 0, false,
		},
		"a pod of the same name is another": {
			then(taint("k:NoExecute"), func(f *followed) {
				f.isGone("now")
				f.AddPod("now", "n", func(p *corev1.Pod) { p.UID = "another" })
			}), []string{"1 since 1s", "1 since 2s"}, 1, false,
		},
		"a pod that is bound to another node is due there": {
			then(taint("k:NoExecute"), func(f *followed) { f.Taint("m", "k:NoExecute") }, func(f *followed) {
				f.ChangePod("now", func(p *corev1.Pod) { p.Spec.NodeName = "m" })
			}), []string{"1 since 1s", "1 since 2s"}, 1, false,
		},
		"two nodes, of which one is untainted": {
			then(func(f *followed) { f.AddPod("p", "m") }, func(f *followed) { f.Taint("m", "k:NoExecute") }, taint("k:NoExecute"), taint("k-")),
			[]string{"1 since 2s", "1 since 3s"}, 1, true,
		},
		"two nodes, of which one is deleted": {
			then(func(f *followed) { f.AddPod("p", "m") }, func(f *followed) { f.Taint("m", "k:NoExecute") }, taint("k:NoExecute"), func(f *followed) { f.DeleteNode("m") }),
			[]string{"1 since 2s", "1 since 3s"}, 1, true,
		},
		"a node that is deleted and made again": {
			then(taint("k:NoExecute"), func(f *followed) { f.DeleteNode("n") }, func(f *followed) { f.AddNode("n", "") }), []string{"1 since 1s"}, 0, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(f *followed) {
				f.AddPod("now", "n")
				f.AddPod("later", "n", rig.Tolerating("soon", 10), rig.Tolerating("late", 3600), rig.Tolerating("k", 3600))
			}, func(f *followed) {
				test.happens(f)
				f.Pass(time.Second)
				if !slices.Equal(f.begun, test.begun) || f.last.Due != test.due || !f.last.Spared.IsZero() != test.spared {
					t.Errorf("tries: %q, %d due, a pod stays that was tried: %t; want %q, %d, %t", f.begun, f.last.Due, !f.last.Spared.IsZero(), test.begun, test.due, test.spared)
				}
			})
		})
	}
}

// A standby decides about no pod, and sees only what the watches bring. When it leads, it looks again before each try
// that began since its last look.
func TestAStandbyFollowsTheBuiltInToo(t *testing.T) {
	bubble.Play(t, bubble.DescribeWrites, func(w *bubble.World) {
		f := &followed{World: w}
		w.AddNode("n", "")
		w.AddPod("now", "n")
		w.AddPod("later", "n", rig.Tolerating("k", 10))
		w.Run("the caches", f.caches().With(func(ctx context.Context) error { <-ctx.Done(); return nil }))
		w.Pass(time.Second)
		w.Taint("n", "k:NoExecute")
		w.Pass(30 * time.Second)
		for _, step := range []struct {
			since time.Duration
			want  []string
		}{{time.Second, []string{"1 since 1s"}}, {11 * time.Second, []string{"1 since 1s", "1 since 11s"}}} {
			if f.tries.seeNodeSince("n", w.Start.Add(step.since)); !slices.Equal(f.begun, step.want) {
				t.Errorf("seen since %v are the tries %q, want %q", step.since, f.begun, step.want)
			}
		}
	})
}

func TestANodeWithoutTaintsIsForgottenUnlessItsPodsWereTried(t *testing.T) {
	follow(t, func(f *followed) { f.AddPod("p", "n"); f.AddPod("q", "m", rig.Tolerating("k", 3600)) }, func(f *followed) {
		for _, node := range []string{"n", "m"} {
			f.Taint(node, "k:NoExecute")
		}
		f.Pass(time.Second)
		for _, node := range []string{"n", "m"} {
			f.Taint(node, "k-")
		}
		f.Pass(time.Second)
		if f.tries.byNode["n"] == nil || f.tries.byNode["m"] != nil {
			t.Errorf("%v are remembered, want n, whose pod was tried", f.tries.byNode)
		}
		f.isGone("p")
		f.Pass(time.Second)
		if len(f.tries.byNode) > 0 {
			t.Errorf("%v are remembered", f.tries.byNode)
		}
	})
}
