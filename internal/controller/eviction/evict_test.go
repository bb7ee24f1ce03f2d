// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

var (
	errBusy    = apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("a webhook is busy"))
	errAnother = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}},
	}}
)

// anotherPod makes reads of pod "p" find another that has its name.
func anotherPod(w *world) {
	w.answers("get", "pods", func(clienttesting.Action) (runtime.Object, error) {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "another"}}, nil
	})
}

// gone wants that the API server no longer has pod "p".
func gone(w *world) {
	w.T.Helper()
	if _, err := w.API.Get(podResource, "default", "p"); err == nil {
		w.T.Errorf("the pod is still there; deletes at %v", w.Did("delete p"))
	}
}

// acceptedSilently makes the API server accept deletes of which the watch says nothing.
func acceptedSilently(w *world) {
	w.answers("delete", "pods", func(action clienttesting.Action) (runtime.Object, error) {
		w.Book.Note(action)
		return &corev1.Pod{}, nil
	})
}

func TestWhatTheAnswersOfTheAPIServerMean(t *testing.T) {
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Message: `admission webhook "owner.example.com" denied the request: deployments.apps "web" not found`,
	}}
	proxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "delete", corev1.Resource("pods"), "p", "404 page not found", 0, true)
	notFound := apierrors.NewNotFound(corev1.Resource("pods"), "p")
	playTales(t, map[string]tale{
		"a 429 says when to try again": {
			given: []act{failDeletes(apierrors.NewTooManyRequests("slow down", 7), times(1))},
			want:  []act{tries("delete p", sec, 7*sec), lateness(7 * sec)},
		},
		"a 429 that names a generation counts as five minutes": {
			given: []act{failDeletes(apierrors.NewTooManyRequests("slow down", 1_000_000_000), times(1))},
			want:  []act{tries("delete p", sec, 5*time.Minute)},
		},
		"a pod that may stay when the time of a 429 is over is not deleted": {
			given:   []act{failDeletes(apierrors.NewTooManyRequests("slow down", 7), always)},
			happens: []act{tainted("n", "k:NoExecute"), at(5*sec, tainted("n", "k-"))},
			want:    []act{deletedAt(sec)},
		},
		"a 404 of a pod whose name another has ends the eviction": {
			given: []act{failDeletes(notFound, always), anotherPod}, want: []act{deletedAt(sec)},
		},
		"a conflict with the UID of another pod ends the eviction": {
			given: []act{failDeletes(errAnother, always)}, want: []act{deletedAt(sec), ended(resultReplaced, 1)},
		},
		"a conflict of a pod whose name another has ends the eviction": {
			given: []act{failDeletes(errBusy, always), anotherPod}, want: []act{deletedAt(sec), ended(resultReplaced, 1)},
		},
		"a conflict of another kind is a failure": {
			given: []act{failDeletes(errBusy, times(2))}, want: []act{tries("delete p", sec, 100*ms, 200*ms)},
		},
		"a webhook's 404 on the delete is not about the pod": {given: []act{failDeletes(webhook, before(30*sec))}, want: []act{gone}},
		"a webhook's 404 on the patch is not about the pod":  {given: []act{failMarks(webhook, before(30*sec))}, want: []act{gone}},
		"a proxy's 404s on all calls are not about the pod": {
			given: []act{failDeletes(proxy, before(30*sec)), failReads(proxy, before(30*sec))}, want: []act{gone},
		},
		"a pod whose delete was accepted is not deleted again, even if its watch does not show that": {
			given: []act{acceptedSilently},
			happens: []act{tainted("n", "a:NoExecute"), func(w *world) {
				for range 10 {
					w.Pass(sec)
					w.Taint("n", "b:NoExecute")
					w.Pass(sec)
					w.Taint("n", "b-")
				}
			}},
			want: []act{deletedAt(sec)},
		},
	})
}

