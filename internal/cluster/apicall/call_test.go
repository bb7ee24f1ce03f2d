// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

func TestACallInFlightOutlivesItsContextButNotItsDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		deadline time.Duration // 0 for none
		want     time.Duration
	}{
		"no deadline":      {0, Timeout},
		"an earlier one":   {10 * time.Second, 10 * time.Second},
		"one that is late": {time.Hour, Timeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if test.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
			}
			call, done := InFlight(ctx)
			defer done()
			cancel() // the process stops
			began := time.Now()
			<-call.Done()
			if took := time.Since(began); took != test.want {
				t.Errorf("%s: the call ends after %s, want %s", name, took, test.want)
			}
		})
	}
}

// What was decided before the wait for the token is not what is written.
func TestDecideDecidesAgainOnceItHasAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(10*time.Second), 1)
		limiter.Allow()
		began := time.Now()
		for name, want := range map[string]bool{"over meanwhile": false, "still there": true} {
			asked := 0
			_, writes, err := Decide(t.Context(), limiter, func() (string, bool) {
				asked++
				return name, asked == 1 || want
			})
			if writes != want || err != nil || asked != 2 {
				t.Errorf("%s: it writes: %t, %v, after %d decisions", name, writes, err, asked)
			}
		}
		if _, writes, _ := Decide(t.Context(), limiter, func() (string, bool) { return "", false }); writes {
			t.Error("it writes nothing")
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s, want two tokens", took)
		}
	})
}

func TestTheBackoffDoublesUpToTheLast(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: LastBackoff, math.MaxInt: LastBackoff,
	} {
		if got := Doubled(FirstBackoff, failures, LastBackoff); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
	if got := Doubled(time.Minute, 1, time.Second); got != time.Second {
		t.Errorf("%v, want no more than the last", got)
	}
}

func TestTheQueueOfAControllerBacksOffInTheSameSteps(t *testing.T) {
	limiter := RateLimiter[string]()
	for failures := 1; failures <= 12; failures++ {
		if got, want := limiter.When("n"), Doubled(FirstBackoff, failures, LastBackoff); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}

func TestAQueueComesBackWhenTheReconcilerSays(t *testing.T) {
	limiter := Wait[string](func(of string) time.Duration { return time.Duration(len(of)) * time.Minute })
	if got := limiter.When("node"); got != 4*time.Minute {
		t.Errorf("it comes back in %v, want 4m", got)
	}
}

func TestTheBackoffOfACallDependsOnWhyItFailed(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err      error
		failures int
		most     time.Duration // and more than four fifths of it
	}{
		"the first time":      {errors.New("connection refused"), 1, FirstBackoff},
		"the third time":      {errors.New("connection refused"), 3, 4 * FirstBackoff},
		"again and again":     {errors.New("connection refused"), 100, LastBackoff},
		"refused":             {apierrors.NewForbidden(pods, "a", nil), 100, LastRefused},
		"a 404 of a webhook":  {apierrors.NewNotFound(pods, "a"), 100, LastRefused},
		"a server that fails": {apierrors.NewInternalError(errors.New("etcd")), 100, LastBackoff},
		"busy, no time named": {apierrors.NewTooManyRequests("busy", 0), 2, 2 * FirstBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Backoff(test.failures, test.err); got <= test.most*4/5 || got > test.most {
				t.Errorf("%v, want more than four fifths of %v", got, test.most)
			}
		})
	}
}

func TestTheTimeThatTheAPIServerNamesIsTheBackoff(t *testing.T) {
	for seconds, want := range map[int]time.Duration{7: 7 * time.Second, 3600: 5 * time.Minute} {
		if got := Backoff(1, busy(seconds)); got != want {
			t.Errorf("%v after an answer that names %d s, want %v", got, seconds, want)
		}
	}
}

