// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/admission"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// A leader can be paused for longer than its Lease lasts, for example when its virtual machine is paused. When it goes
// on it still acts on what it knew before.

// TestALeaderThatStoodStillPastItsLeaseDeletesNoPodThatStays stops the leader between its two calls for a pod. When the
// leader continues, the answer to the first call is there, and its watch of nodes is stuck.
func TestALeaderThatStoodStillPastItsLeaseDeletesNoPodThatStays(t *testing.T) {
	s := newScene(t)
	tainted, untainted, other := s.node(t, "tainted"), s.node(t, "untainted-meanwhile"), s.node(t, "tainted-meanwhile")
	during := s.pod(t, "due-meanwhile", tainted, rig.Tolerating("gone", 3))
	marked := s.pod(t, "marked", untainted)
	patient := s.pod(t, "patient", untainted, rig.Tolerating("gone", 3))
	late := s.pod(t, "late", other)
	counting := s.pod(t, "counting", other, rig.Tolerating("gone", 3))

	faults, nodes := &proxy.Faults{}, &proxy.Gate{}
	faults.During(t, proxy.WatchesOfNodes, nodes.Answer)
	calls, answered, arrives := &proxy.Instants{}, make(chan struct{}, 1), make(chan struct{})
	faults.During(t, markOf(marked), func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if calls.Note() == 1 {
			answered <- struct{}{}
			<-arrives
		}
		return response, err
	})
	r := startReplicas(t, proxy.During(t, proxy.Config{Access: userConfig, Over: faults.Over}).Access())
	arrive := sync.OnceFunc(func() { close(arrives) })
	t.Cleanup(func() { arrive(); nodes.Release() }) // before the proxy waits for the calls in flight

	came := taint(t, tainted, rig.NoExecute("gone"))
	waitStamped(t, tainted)
	taint(t, untainted, rig.NoExecute("gone"))
	await.Receive(t, answered)
	nodes.Hold()
	r.standStill(t)
	untaint(t, untainted, "gone")
	took := r.standbyTakesOver(t)
	cameLater := taint(t, other, rig.NoExecute("gone"))

	missed := promised(t, during, tainting{rig.NoExecute("gone"), came}).afterRestart()
	missed.latest = oracle.Later(missed.latest, took)
	leaves(t, during, missed)
	leaves(t, late, promised(t, late, tainting{rig.NoExecute("gone"), cameLater}))
	leaves(t, counting, promised(t, counting, tainting{rig.NoExecute("gone"), cameLater}))

	arrive()
	r.oldLeaderGoesOnAndEnds(t)
	checkNoDelete(t, marked)
	remains(t, marked)
	stays(t, patient)

	again := taint(t, untainted, rig.NoExecute("gone"))
	deletedSince(t, marked, again.From)
	leaves(t, patient, promised(t, patient, tainting{rig.NoExecute("gone"), again}))
	r.standby.terminate(t) // else the next test would find a leader that is no more
}

// TestEvictionsInFlightWhileTheirLeaderStandsStillHappenOnceOrNotAtAll stops the leader while a webhook looks at two of
// its deletes. The node of one pod stays tainted, so the standby deletes that pod. The node of the other is untainted.
func TestEvictionsInFlightWhileTheirLeaderStandsStillHappenOnceOrNotAtAll(t *testing.T) {
	s := newScene(t)
	tainted, untainted := s.livelyNode(t, "tainted"), s.node(t, "untainted-meanwhile")
	leaving, staying := s.pod(t, "leaving", tainted), s.pod(t, "staying", untainted)
	reviews := s.reviewDeletes(t, s.pod(t, "probe", untainted, rig.Tolerating("gone", 3600)))
	r := startReplicas(t, userConfig)

	came := taint(t, tainted, rig.NoExecute("gone"))
	byLeader := reviews.of(t, leaving)
	taint(t, untainted, rig.NoExecute("gone"))
	toRefuse := reviews.of(t, staying)
	r.standStill(t)
	untaint(t, untainted, "gone")
	toRefuse.answer <- &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "not today"}
	r.standbyTakesOver(t)
	reviews.of(t, leaving).answer <- nil
	gone(t, leaving)
	byLeader.answer <- nil

	r.oldLeaderGoesOnAndEnds(t)
	if done := audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.Of(leaving.UID)); len(done) != 1 {
		t.Errorf("pod %s was deleted by %v, want one call", leaving.Name, done)
	}
	checkNotBefore(t, leaving, promised(t, leaving, tainting{rig.NoExecute("gone"), came}).earliest)
	if tries := audit.All(t, auditlog.Deletes, auditlog.Of(staying.UID)); len(tries) != 1 || tries[0].Accepted() {
		t.Errorf("pod %s has the deletes %v, want the one that was refused", staying.Name, tries)
	}
	remains(t, staying)
	r.standby.terminate(t) // else the next test would find a leader that is no more
}