// lateness wants the sum of both histograms, upstream's and ours, in seconds.
func lateness(want time.Duration) act {
	return func(w *world) {
		w.T.Helper()
		for _, name := range []string{"taint_eviction_controller_pod_deletion_duration_seconds", "taintkeeper_eviction_lateness_seconds"} {
			histograms := w.Metrics(name, nil)
			if len(histograms) != 1 || histograms[0].GetHistogram().GetSampleSum() != want.Seconds() {
				w.T.Errorf("%s observed %v, want %v in all", name, histograms, want)
			}
		}
	}
}

func TestAFailedDeleteIsRetriedIndefinitely(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var fixed atomic.Bool
		failDeletes(errForbidden, func(int, time.Duration) bool { return !fixed.Load() })(w)
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(4 * hour)
		tried := w.Did("delete p")
		wait := 100 * ms
		for i := range len(tried) - 1 {
			if got := tried[i+1] - tried[i]; got < wait*4/5 || got > wait {
				t.Fatalf("try %d came %v after the one before, want up to a fifth less than %v", i+2, got, wait)
			}
			wait = min(2*wait, 5*time.Minute)
		}
		counts("taintkeeper_retries_total", "Forbidden", float64(len(tried)))(w)
		fixed.Store(true)
		w.Pass(5 * time.Minute)
		did("delete p", len(tried)+1)(w)
		did("event Marking", 1)(w) // for the whole eviction
	})
}

// A condition that cannot be set is tried three times.
func TestAConditionThatCannotBeSetStopsBlockingTheDelete(t *testing.T) {
	notRead := failReads(errForbidden, always)
	playTales(t, map[string]tale{
		"it is refused": {given: []act{failMarks(errInternal, always)}, want: []act{
			tries("patch p", sec, 100*ms, 200*ms), once("p", sec+200*ms, sec+300*ms),
			did("event Deleted Pod default/p without the DisruptionTarget condition", 1),
		}},
		"it times out": {given: []act{func(w *world) {
			w.On("patch", "pods", "status", func() error {
				w.hang(apicall.Timeout)
				return fmt.Errorf("Patch: %w", context.DeadlineExceeded)
			})
		}}, want: []act{did("delete p", 1)}},
		"nothing tells what it conflicts with": {given: []act{failMarks(errBusy, always), notRead}, want: []act{did("delete p", 1)}},
		"an unreachable API server uses up none of the tries": {
			given: []act{failMarks(errUnreachable, before(time.Minute))},
			want:  []act{once("p", time.Minute, 2*time.Minute), did("event Deleted Pod", 0)},
		},
		"the pod has it and may not be read": {
			given: []act{notRead}, pod: []func(*corev1.Pod){markedByUs},
			want: []act{once("p", sec, sec+300*ms), did("event Deleted Pod", 0)},
		},
		"someone has taken it off, which the watch does not show, and it may not be set again": {
			given: []act{failMarks(errForbidden, always), mutePodWatch}, pod: []func(*corev1.Pod){markedByUs},
			happens: []act{changed("p", unmarked), tainted("n", "k:NoExecute")},
			want:    []act{did("delete p", 1)},
		},
		"someone takes it off again and again: it is set before each delete": {
			given: []act{failDeletes(errInternal, times(1)), mutePodWatch, func(w *world) {
				w.answers("get", "pods", func(clienttesting.Action) (runtime.Object, error) {
					live, err := w.API.Get(podResource, "default", "p")
					if err != nil {
						return nil, err
					}
					without := live.(*corev1.Pod).DeepCopy()
					unmarked(without)
					return without, nil
				})
			}},
			pod:  []func(*corev1.Pod){markedByUs},
			want: []act{did("patch p", 2), did("delete p", 2)},
		},
	})
}

func TestAPodThatIsMarkedAlreadyIsNotMarkedAgain(t *testing.T) {
	playTales(t, map[string]tale{"by the process before": {
		given:   []act{failDeletes(errInternal, before(10*sec))},
		happens: []act{tainted("n", "k:NoExecute"), at(10*sec, func(w *world) { w.Stop(); w.run() })},
		want:    []act{did("patch p", 1), did("event Deleted Pod", 0), gone},
	}})
}

