// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// hang lets a reactor take its time without holding up the other calls to the fake clientset.
func (w *world) hang(d time.Duration) {
	w.Client.Unlock()
	w.InCall(d)
	w.Client.Lock()
}

// slowRead makes the next read of node "n", once armed, answer only after some time with the
// node as it was when the read arrived.
func (w *world) slowRead(d time.Duration) (armed *atomic.Bool) {
	armed = &atomic.Bool{}
	w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
		if !armed.CompareAndSwap(true, false) {
			return false, nil, nil
		}
		then, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n")
		w.hang(d)
		return true, then, err
	})
	return armed
}

func TestACancelSeenWhileTheNodeIsReadLiveWins(t *testing.T) {
	for name, cancel := range map[string]func(w *world){
		"untaint": func(w *world) { w.Taint("n", "k-") },
		"toleration": func(w *world) {
			for _, name := range []string{"p", "marked"} {
				w.ChangePod(name, func(pod *corev1.Pod) {
					pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				armed := w.slowRead(10 * sec)
				w.addStampedNode("n", "k:NoExecute")
				w.addPod("p", tolerating("k", 5))
				w.addPod("marked", tolerating("k", 5), markedByTaint) // by the previous process
				w.run()
				w.Until(4 * sec)
				armed.Store(true)
				w.Until(8 * sec) // the read is under way
				cancel(w)
				w.Pass(hour)
				w.wantDeletes(nil)
				if got := w.Did("patch p"); len(got) > 0 {
					w.T.Errorf("pod marked at %v, want never", got)
				}
			})
		})
	}
}

func TestACancelSeenWhileTheLiveReadWaitsForTheRateLimitWins(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", tolerating("k", 5))
		w.run(func(c *Config) { c.Limiter = rate.NewLimiter(rate.Every(10*time.Second), 1) })
		w.Until(8 * sec)
		w.ChangePod("p", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})
		w.Pass(hour)
		w.wantDeletes(nil)
		if got := w.Did("patch p"); len(got) > 0 {
			w.T.Errorf("pod marked at %v, want never", got)
		}
	})
}

func TestAShutdownDuringTheLiveReadStartsNoCallAfterIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		armed := w.slowRead(10 * sec)
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", tolerating("k", 5))
		w.run()
		w.Until(4 * sec)
		armed.Store(true)
		w.Until(8 * sec)
		w.Stop()
		w.Pass(hour)
		w.wantDeletes(nil)
		if got := w.Did("patch p"); len(got) > 0 {
			t.Errorf("the pod was patched at %v, after the shutdown at 8 s", got)
		}
	})
}

func TestA404ThatIsNotAboutThePodDoesNotEndIt(t *testing.T) {
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Message: `admission webhook "owner.example.com" denied the request: deployments.apps "web" not found`,
	}}
	proxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "delete", podsResource, "p", "404 page not found", 0, true)
	for name, broken := range map[string]struct {
		verb, subresource string
		answer            error
		get               error
	}{
		"a webhook's, on the delete":  {"delete", "", webhook, nil},
		"a webhook's, on the patch":   {"patch", "status", webhook, nil},
		"a proxy's, on all the calls": {"delete", "", proxy, proxy},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				ill := func(err error) func() error {
					return func() error {
						if time.Since(w.Start) < 30*sec {
							return err
						}
						return nil
					}
				}
				w.On(broken.verb, "pods", broken.subresource, ill(broken.answer))
				w.On("get", "pods", "", ill(broken.get))
				w.addNode("n")
				w.addPod("p")
				w.run()
				w.Until(sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(24 * hour)
				if _, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", "p"); err == nil {
					t.Errorf("pod p is still there a day after the 404s ended at 30 s; deletes at %v", w.Did("delete p"))
				}
			})
		})
	}
}

func TestAConditionThatTimesOutStopsBlockingTheDelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error {
			w.hang(apicall.Timeout)
			return fmt.Errorf("Patch: %w", context.DeadlineExceeded)
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		if got := w.Did("delete p"); len(got) != 1 {
			t.Errorf("deletes at %v, want one; the condition was tried %d times", got, len(w.Did("patch p")))
		}
	})
}

func TestAConditionWhoseConflictCannotBeLookedIntoStopsBlockingTheDelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error {
			return apierrors.NewConflict(podsResource, "p", errors.New("a webhook is busy"))
		})
		w.On("get", "pods", "", func() error { return apierrors.NewForbidden(podsResource, "p", errors.New("no get")) })
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		if got := w.Did("delete p"); len(got) != 1 {
			t.Errorf("deletes at %v, want one", got)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func answer(request *http.Request, code int, body string, header http.Header) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: request}
}