// TestALeaderThatLostItsLeaseInACallLeavesItToTheNext stops the leader while it renews its Lease. When it goes on it has no
// time left to find out that another has the Lease. client-go's elector then releases a Lease that it no longer holds.
func TestALeaderThatLostItsLeaseInACallLeavesItToTheNext(t *testing.T) {
	faults, renewed, arrives := &proxy.Faults{}, make(chan struct{}), make(chan struct{})
	r := startReplicas(t, proxy.During(t, proxy.Config{Access: userConfig, Over: faults.Over}).Access())
	stopped, changes := &proxy.Instants{}, &proxy.Instants{}
	faults.During(t, leaseCalls, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if stopped.Note() == 1 {
			renewed <- struct{}{}
			<-arrives
			return proxy.Unavailable.Response(request), nil
		}
		if request.Method != http.MethodGet {
			changes.Note()
		}
		return next.RoundTrip(request)
	})
	arrive := sync.OnceFunc(func() { close(arrives) })
	t.Cleanup(arrive) // before the proxy waits for the calls in flight

	await.Receive(t, renewed)
	r.standStill(t)
	r.standbyTakesOver(t)
	taken, err := lease(t.Context())
	await.Must(t, err)
	arrive()
	r.oldLeaderGoesOnAndEnds(t)
	if calls := changes.All(); len(calls) > 0 {
		t.Errorf("the old leader has changed the Lease at %v", calls)
	}
	now, err := lease(t.Context())
	await.Must(t, err)
	if !now.Spec.AcquireTime.Equal(taken.Spec.AcquireTime) {
		t.Errorf("the Lease was acquired again at %s, after %s", now.Spec.AcquireTime, taken.Spec.AcquireTime)
	}
	r.standby.terminate(t) // else the next test would find a leader that is no more
}

// leaseCalls are those about the Lease of the election.
func leaseCalls(request *http.Request) bool {
	return strings.HasSuffix(request.URL.Path, "/leases/taintkeeper")
}

// markOf are the patches with which the evictions of a pod begin.
func markOf(pod *corev1.Pod) proxy.Calls {
	patches := proxy.PodStatusPatches(pod.Namespace)
	return func(request *http.Request) bool {
		return patches(request) && strings.HasSuffix(request.URL.Path, "/"+pod.Name+"/status")
	}
}

// replicas are two processes of which one leads.
type replicas struct {
	leader, standby *process
	holder          string // of the Lease
}

// startReplicas starts a leader, which connects to the API server with the given access, and a standby.
func startReplicas(t *testing.T, access *rest.Config) *replicas {
	t.Helper()
	quick := []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}
	r := &replicas{leader: serve(t, access, quick...)}
	r.holder = waitLeader(t, "")
	r.standby = serve(t, userConfig, quick...)
	return r
}

// standStill stops the leader. The standby is paused, too, until [replicas.standbyTakesOver], so that the test decides
// what happens before that.
func (r *replicas) standStill(t *testing.T) {
	t.Helper()
	r.standby.signal(t, syscall.SIGSTOP)
	r.leader.signal(t, syscall.SIGSTOP)
}