func TestTheConditionIsThereBeforeTheDelete(t *testing.T) {
	want := corev1.PodCondition{
		Type: "DisruptionTarget", Status: "True", Reason: "DeletionByTaintManager",
		Message: "Taintkeeper: deleting due to NoExecute taint", ObservedGeneration: 7,
	}
	play(t, func(t *testing.T, w *world) {
		w.answers("delete", "pods", func(action clienttesting.Action) (runtime.Object, error) {
			pod, err := w.API.Get(podResource, "default", "p")
			w.Must(nil, err)
			want.LastTransitionTime = metav1.NewTime(w.Start.Add(5 * sec).UTC())
			got := pod.(*corev1.Pod).Status.Conditions
			if len(got) == 1 {
				got[0].LastTransitionTime = metav1.NewTime(got[0].LastTransitionTime.UTC())
			}
			if !slices.Equal(got, []corev1.PodCondition{want}) {
				t.Errorf("conditions at the delete: %+v, want %+v", got, want)
			}
			options := action.(clienttesting.DeleteActionImpl).DeleteOptions
			if options.Preconditions == nil || *options.Preconditions.UID != "uid-of-p" || options.GracePeriodSeconds != nil {
				t.Errorf("deleted with %+v, want the pod's UID as a precondition, and its own grace period", options)
			}
			return nil, nil
		})
		w.addNode("n")
		w.addPod("p")
		w.run()
		w.Until(5 * sec)
		w.Taint("n", "k:NoExecute")
		deletedAt(5 * sec)(w)
	})
}

// slowRead makes the first read of an object that begins at an instant or later take 10 s. It answers with the object
// as it was when the read arrived.
func slowRead(resource, namespace, name string, from time.Duration) act {
	return func(w *world) {
		var over atomic.Bool
		w.answers("get", resource, func(action clienttesting.Action) (runtime.Object, error) {
			if w.Now() < from || !over.CompareAndSwap(false, true) {
				return nil, nil
			}
			then, err := w.API.Get(action.GetResource(), namespace, name)
			if pod, ok := then.(*corev1.Pod); ok {
				then = pod.DeepCopy()
				unmarked(then.(*corev1.Pod))
			}
			w.hang(10 * sec)
			return then, err
		})
	}
}

// untaintedInTruth makes live reads of node "n" show no taint.
func untaintedInTruth(w *world) {
	w.answers("get", "nodes", func(clienttesting.Action) (runtime.Object, error) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-of-node-n"}}, nil
	})
}

// Each call takes time. What is seen meanwhile counts, and what the API server itself shows.
func TestACancelSeenWhileTheNodeIsReadLiveWins(t *testing.T) {
	in5 := tolerating("k", 5) // due at 4 s on a stamped node
	readsOfNode, tolerates := slowRead("nodes", "", "n", 3*sec), changed("p", toleratingAll)
	playTales(t, map[string]tale{
		"an untaint": {
			given: []act{readsOfNode, stampedNode}, pod: []func(*corev1.Pod){in5},
			happens: []act{at(8*sec, tainted("n", "k-"))}, want: []act{stays},
		},
		"an untaint, and the process before has marked the pod": {
			given: []act{readsOfNode, stampedNode}, pod: []func(*corev1.Pod){in5, markedByUs},
			happens: []act{at(8*sec, tainted("n", "k-"))}, want: []act{stays},
		},
		"a toleration": {
			given: []act{readsOfNode, stampedNode}, pod: []func(*corev1.Pod){in5},
			happens: []act{at(8*sec, tolerates)}, want: []act{stays},
		},
		"the end of the process": {
			given: []act{readsOfNode, stampedNode}, pod: []func(*corev1.Pod){in5},
			happens: []act{at(8*sec, func(w *world) { w.Stop() })}, want: []act{stays},
		},
		"a toleration, while the read waits for the rate limit": {
			given: []act{stampedNode}, pod: []func(*corev1.Pod){in5}, config: []func(*Config){limited(0.1)},
			happens: []act{at(8*sec, tolerates)}, want: []act{stays},
		},
		"an untaint, while a pod whose mark was taken off is read": {
			given: []act{slowRead("pods", "default", "p", 0), stampedNode}, pod: []func(*corev1.Pod){markedByUs},
			happens: []act{at(5*sec, tainted("n", "k-"))}, want: []act{stays},
		},
		"an untaint that only the API server shows": {
			given: []act{untaintedInTruth, stampedNode}, happens: []act{}, want: []act{stays, did("event Marking", 0)},
		},
		"an untaint that the watch brings 5 s late": {
			given: []act{func(w *world) { w.API.Watches("nodes").Lag(5 * sec) }}, pod: []func(*corev1.Pod){tolerating("k", 30)},
			happens: []act{tainted("n", "k:NoExecute"), heartbeats(34, sec), tainted("n", "k-")}, want: []act{stays},
		},
		"a toleration that only the API server shows, of a pod whose mark was taken off": {
			given: []act{stampedNode, mutePodWatch}, pod: []func(*corev1.Pod){in5, markedByUs},
			happens: []act{changed("p", unmarked), tolerates}, want: []act{stays},
		},
		"a toleration that only the API server shows, although reads fail now and then": {
			given:   []act{mutePodWatch, failReads(errInternal, failsAt(time.Minute, 2*time.Minute, 3*time.Minute))},
			happens: []act{changed("p", tolerating("k", 7200)), tainted("n", "k:NoExecute")},
			want:    []act{did("delete p", 0)},
		},
		"a toleration that only the API server shows, although three reads in a row fail": {
			given:   []act{mutePodWatch, failReads(errInternal, failsAt(time.Minute, time.Minute, time.Minute))},
			happens: []act{changed("p", tolerating("k", 7200)), tainted("n", "k:NoExecute")},
			want:    []act{did("delete p", 0)},
		},
	})
}

