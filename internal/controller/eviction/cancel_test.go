// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
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
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.Taint("n", "k-")
		w.Pass(hour)
		w.wantDeletes(nil)
		if said := w.Did("event Cancelling"); len(said) != 1 || said[0] != 3*sec {
			t.Errorf("events 'Cancelling deletion' at %v, want once, at the untaint", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
	})
}

func TestAnEvictionThatIsAbortedIsCarriedOutWhenThePodMustLeaveAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.run(w.slow(slowDelete).behind)
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.Taint("n", "k-")
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 13 * sec})
	})
}

func TestATolerationThatComesDuringTheDeleteAbortsIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 1))
		w.run(w.slow(slowDelete).behind)
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.ChangePod("p", tolerationSeconds(60))
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 70 * sec})
		if said := w.Did("event Cancelling"); len(said) != 0 {
			t.Errorf("events 'Cancelling deletion' at %v, want none about a pod that leaves later", said)
		}
	})
}

// An API server that does not notice that a call was given up.
func TestNoEvictionIsReportedAsCancelledIfThePodIsDeletedAnyway(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			w.hang(10 * sec)
			return false, nil, nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.Taint("n", "k-")
		w.Pass(hour)
		if said := w.Did("event Cancelling"); len(said) != 0 {
			t.Errorf("events 'Cancelling deletion' at %v, want none about a pod that was deleted", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "deleted", 1)
	})
}

func TestRefusalsBackOffAndAreNamed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("delete", "pods", "", func() error {
			return apierrors.NewForbidden(podsResource, "p", errors.New("ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: not now"))
		})
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(hour)
		if tries := len(w.Did("delete p")); tries > 30 {
			t.Errorf("%d tries within an hour, want one every 4 to 5 minutes in the end", tries)
		}
		w.wantMetric("taintkeeper_refused_evictions", "policy keep", 1)
		if said := w.Did("event Eviction of Pod default/p is refused (policy keep)"); len(said) != 1 {
			t.Errorf("events about the refusal at %v, want one", said)
		}
		if got := v1alpha1.WhyItStays(w.Pod("p")); got != "the deletion is refused (policy keep)" {
			t.Errorf("its condition says that it stays because %q, want it to name the policy", got)
		}
		w.Taint("n", "k-")
		w.Pass(sec)
		w.wantNoMetric("taintkeeper_refused_evictions")
	})
}

// A kubelet that starts ends pods without a toleration.
func TestAPodWhoseEvictionIsRefusedForAMinuteIsKeptAlive(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		for _, pod := range []string{"long", "soon"} {
			w.addPod(pod)
		}
		var passes atomic.Bool
		w.Client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			name := action.(clienttesting.DeleteAction).GetName()
			if name == "long" || !passes.Load() {
				return true, nil, apierrors.NewForbidden(podsResource, name, errors.New(`admission webhook "no.test" denied the request`))
			}
			return false, nil, nil
		})
		w.run()
		w.Taint("n", "k=v:NoExecute")
		w.Until(30 * sec)
		passes.Store(true)
		w.Until(55 * sec)
		if kept := w.Did("keep"); len(kept) > 0 {
			t.Errorf("pods are kept alive at %v, before anything has been refused for a minute", kept)
		}
		w.Until(10 * time.Minute)
		if ended := w.RestartKubelet("n"); len(ended) > 0 {
			t.Errorf("the kubelet ends %v", ended)
		}
		if long := w.Did("keep long"); !slices.Equal(long, []time.Duration{time.Minute}) || len(w.Did("keep soon")) > 0 {
			t.Errorf("tolerations were added at %v and %v, want one, after a minute", long, w.Did("keep soon"))
		}
	})
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
		w.API.Watches("nodes").Lag(10 * sec)
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(server.behind)
		for range 100 {
			if w.Pass(100 * ms); tries.Load() == troubleAfter {
				break
			}
		}
		w.Taint("n", "k-")
		w.Pass(time.Minute)
		if n := tries.Load(); n != troubleAfter {
			t.Errorf("the delete was tried %d times, want %d: the last one is refused after the node is untainted", n, troubleAfter)
		}
		if got := w.Pod("p").Status.Conditions[0]; strings.Contains(got.Message, "refused") {
			t.Errorf("the condition of a pod that stays was set again: %q", got.Message)
		}
	})
}

// inLog does something once, when a line with some words is written to the log.
func inLog(words string, do func()) func(*Config) {
	var done atomic.Bool
	return func(c *Config) {
		c.Logger = funcr.New(func(_, line string) {
			if strings.Contains(line, words) && !done.Swap(true) {
				do()
			}
		}, funcr.Options{Verbosity: 1})
	}
}

// untaintInCall removes the taints of node "n" during a call, and gives us the time to see that.
func (w *world) untaintInCall() {
	node := w.Node("n")
	node.Spec.Taints = nil
	w.Must(w.Client.CoreV1().Nodes().Update(w.T.Context(), node, metav1.UpdateOptions{}))
	w.InCall(10 * ms)
}

// The node is untainted after a try has failed, and before that is noted.
func TestAnEvictionThatIsWithdrawnAsItsTryEndsIsReportedAsCancelled(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("delete", "pods", "", func() error { return apierrors.NewInternalError(errors.New("not now")) })
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(inLog("Eviction failed, will retry", w.untaintInCall))
		w.Pass(hour)
		if said := w.Did("event Cancelling"); len(said) != 1 {
			t.Errorf("events 'Cancelling deletion' at %v, want once", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
	})
}

func TestADryRunThatIsWithdrawnAsItIsReportedIsCountedOnce(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(func(c *Config) { c.Mode = DryRun }, inLog("Dry run: would evict", w.untaintInCall))
		w.Pass(hour)
		if said := w.Did("event Cancelling"); len(said) != 1 {
			t.Errorf("events 'Cancelling deletion' at %v, want once", said)
		}
		w.wantMetric("taintkeeper_evictions_total", "dry_run", 1)
	})
}

// A refusal is remembered even after the pod may stay. The next eviction of the pod ends before it is tried.
func TestAnEvictionThatWasNeverTriedIsNotCounted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.On("delete", "pods", "", func() error { return apierrors.NewForbidden(podsResource, "p", errors.New("no")) })
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run()
		w.Pass(time.Minute)
		w.Taint("n", "k-")
		w.Pass(sec)
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
		w.Taint("n", "k:NoExecute")
		w.Pass(100 * ms)
		w.Taint("n", "k-")
		w.Pass(sec)
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
	})
}

// A pod that leaves later is not one that stays, whether its eviction is in flight or waits for its backoff.
func TestAnEvictionThatIsPushedBackIsNotCancelled(t *testing.T) {
	for name, server := range map[string]func(w *world) func(*Config){
		"in flight": func(w *world) func(*Config) { return w.slow(slowDelete).behind },
		"waiting": func(w *world) func(*Config) {
			w.On("delete", "pods", "", func() error {
				if time.Since(w.Start) < 30*sec {
					return apierrors.NewForbidden(podsResource, "p", errors.New("no"))
				}
				return nil
			})
			return func(*Config) {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				w.addNode("n", "k:NoExecute")
				w.addPod("p", tolerating("k", 1))
				w.run(server(w))
				w.Until(3 * sec)
				w.ChangePod("p", tolerationSeconds(60))
				w.Pass(hour)
				w.wantMetric("taintkeeper_evictions_total", "cancelled", 0)
				w.wantMetric("taintkeeper_evictions_total", "deleted", 1)
			})
		})
	}
}