// standbyTakesOver lets the standby continue, and returns once it leads.
func (r *replicas) standbyTakesOver(t *testing.T) time.Time {
	t.Helper()
	r.standby.signal(t, syscall.SIGCONT)
	r.holder = waitLeader(t, r.holder)
	return time.Now()
}

// oldLeaderGoesOnAndEnds lets the old leader continue, and checks that it ends because it finds its Lease lost.
func (r *replicas) oldLeaderGoesOnAndEnds(t *testing.T) {
	t.Helper()
	r.leader.signal(t, syscall.SIGCONT)
	if code := r.leader.exit(t); code != 1 || !strings.Contains(r.leader.stderr.String(), "leader election lost") {
		t.Errorf("exit code %d, want 1 and a log that says that the election is lost", code)
	}
	if holder := leader(t); holder != r.holder {
		t.Errorf("%s has the Lease, want %s", holder, r.holder)
	}
}

// checkNoDelete checks that no replica has sent a delete of a pod.
func checkNoDelete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if deletes := audit.All(t, auditlog.Deletes, auditlog.Of(pod.UID)); len(deletes) > 0 {
		t.Errorf("pod %s was to stay: %v", pod.Name, deletes)
	}
}

// deletedSince waits until a pod is deleted, and checks that no delete came before an instant. The pod may have been
// marked before that.
func deletedSince(t *testing.T, pod *corev1.Pod, earliest time.Time) {
	t.Helper()
	await.Eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if len(audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.Of(pod.UID))) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	for _, c := range audit.All(t, auditlog.Deletes, auditlog.Of(pod.UID)) {
		if c.Received.Before(earliest.Truncate(time.Microsecond)) {
			t.Errorf("too early: %v", c)
		}
	}
}

// review is a delete that a webhook looks at until it has an answer; nil admits it.
type review struct {
	pod    types.UID
	answer chan *metav1.Status
}

// reviews are what a webhook for the deletes of pods was asked.
type reviews struct {
	probe types.UID // a pod whose deletes are refused at once, which shows that the webhook is in force
	next  chan review
}

// reviewDeletes lets a webhook look at the deletes of the scene's pods until the test ends.
func (s *scene) reviewDeletes(t *testing.T, probe *corev1.Pod) *reviews {
	t.Helper()
	r := &reviews{probe: probe.UID, next: make(chan review)}
	webhook, err := admission.Serve(r.review)
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, webhook.Close()) })
	configurations := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = configurations.Create(t.Context(), s.asks(webhook), metav1.CreateOptions{})
	await.Must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		await.Must(t, configurations.Delete(ctx, s.Namespace, metav1.DeleteOptions{}))
		await.Must(t, s.AwaitDeletable(ctx, probe, true))
	})
	await.Must(t, s.AwaitDeletable(t.Context(), probe, false))
	return r
}

// asks makes the API server call a webhook for the deletes of the scene's pods, with the longest timeout there is.
func (s *scene) asks(webhook *admission.Webhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:              "reviews.taintkeeper.dev",
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &webhook.URL, CABundle: webhook.Bundle},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			TimeoutSeconds:          new(int32(30)),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// review is an [admission.Reviewer]. The delete with which a kubelet ends a pod that terminates is admitted at once.
func (r *reviews) review(ctx context.Context, pod *metav1.PartialObjectMetadata) *metav1.Status {
	switch {
	case pod.UID == r.probe:
		return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	case pod.DeletionTimestamp != nil:
		return nil
	}
	next := review{pod.UID, make(chan *metav1.Status, 1)}
	select {
	case r.next <- next:
	case <-ctx.Done():
		return nil
	}
	select {
	case answer := <-next.answer:
		return answer
	case <-ctx.Done():
		return nil
	}
}

// of waits for the next review, which must be about the given pod.
func (r *reviews) of(t *testing.T, pod *corev1.Pod) review {
	t.Helper()
	next := await.Receive(t, r.next)
	if next.pod != pod.UID {
		t.Fatalf("a delete of pod %s, want one of %s (%s)", next.pod, pod.Name, pod.UID)
	}
	return next
}
