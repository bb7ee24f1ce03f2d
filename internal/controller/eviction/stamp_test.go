// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

func TestARivalThatTakesTimeAddedAwayIsLeftAloneMoreAndMore(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.run()
		w.Taint("n", "k:NoExecute")
		for range 6 * 3600 {
			w.Pass(sec)
			if node := w.Node("n"); node.Spec.Taints[0].TimeAdded != nil {
				node.Spec.Taints[0].TimeAdded = nil
				w.UpdateNode(node)
			}
		}
		if stamps := w.Did("patch n"); len(stamps) > 20 || len(stamps) < 12 {
			t.Errorf("%d stamps in six hours, want them to become one an hour", len(stamps))
		}
	})
}

func TestANodeThatIsTaintedNowAndThenIsStampedEachTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.run()
		for range 20 {
			w.Taint("n", "k:NoExecute")
			w.Pass(5 * time.Minute)
			if w.Node("n").Spec.Taints[0].TimeAdded == nil {
				t.Fatalf("at %v the taint of five minutes ago has no timeAdded", time.Since(w.Start))
			}
			w.Taint("n", "k-")
			w.Pass(5 * time.Minute)
		}
	})
}

// A webhook, or an older version of the API, that drops timeAdded and answers that all is well.
func TestAStampThatIsStrippedDoesNotCount(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtimeObject, error) {
			w.Book.Note(action)
			node, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n")
			return true, node, err
		})
		w.addNode("n")
		w.addPod("patient", tolerating("off", 100))
		w.run()
		w.Taint("n", "off:NoExecute")
		for range 60 {
			w.Pass(30 * sec)
			w.missesAHeartbeat("n")
		}
		if at := w.Did("delete patient"); len(at) != 1 || at[0] < 99*sec || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
		if stamps := w.Did("patch n"); len(stamps) > 12 {
			t.Errorf("%d stamps in half an hour", len(stamps))
		}
	})
}

func TestTaintsOfAServerSideApplyAreLeftToIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		apply := func(value string) {
			t.Helper()
			_, err := w.Client.CoreV1().Nodes().Apply(t.Context(), applycorev1.Node("n").WithUID("uid-of-node-n").WithSpec(applycorev1.NodeSpec().WithTaints(
				applycorev1.Taint().WithKey("dedicated").WithValue(value).WithEffect(corev1.TaintEffectNoExecute))), metav1.ApplyOptions{FieldManager: "gitops"})
			if err != nil {
				t.Errorf("apply %s: %v", value, err)
			}
		}
		apply("gpu")
		w.addPod("p", tolerating("dedicated", 60))
		w.run()
		w.Pass(10 * sec)
		apply("gpu")
		apply("cpu")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 60 * sec})
	})
}

func TestWithoutStampingNoNodeIsWritten(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("patient", tolerating("off", 100))
		w.run(func(c *Config) { c.NeverStamp = true })
		w.Taint("n", "off:NoExecute")
		for range 10 {
			w.Pass(30 * sec)
			w.missesAHeartbeat("n")
		}
		if at := w.Did("delete patient"); len(at) != 1 || at[0] < 99*sec || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
		if stamps := w.Did("patch n"); len(stamps) != 0 {
			t.Errorf("the node was written at %v", stamps)
		}
	})
}

func TestANodeWhoseStampIsRefusedIsNotAskedForTwiceAMinute(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.stampingRefused()
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		if stamps := w.Did("patch n"); len(stamps) > 30 || len(stamps) < 12 {
			t.Errorf("%d stamps within an hour, want one every 4 to 5 minutes in the end", len(stamps))
		}
	})
}

// Each stamp makes the built-in controller try all due pods of the node again.
func TestNextToTheBuiltInANodeOnWhichNoCountdownRunsIsNotStamped(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("due")
		w.addPod("stays", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		})
		w.run(besideBuiltIn)
		w.Pass(hour)
		if at := w.Did("patch n"); len(at) != 0 {
			t.Fatalf("the node was patched at %v", at)
		}
		w.addPod("counts", tolerating("k", 60))
		w.Pass(sec)
		if at := w.Did("patch n"); len(at) != 1 {
			t.Errorf("a pod with a running countdown came, and the node was patched at %v, want once", at)
		}
	})
}

// The built-in would try the due pod a second time.
func TestNextToTheBuiltInAStampIsDecidedAboutOnceItHasItsToken(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 12))
		w.addPod("q", tolerating("k", 3600))
		w.run(besideBuiltIn, func(c *Config) { c.Limiter = rate.NewLimiter(rate.Every(10*time.Second), 1) })
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * time.Minute)
		deleted, stamped := w.Did("delete p"), w.Did("patch n")
		if len(deleted) != 1 || len(stamped) != 1 {
			t.Fatalf("p was deleted at %v, and n stamped at %v; want each once", deleted, stamped)
		}
		if stamped[0] >= 12*sec && stamped[0] < deleted[0] {
			t.Errorf("the node is stamped at %s, while p is due (since 12s, until %s)", stamped[0], deleted[0])
		}
	})
}