func TestACallIsNotGivenUpBeforeASlowWebhooksLimitOf30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(apicall.Config(&rest.Config{Host: "http://server", Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
			select {
			case <-time.After(29 * sec):
				return answer(request, http.StatusOK, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, nil), nil
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		})}))
		if err != nil {
			t.Fatal(err)
		}
		if err := (api{client: client}).delete(t.Context(), &podcache.Pod{Namespace: "default", Name: "p", UID: "u"}); err != nil {
			t.Errorf("a delete that the server would have accepted after 29 s failed: %v", err)
		}
	})
}

func TestAnAbsurdRetryAfterDoesNotBlindTheWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		client, err := kubernetes.NewForConfig(apicall.Config(&rest.Config{Host: "http://server", Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
			if calls.Add(1) == 1 {
				return answer(request, http.StatusTooManyRequests, "{}", http.Header{"Retry-After": {"1000000000"}}), nil
			}
			return answer(request, http.StatusOK, `{"kind":"NodeList","apiVersion":"v1","items":[]}`, nil), nil
		})}))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), hour)
		defer cancel()
		// The reflector waits and tries again by its own rules, once it has the answer.
		_, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if !apierrors.IsTooManyRequests(err) || time.Since(began) > 0 {
			t.Errorf("a list took %v and ended with %v, want the refusal at once", time.Since(began), err)
		}
	})
}

func TestAnAbsurdRetryAfterIsNotWaitedForAGeneration(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var calls atomic.Int32
		w.On("delete", "pods", "", func() error {
			if calls.Add(1) == 1 {
				return apierrors.NewTooManyRequests("slow down", 1_000_000_000)
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(24 * hour)
		if got := w.Did("delete p"); len(got) != 2 {
			t.Errorf("deletes at %v, want a second one within a day", got)
		}
	})
}

func TestPodsWhoseDeletesHangDoNotStarveTheOthers(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtimeObject, error) {
			if !strings.HasPrefix(action.(clienttesting.DeleteActionImpl).Name, "stuck") {
				return false, nil, nil
			}
			w.hang(apicall.Timeout)
			return true, nil, fmt.Errorf("Delete: %w", context.DeadlineExceeded)
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addStampedNode("m", "k:NoExecute")
		for i := range 60 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.addPod("healthy", tolerating("k", 30), func(pod *corev1.Pod) { pod.Spec.NodeName = "m" })
		w.run()
		w.Pass(6 * hour)
		got := w.Did("delete healthy")
		if len(got) != 1 || got[0] > 10*time.Minute {
			t.Errorf("the healthy pod, due at 30 s, was deleted at %v", got)
		}
	})
}

func TestATaintSetAgainDoesNotInheritTheBackoffOfACancelledEviction(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		w.On("delete", "pods", "", func() error {
			if fixed.Load() {
				return nil
			}
			return apierrors.NewInternalError(errors.New("no"))
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(600 * sec)
		w.Taint("n", "k-")
		fixed.Store(true)
		w.Pass(sec)
		again := time.Since(w.Start)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		got := w.Did("delete p")
		if at := got[len(got)-1]; at != again {
			t.Errorf("the second eviction, due at %v, came %v late", again, at-again)
		}
		// The second Marking event is a patch of the first one's count.
		if marking, cancelled := len(w.Did("event Marking"))+len(w.Did("patch p.")), len(w.Did("event Cancelling")); marking != 2 || cancelled != 1 {
			t.Errorf("%d Marking and %d Cancelling events, want 2 and 1", marking, cancelled)
		}
	})
}

func TestATaintSetAgainWhileItIsStampedCountsFromItsSecondSetting(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var refuse, slow atomic.Bool
		refuse.Store(true)
		w.On("patch", "nodes", "", func() error {
			if refuse.Load() {
				return apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("a policy"))
			}
			return nil
		})
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
			if slow.CompareAndSwap(true, false) {
				w.hang(5 * sec) // a 429 with Retry-After: client-go waits and asks again
			}
			return false, nil, nil
		})
		w.addNode("n")
		w.addPod("p", tolerating("k", 300))
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(200 * sec)
		tries := w.Did("patch n")
		slow.Store(true)
		refuse.Store(false)
		w.Until(tries[len(tries)-1] + 31*sec) // the read before the next try is under way
		w.Taint("n", "k-")
		w.Pass(sec)
		again := time.Since(w.Start)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		if got := w.Did("delete p"); len(got) != 1 || got[0] < again+300*sec {
			w.T.Errorf("a pod that tolerates 300 s of a taint set at %v was deleted at %v", again, got)
		}
	})
}