// failsAt disturbs the first call after each of some instants.
func failsAt(instants ...time.Duration) during {
	return func(_ int, now time.Duration) bool {
		if len(instants) == 0 || now < instants[0] {
			return false
		}
		instants = instants[1:]
		return true
	}
}

// heartbeats gives node "n" another version again and again.
func heartbeats(count int, every time.Duration) act {
	return func(w *world) {
		for range count {
			w.Pass(every)
			w.Heartbeat("n")
		}
	}
}

// The answer to the patch, or a read if there is nothing to patch, shows what the watch of pods has not brought yet.
func TestAPodIsDecidedAboutAsTheAPIServerHasItNotAsItsWatchDoes(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it tolerates the taint by now": tolerating("k", 7200),
		"it terminates by now":          func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) },
	} {
		for verb, has := range map[string]func(*corev1.Pod){"patch": unmarked, "get": markedByUs} {
			answer := func(w *world) {
				w.answers(verb, "pods", func(clienttesting.Action) (runtime.Object, error) {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-of-p"}, Spec: corev1.PodSpec{NodeName: "n"}}
					markedByUs(pod)
					change(pod)
					return pod, nil
				})
			}
			playTales(t, map[string]tale{name + ", says the answer to a " + verb: {
				given: []act{answer}, pod: []func(*corev1.Pod){has}, want: []act{did("delete p", 0)},
			}})
		}
	}
}

func TestWhileThePodWatchIsSilentAPodIsPatchedOnceAndReadMoreAndMoreRarely(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var reads atomic.Int32
		w.On("get", "pods", "", func() error { reads.Add(1); return nil })
		w.addNode("n")
		w.addPod("p")
		mutePodWatch(w)
		told := false
		w.run(inLog("do not confirm the eviction", func() { told = true }))
		w.ChangePod("p", tolerating("k", 600))
		reads.Store(0)
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		did("patch p", 1)(w)
		if got := reads.Load(); got < 10 || got > 20 || !told {
			t.Errorf("%d GETs in a minute, want one every 4 s, and a line in the log about what it waits for: %t", got, told)
		}
		w.Until(11 * time.Minute)
		once("p", 10*time.Minute, 10*time.Minute+5*sec)(w) // when the toleration that the API server knows is over
	})
}

// slowDelete makes each delete take some time.
func slowDelete(takes time.Duration) func(verb, name string) (time.Duration, error) {
	return func(verb, _ string) (time.Duration, error) {
		if verb == "delete" {
			return takes, nil
		}
		return 0, nil
	}
}