// client-go would wait for that time and repeat the call itself.
func TestACallThatIsAnsweredWithARetryAfterFailsAtOnceAndSaysWhen(t *testing.T) {
	for code, tooMany := range map[int]bool{http.StatusTooManyRequests: true, http.StatusServiceUnavailable: false} {
		var calls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			writer.Header().Set("Retry-After", "7")
			writer.WriteHeader(code)
		}))
		defer server.Close()
		client, err := kubernetes.NewForConfig(Config(&rest.Config{Host: server.URL}))
		if err != nil {
			t.Fatal(err)
		}
		err = client.CoreV1().Pods("d").Delete(t.Context(), "p", metav1.DeleteOptions{})
		seconds, named := apierrors.SuggestsClientDelay(err)
		if calls.Load() != 1 || !named || seconds != 7 || apierrors.IsTooManyRequests(err) != tooMany {
			t.Errorf("%d calls, answered by %v, which names %d s", calls.Load(), err, seconds)
		}
	}
}

// busy is the answer of an API server that is too busy for some seconds.
func busy(seconds int) error { return apierrors.NewTooManyRequests("busy", seconds) }

func TestWhatFailedTogetherIsTriedAgainApartAndNeverLaterThanTheBackoff(t *testing.T) {
	const backoff = 10 * time.Second
	waits := map[time.Duration]bool{}
	for range 1000 {
		wait := jittered(backoff)
		if wait <= backoff*4/5 || wait > backoff {
			t.Fatalf("%v, want more than four fifths of %v", wait, backoff)
		}
		waits[wait] = true
	}
	if len(waits) < 900 {
		t.Errorf("only %d of 1000 waits differ", len(waits))
	}
	if wait := jittered(1); wait != 1 {
		t.Errorf("a backoff of 1 ns became %v", wait)
	}
}

func TestWhatFailsIsTriedAgainByItself(t *testing.T) {
	noon := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	var backoffs Backoffs[string]
	want := func(now time.Time, what string, want time.Duration, next time.Time) {
		t.Helper()
		if got := backoffs.Wait(what, now); got != want {
			t.Errorf("%s waits for %v, want %v", what, got, want)
		}
		if got := backoffs.Next(now); !got.Equal(next) {
			t.Errorf("the next is tried at %v, want %v", got, next)
		}
	}
	want(noon, "a", 0, time.Time{})
	backoffs.Fail("a", busy(1), noon)
	backoffs.Fail("b", busy(60), noon)
	want(noon, "a", time.Second, noon.Add(time.Second))
	want(noon, "b", time.Minute, noon.Add(time.Second))
	later := noon.Add(time.Second)
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", busy(2), later)
	want(later, "a", 2*time.Second, later.Add(2*time.Second))
	backoffs.Forget("a")
	want(later, "a", 0, noon.Add(time.Minute))
	backoffs.Fail("a", busy(1), later)
	want(later, "a", time.Second, later.Add(time.Second))
	backoffs.Fail("c", busy(60), later.Add(time.Hour))
	if len(backoffs.failed) != 1 {
		t.Errorf("%d failures are remembered, want that of c alone: the others are long over", len(backoffs.failed))
	}
}

// client-go logs "unable to cancel request" for a transport into which it cannot look.
func TestClientGoFindsTheConnectionBelowOurTransports(t *testing.T) {
	var clock timeline.Clock
	transport, err := rest.TransportFor(clock.Listen(Config(&rest.Config{Host: "https://127.0.0.1:6443"})))
	if err != nil {
		t.Fatal(err)
	}
	depth := 0
	for wrapper, ok := transport.(utilnet.RoundTripperWrapper); ok; wrapper, ok = transport.(utilnet.RoundTripperWrapper) {
		transport = wrapper.WrappedRoundTripper()
		depth++
	}
	if _, ok := transport.(*http.Transport); !ok || depth < 2 {
		t.Errorf("below %d transports is a %T, want net/http's below both of ours", depth, transport)
	}
}