func TestATimeAddedOfTheZeroTimeIsMissing(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		node := w.Node("n")
		node.Spec.Taints[0].TimeAdded = &metav1.Time{} // what null and 1970 become in protobuf
		w.UpdateNode(node)
		w.addPod("p", tolerating("k", 20))
		for range 10 {
			w.run()
			w.Pass(15 * sec)
			w.Stop()
		}
		w.wantDeletes(map[string]time.Duration{"p": 21 * sec}) // 20 s after the end of the second
	})
}

func TestAPodIsCountedOnceWhenItsNodeIsLookedAtDuringItsDelete(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.Client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			w.hang(2 * sec)
			return false, nil, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p")
		w.addPod("other", tolerating("k", 100))
		w.run()
		w.Pass(sec)
		w.ChangePod("other", func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = new(int64(9999)) })
		w.Pass(10 * sec)
		w.wantMetric("taintkeeper_evictions_total", "deleted", 1)
		w.wantMetric("taintkeeper_evictions_total", "gone", 0)
	})
}

func TestARivalThatTakesTimeAddedAwayIsNotFoughtAtFullSpeed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.addNode("n")
		w.run()
		w.Taint("n", "k:NoExecute")
		for range 1000 {
			w.Pass(10 * ms)
			node, err := w.Client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if node.Spec.Taints[0].TimeAdded != nil {
				node.Spec.Taints[0].TimeAdded = nil
				w.UpdateNode(node)
			}
		}
		if got := len(w.Did("patch n")); got > 100 {
			t.Errorf("%d patches of a node in 10 s", got)
		}
	})
}

func TestManyUnconfirmedPodsDoNotLoopHot(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addStampedNode("n", "k:NoExecute")
		for i := range 1000 {
			w.addPod(fmt.Sprintf("p-%d", i))
		}
		var reads atomic.Int32
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
			reads.Add(1)
			return true, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-of-node-n"}}, nil
		})
		w.run()
		w.Pass(time.Minute)
		w.wantDeletes(nil)
		if got := reads.Load(); got > 3*60 {
			t.Errorf("%d reads of the node in a minute, want about two a second for all its pods", got)
		}
	})
}

func TestALiveReadFromBeforeTimeAddedWasWrittenChangesNoDeadline(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var failed atomic.Bool
		w.On("delete", "pods", "", func() error {
			if failed.CompareAndSwap(false, true) {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.API.Watches("nodes").Hold()
		w.Taint("n", "k:NoExecute")
		before := w.Node("n")
		w.SetTaints("n", noExecute("k"))
		w.Client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
			return true, before, nil
		})
		w.API.Watches("nodes").Release()
		w.Pass(hour)
		w.wantTries("delete p", sec, 100*ms)
		w.wantLateness(w.Did("delete p")[1] - sec) // counted from the taint
	})
}

func TestATaintThatLosesItsTimeAddedButStaysCountsOn(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 60))
		w.run()
		w.Until(sec)
		w.Taint("n", "k=v:NoExecute")
		for range 4 { // a rival that writes the taint without timeAdded, as kubectl taint --overwrite does
			w.Pass(10 * sec)
			w.Taint("n", "k=v:NoExecute")
		}
		w.Pass(sec)
		w.Stop()
		w.run()
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 62 * sec}) // after a restart second 1 counts from its end
	})
}

func TestATaintThatChangesItsValueKeepsTheDeadlineThatRuns(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 60))
		w.run()
		w.Until(sec)
		w.Taint("n", "k=v:NoExecute")
		w.Until(31 * sec)
		w.Taint("n", "k=w:NoExecute")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 61 * sec})
	})
}

// mutePodWatch brings nothing after the first list.
func (w *world) mutePodWatch() {
	w.Client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

func TestWhileThePodWatchIsSilentAPodIsPatchedOnceAndReadMoreAndMoreRarely(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var reads atomic.Int32
		w.On("get", "pods", "", func() error { reads.Add(1); return nil })
		var told atomic.Bool
		w.addNode("n")
		w.addPod("p")
		w.mutePodWatch()
		w.run(func(c *Config) {
			c.Logger = funcr.New(func(_, line string) {
				if strings.Contains(line, "do not confirm the eviction") {
					told.Store(true)
				}
			}, funcr.Options{})
		})
		w.ChangePod("p", tolerating("k", 600))
		reads.Store(0)
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		if patches := len(w.Did("patch p")); patches != 1 {
			t.Errorf("%d PATCHes in a minute, want one", patches)
		}
		if got := reads.Load(); got < 10 || got > 20 {
			t.Errorf("%d GETs in a minute, want one every 4 s", got)
		}
		if !told.Load() {
			t.Error("no line in the log says what it waits for")
		}
		w.Until(11 * time.Minute)
		if at := w.Did("delete p"); len(at) != 1 || at[0] < 10*time.Minute || at[0] > 10*time.Minute+5*time.Second {
			t.Errorf("deleted at %v, want once, when the toleration that the API server knows is over", at)
		}
	})
}