// withSlowDeletes gives an Evictor an API server whose deletes take 10 s, before it carries them out or after that.
func withSlowDeletes(after bool) func(w *world) func(*Config) {
	return func(w *world) func(*Config) {
		takes := func(ctx context.Context, r bubble.Request) error {
			if r.Verb == "delete" {
				return bubble.Takes(ctx, 10*sec)
			}
			return nil
		}
		slow := &bubble.Slow{Clientset: w.Client, Before: takes}
		if after {
			slow.Before, slow.After = nil, takes
		}
		return func(c *Config) { c.Client, c.EventClient = slow, w.Client }
	}
}

func TestAnUntaintAbortsTheDeleteInFlight(t *testing.T) {
	untaint, taint := tainted("n", "k-"), tainted("n", "k:NoExecute")
	cancelled := did("event Cancelling", 1)
	for name, test := range map[string]struct {
		server  func(w *world) func(*Config)
		pod     func(*corev1.Pod)
		happens []act
		want    []act
	}{
		"an untaint": {
			withSlowDeletes(false), unmarked, []act{taint, at(3*sec, untaint)},
			[]act{did("delete p", 0), cancelled, ended(resultCancelled, 1)},
		},
		"an untaint, of a pod that must leave again at once": {
			withSlowDeletes(false), unmarked, []act{taint, at(3*sec, untaint, taint)}, []act{deletedAt(13 * sec)},
		},
		"a node that is registered again without the taint": {
			withSlowDeletes(false), unmarked,
			[]act{taint, at(3*sec, func(w *world) { w.DeleteNode("n"); w.addNode("n") })},
			[]act{did("delete p", 0), ended(resultCancelled, 1)},
		},
		"an untaint while the process ends": {
			func(w *world) func(*Config) { return w.slow(slowDelete(4 * sec)).behind }, unmarked,
			[]act{taint, at(2*sec, func(w *world) {
				go func() {
					w.InCall(sec)
					w.Taint("n", "k-")
				}()
				w.Stop()
			})},
			[]act{did("delete p", 0)},
		},
		"a longer toleration is no reason to say that the pod stays": {
			withSlowDeletes(false), tolerating("k", 1), []act{taint, at(3*sec, changed("p", tolerationSeconds(60)))},
			[]act{deletedAt(71 * sec), did("event Cancelling", 0), ended(resultCancelled, 0), ended(resultDeleted, 1)},
		},
		"nor is it while the next try is waited for": {
			func(w *world) func(*Config) {
				failDeletes(errForbidden, before(30*sec))(w)
				return func(*Config) {}
			},
			tolerating("k", 1), []act{taint, at(4*sec, changed("p", tolerationSeconds(60)))},
			[]act{ended(resultCancelled, 0), ended(resultDeleted, 1)},
		},
		"an API server that does not notice deletes the pod: nothing is cancelled": {
			func(w *world) func(*Config) {
				w.answers("delete", "pods", func(clienttesting.Action) (runtime.Object, error) { w.hang(10 * sec); return nil, nil })
				return func(*Config) {}
			},
			unmarked, []act{taint, at(3*sec, untaint)}, []act{gone, did("event Cancelling", 0), ended(resultDeleted, 1)},
		},
		"the pod was deleted, and the answer is on its way: nothing is cancelled": {
			withSlowDeletes(true), unmarked, []act{mutePods, taint, at(3*sec, untaint)},
			[]act{gone, did("event Cancelling", 0), ended(resultCancelled, 0), ended(resultGone, 1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				s := tale{pod: []func(*corev1.Pod){test.pod}, config: []func(*Config){test.server(w)}, happens: test.happens, want: test.want}
				s.in(w)
			})
		})
	}
}

// mutePods keeps the watch of pods from bringing more for a while.
func mutePods(w *world) { w.API.Watches("pods").Hold() }