func TestARefusalIsAnAnswerThatWouldBeTheSameAgain(t *testing.T) {
	nodes := corev1.Resource("nodes")
	answers := func(code int, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: reason}}
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a right is missing":        {apierrors.NewForbidden(nodes, "n", errors.New("no right")), true},
		"by validation":             {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "n", nil), true},
		"by a webhook":              {answers(http.StatusBadRequest, metav1.StatusReasonBadRequest), true},
		"by one with its own code":  {answers(http.StatusTeapot, ""), true},
		"by one that says 500":      {answers(http.StatusInternalServerError, metav1.StatusReasonForbidden), true},
		"wrapped":                   {fmt.Errorf("write: %w", apierrors.NewForbidden(nodes, "n", nil)), true},
		"a conflict is none":        {apierrors.NewConflict(nodes, "n", nil), false},
		"nor is a 404":              {apierrors.NewNotFound(nodes, "n"), false},
		"nor what asks for a pause": {apierrors.NewTooManyRequests("later", 1), false},
		"nor a token that expired":  {apierrors.NewUnauthorized("expired"), false},
		"nor a failure":             {apierrors.NewInternalError(errors.New("etcd")), false},
		"nor the lack of an answer": {context.DeadlineExceeded, false},
		"nor success":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Refused(test.err); got != test.want {
				t.Errorf("%v is refused: %t, want %t", test.err, got, test.want)
			}
		})
	}
}

func TestAPatchNamesItsObjectAndVersion(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"}}
	pod := metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "v"}
	ready := map[string]any{"type": "Ready"}
	for name, test := range map[string]struct {
		patch       func(*fake.Clientset) error
		kind        types.PatchType
		subresource string
		want        string
	}{
		"taints": {
			func(client *fake.Clientset) error {
				taints := []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
				_, err := PatchTaints(t.Context(), client, node, NodeEdit{Taints: taints}, metav1.PatchOptions{})
				return err
			}, types.MergePatchType, "",
			`{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}`,
		},
		"the last taint is taken off, and its label": {
			func(client *fake.Clientset) error {
				labels := map[string]*string{"gone": nil, "set": new("s")}
				_, err := PatchTaints(t.Context(), client, node, NodeEdit{Labels: labels}, metav1.PatchOptions{})
				return err
			}, types.MergePatchType, "",
			`{"metadata":{"uid":"u","resourceVersion":"7","labels":{"gone":null,"set":"s"}},"spec":{"taints":null}}`,
		},
		"conditions of a node": {
			func(client *fake.Clientset) error {
				conditions := []corev1.NodeCondition{{Type: "Ready", Status: "Unknown"}}
				_, err := PatchNodeConditions(t.Context(), client, node, conditions)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"u","resourceVersion":"7"},"status":{"conditions":[{"type":"Ready","status":"Unknown",` +
				`"lastHeartbeatTime":null,"lastTransitionTime":null}]}}`,
		},
		"a condition of a pod, whichever its version": {
			func(client *fake.Clientset) error {
				_, err := PatchPodCondition(t.Context(), client, pod, ready)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"v"},"status":{"conditions":[{"type":"Ready"}]}}`,
		},
		"a condition of a pod as it was": {
			func(client *fake.Clientset) error {
				pod := pod
				pod.ResourceVersion = "8"
				_, err := PatchPodCondition(t.Context(), client, pod, ready)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"v","resourceVersion":"8"},"status":{"conditions":[{"type":"Ready"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(node, &corev1.Pod{ObjectMeta: pod})
			if err := test.patch(client); err != nil {
				t.Fatal(err)
			}
			actions := client.Actions()
			if len(actions) != 1 {
				t.Fatalf("%d calls, want one", len(actions))
			}
			got := actions[0].(clienttesting.PatchAction)
			if string(got.GetPatch()) != test.want || got.GetPatchType() != test.kind || got.GetSubresource() != test.subresource {
				t.Errorf("%s patch of %q: %s\nwant %s of %q: %s",
					got.GetPatchType(), got.GetSubresource(), got.GetPatch(), test.kind, test.subresource, test.want)
			}
		})
	}
}