func TestAMarkTakenOffBySomeoneIsSetAgain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var tries atomic.Int32
		w.On("delete", "pods", "", func() error {
			if tries.Add(1) == 1 {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", markedByTaint)
		w.mutePodWatch()
		w.Client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			live, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", "p")
			if err != nil {
				return true, nil, err
			}
			unmarked := live.(*corev1.Pod).DeepCopy()
			unmarked.Status.Conditions = nil
			return true, unmarked, nil
		})
		w.run()
		w.Pass(time.Minute)
		if patches, deletes := len(w.Did("patch p")), len(w.Did("delete p")); patches != 2 || deletes != 2 {
			t.Errorf("%d PATCHes before %d DELETEs, want one before each", patches, deletes)
		}
	})
}

func TestAMarkedPodThatMayNotBeReadIsEvictedAllTheSame(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("get", "pods", "", func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil)
		})
		w.addNode("n")
		w.addPod("p", markedByTaint)
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		if got := w.Did("delete p"); len(got) != 1 || got[0] > 300*ms {
			t.Errorf("deleted at %v, want once, after the three tries of the first 300 ms", got)
		}
		if events := w.Did("event Deleted Pod"); len(events) != 0 {
			t.Errorf("%d events say that the condition is missing; the pod has it", len(events))
		}
	})
}

func TestTransientFailuresFarApartDoNotLetAStaleCacheOverruleWhatTheLiveReadsSaid(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var fail atomic.Bool
		w.On("get", "pods", "", func() error {
			if fail.CompareAndSwap(true, false) {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p")
		w.mutePodWatch()
		w.run()
		w.ChangePod("p", tolerating("k", 3600))
		w.Taint("n", "k:NoExecute")
		for range 3 {
			w.Pass(time.Minute)
			fail.Store(true)
		}
		w.Until(30 * time.Minute)
		w.wantDeletes(nil)
	})
}

func TestThreeFailuresInARowDoNotLetAStaleCacheOverruleWhatTheLiveReadJustSaid(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var fail atomic.Int32
		w.On("get", "pods", "", func() error {
			if fail.Add(-1) >= 0 {
				return apierrors.NewInternalError(errors.New("thrice"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("p", func(p *corev1.Pod) { p.Generation = 1 })
		w.mutePodWatch()
		w.run()
		w.ChangePod("p", tolerating("k", 3600))
		w.ChangePod("p", func(p *corev1.Pod) { p.Generation = 2 })
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		fail.Store(3)
		w.Until(30 * time.Minute)
		w.wantDeletes(nil)
	})
}

func TestAPodThatIsToleratedByNowIsNotMarkedAgain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", tolerating("k", 5), markedByTaint)
		w.mutePodWatch()
		w.run()
		w.ChangePod("p", func(pod *corev1.Pod) {
			pod.Status.Conditions = nil
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})
		w.Pass(time.Minute)
		w.wantDeletes(nil)
		if got := w.Did("patch p"); len(got) > 0 {
			t.Errorf("pod marked at %v, want never", got)
		}
	})
}

func TestAnUntaintSeenWhileAMarkedPodIsReadWinsOverMarkingItAgain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var first atomic.Bool
		w.Client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtimeObject, error) {
			if !first.CompareAndSwap(false, true) {
				return false, nil, nil
			}
			live, err := w.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", "p")
			if err != nil {
				return true, nil, err
			}
			unmarked := live.(*corev1.Pod).DeepCopy()
			unmarked.Status.Conditions = nil
			w.hang(10 * time.Second)
			return true, unmarked, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", markedByTaint)
		w.run()
		w.Pass(5 * time.Second) // the read is under way
		w.Taint("n", "k-")
		w.Pass(time.Hour)
		w.wantDeletes(nil)
		if got := w.Did("patch p"); len(got) > 0 {
			t.Errorf("pod marked at %v, want never: the taint went at 5 s", got)
		}
	})
}

func TestAMarkThatWasTakenOffAndMayNotBeSetAgainDoesNotHoldUpTheDelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error { return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil) })
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", markedByTaint, tolerating("k", 5))
		w.mutePodWatch()
		w.run()
		w.ChangePod("p", func(pod *corev1.Pod) { pod.Status.Conditions = nil })
		w.Pass(time.Minute)
		if got := w.Did("delete p"); len(got) != 1 {
			t.Errorf("deleted at %v, want once", got)
		}
	})
}