// untaintInCall removes the taints of node "n" during a call, and gives us the time to see that.
func (w *world) untaintInCall() {
	node := w.Node("n")
	node.Spec.Taints = nil
	w.Must(w.Client.CoreV1().Nodes().Update(w.T.Context(), node, metav1.UpdateOptions{}))
	w.InCall(10 * ms)
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

func TestAnEvictionThatIsWithdrawnBetweenTwoCallsIsReportedAndCountedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		mode Mode
		line string // in the log, at which the node is untainted
		want act
	}{
		"a try has failed, which is not noted yet": {Evict, "Eviction failed, will retry", ended(resultCancelled, 1)},
		"a dry run": {DryRun, "Dry run: would evict", ended(resultDryRun, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				failDeletes(errInternal, always)(w)
				w.addNode("n", "k:NoExecute")
				w.addPod("p")
				w.run(func(c *Config) { c.Mode = test.mode }, inLog(test.line, w.untaintInCall))
				w.Pass(hour)
				did("event Cancelling", 1)(w)
				test.want(w)
			})
		})
	}
	// A refusal is remembered even after the pod may stay. The next eviction of the pod ends before it is tried.
	playTales(t, map[string]tale{"it was never tried": {
		given: []act{failDeletes(errForbidden, always)},
		happens: []act{
			tainted("n", "k:NoExecute"), at(time.Minute, tainted("n", "k-")), at(61*sec, ended(resultCancelled, 1)),
			tainted("n", "k:NoExecute"), at(61*sec+100*ms, tainted("n", "k-")),
		},
		want: []act{ended(resultCancelled, 1)},
	}})
}

func TestATaintSetAgainDoesNotInheritTheBackoffOfACancelledEviction(t *testing.T) {
	playTales(t, map[string]tale{"it was tried for ten minutes": {
		given:   []act{failDeletes(errInternal, before(600*sec))},
		happens: []act{tainted("n", "k:NoExecute"), at(600*sec, tainted("n", "k-")), at(601*sec, tainted("n", "k:NoExecute"))},
		want: []act{did("event Cancelling", 1), func(w *world) {
			tried := w.Did("delete p")
			if at := tried[len(tried)-1]; at != 601*sec {
				w.T.Errorf("the second eviction, due at 601 s, came at %v", at)
			}
			// The second Marking event is a patch of the first one's count.
			if marking := len(w.Did("event Marking")) + len(w.Did("patch p.")); marking != 2 {
				w.T.Errorf("%d Marking events, want 2", marking)
			}
		}},
	}})
}

// The watch is late, and the node is untainted while the third refusal takes its time: the condition of a pod that
// stays is left alone.
func TestARefusalIsNotSaidOfAPodThatStaysByNow(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var tried atomic.Int32
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb != "delete" {
				return 0, nil
			}
			takes := time.Duration(0)
			if tried.Add(1) == troubleAfter {
				takes = 2 * sec
			}
			return takes, errForbidden
		})
		w.API.Watches("nodes").Lag(10 * sec)
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(server.behind)
		for range 100 {
			if w.Pass(100 * ms); tried.Load() == troubleAfter {
				break
			}
		}
		w.Taint("n", "k-")
		w.Pass(time.Minute)
		if n, got := tried.Load(), w.Pod("p").Status.Conditions[0]; n != troubleAfter || strings.Contains(got.Message, "refused") {
			t.Errorf("after %d tries (want %d) the condition of a pod that stays says %q", n, troubleAfter, got.Message)
		}
	})
}

func TestAShutdownFinishesTheCallInFlightAndStartsNoOther(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.On("patch", "pods", "status", func() error { w.InCall(5 * sec); return nil })
		// The fake clientset answers one call at a time, so nothing else may call it meanwhile.
		stampedNode(w)
		w.addPod("p", tolerating("k", 10))
		w.run(func(c *Config) { c.EventClient = fake.NewClientset() })
		w.Until(11 * sec)
		w.Stop()
		if ended := w.Now(); ended != 15*sec {
			t.Errorf("the shutdown took until %v, want 15 s: the patch still needed 4 s", ended)
		}
		w.Pass(hour)
		did("patch p", 1)(w)
		did("delete p", 0)(w)
	})
}
