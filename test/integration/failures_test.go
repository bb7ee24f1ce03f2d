// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

func TestDeletesThatAPolicyRefusesAreRetriedUntilItAllowsThem(t *testing.T) {
	resident(t)
	s := newScene(t)
	node := s.livelyNode(t, "tainted")
	pods := s.pods(t, 10, node)
	allow := s.refuseDeletes(t)

	came := taint(t, node, noExecute("gone"))
	until(t, came.to.Add(4*time.Second))
	for _, pod := range pods {
		if tries := audit.All(t, auditlog.Deletes, auditlog.Refused, auditlog.Of(pod.UID)); len(tries) < 3 {
			t.Errorf("pod %s: %d deletes were refused, want at least 3: %v", pod.Name, len(tries), tries)
		}
		remains(t, pod)
	}
	allow()
	for _, pod := range pods {
		due := promised(t, pod, tainting{noExecute("gone"), came})
		due.latest = time.Now()
		leaves(t, pod, due)
		gone(t, pod)
	}
}

// refuseDeletes lets a policy refuse the deletes of the scene's pods, by anybody, until the
// function that it returns is called.
func (s *scene) refuseDeletes(t *testing.T) (allow func()) {
	t.Helper()
	policies := admin.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), s.policy(), metav1.CreateOptions{})
	must(t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        s.namespace,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	ctx := context.WithoutCancel(t.Context())
	allow = sync.OnceFunc(func() {
		if err := errors.Join(
			policies.ValidatingAdmissionPolicyBindings().Delete(ctx, s.namespace, metav1.DeleteOptions{}),
			policies.ValidatingAdmissionPolicies().Delete(ctx, s.namespace, metav1.DeleteOptions{}),
		); err != nil {
			t.Errorf("take the policy away: %v", err)
		}
		s.waitDeletes(ctx, t, func(err error) bool { return err == nil })
	})
	t.Cleanup(allow)
	s.waitDeletes(ctx, t, func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) })
	return allow
}

func (s *scene) policy() *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no deletes today"}},
		},
	}
}

// waitDeletes waits until the delete of a pod would be answered as wanted: the API server needs a
// moment to notice a policy.
func (s *scene) waitDeletes(ctx context.Context, t *testing.T, wanted func(error) bool) {
	t.Helper()
	probe := localcluster.NewPod("probe", "no-node")
	if _, err := admin.CoreV1().Pods(s.namespace).Create(ctx, probe, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	err := poll(ctx, func(ctx context.Context) error {
		err := admin.CoreV1().Pods(s.namespace).Delete(ctx, probe.Name, dryRun)
		if wanted(err) {
			return nil
		}
		return cmp.Or(err, errors.New("a delete would be accepted"))
	})
	if err != nil {
		t.Errorf("wait for the policy: %v", err)
	}
}

func TestAnOutageOfTheAPIServerLosesNoEvictionAndDoublesNone(t *testing.T) {
	s := newScene(t)
	busy, node := s.livelyNode(t, "busy"), s.livelyNode(t, "tainted")
	const many, few = 100, 20
	var interrupted, due []*corev1.Pod
	for i := range many {
		interrupted = append(interrupted, s.pod(t, fmt.Sprintf("interrupted-%d", i), busy))
	}
	for i := range few {
		due = append(due, s.pod(t, fmt.Sprintf("due-%d", i), node, tolerating("gone", 6)))
	}
	faults := newFaults()
	faults.add(t, podDeletes(s.namespace), delay(50*time.Millisecond).answer)
	alone(t, faults, func(config *eviction.Config) { config.ConcurrentEvictions = 2 })

	later := taint(t, node, noExecute("gone"))
	waitStamped(t, node)
	atOnce := taint(t, busy, noExecute("gone"))
	eventually(t, "some pods are deleted", func(context.Context) error {
		if done := audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.namespace)); len(done) < 5 {
			return fmt.Errorf("%d are", len(done))
		}
		return nil
	})
	restart := stopAPIServer(t)
	over := promised(t, due[0], tainting{noExecute("gone"), later})
	if !time.Now().Before(over.earliest) {
		t.Logf("the API server took until %s after the due instant to stop", time.Since(over.earliest))
	}
	until(t, over.latest.Add(time.Second))
	restart()

	back := time.Now().Add(lastBackoff)
	for _, pod := range interrupted {
		leaves(t, pod, promise{promised(t, pod, tainting{noExecute("gone"), atOnce}).earliest, back})
		gone(t, pod)
	}
	for _, pod := range due {
		leaves(t, pod, promise{over.earliest, back})
		gone(t, pod)
	}
}

// lastBackoff is the longest wait between two tries: so late may an eviction be after an outage.
const lastBackoff = 30 * time.Second

// stopAPIServer plays an outage until the function that it returns is called, or the test ends.
func stopAPIServer(t *testing.T) (restart func()) {
	t.Helper()
	must(t, cluster.StopAPIServer(t.Context()))
	ctx := context.WithoutCancel(t.Context())
	restart = sync.OnceFunc(func() {
		if err := cluster.StartAPIServer(ctx); err != nil {
			t.Errorf("end the outage: %v", err)
		}
	})
	t.Cleanup(restart)
	return restart
}

func TestRetryAfterIsHonoured(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	calls := &refusing{times: 1, with: busyFor("2")}
	shared.faults.add(t, podDeletes(s.namespace), calls.answer)

	came := taint(t, node, noExecute("gone"))
	due := promised(t, pod, tainting{noExecute("gone"), came})
	due.latest = due.latest.Add(2 * time.Second)
	leaves(t, pod, due)
	at := calls.get()
	if len(at) != 2 || at[1].Sub(at[0]) < 2*time.Second {
		t.Errorf("deletes at %v, want two that are 2 s apart", at)
	}
}

func TestAnUntaintDuringRetryAfterEndsTheEviction(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	calls := &refusing{times: 1, with: busyFor("2")}
	shared.faults.add(t, podDeletes(s.namespace), calls.answer)

	taint(t, node, noExecute("gone"))
	eventually(t, "the delete is refused", func(context.Context) error {
		if len(calls.get()) == 0 {
			return errors.New("it was not tried")
		}
		return nil
	})
	untaint(t, node, "gone")
	until(t, calls.get()[0].Add(2*time.Second+quiet))
	if again := len(calls.get()); again != 1 {
		t.Errorf("%d deletes, want the one before the untaint", again)
	}
	remains(t, pod)
}

func TestFailedDeletesAreRetriedWithDoublingWaits(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	const failures = 5
	calls := &refusing{times: failures, with: failing}
	shared.faults.add(t, podDeletes(s.namespace), calls.answer)

	came := taint(t, node, noExecute("gone"))
	leaves(t, pod, promised(t, pod, tainting{noExecute("gone"), came}))
	at := calls.get()
	if len(at) != failures+1 {
		t.Fatalf("%d deletes, want %d", len(at), failures+1)
	}
	wait := 100 * time.Millisecond
	for i := range failures {
		if waited := at[i+1].Sub(at[i]); waited < wait {
			t.Errorf("%s between tries %d and %d, want at least %s", waited, i+1, i+2, wait)
		}
		wait *= 2
	}
	if marks := audit.All(t, auditlog.StatusPatches, auditlog.Of(pod.UID)); len(marks) != 1 {
		t.Errorf("the condition was set %d times, want once: %v", len(marks), marks)
	}
}

func TestAConditionThatCannotBeSetDoesNotBlockTheDelete(t *testing.T) {
	resident(t)
	for name, refusal := range map[string]refusal{
		"an internal error": failing,
		"no permission":     forbidding,
		"an overload":       busyFor("1"),
	} {
		t.Run(name, func(t *testing.T) {
			shared := resident(t)
			s := newScene(t)
			node := s.node(t, "tainted")
			pod := s.pod(t, "pod", node)
			calls := &refusing{times: 1000, with: refusal}
			shared.faults.add(t, podStatusPatches(s.namespace), calls.answer)

			came := taint(t, node, noExecute("gone"))
			leaves(t, pod, promised(t, pod, tainting{noExecute("gone"), came}))
			if tries := len(calls.get()); tries != 3 {
				t.Errorf("%d tries to set the condition, want 3", tries)
			}
			warning := waitWarning(t, pod)
			want := "Deleted Pod " + s.namespace + "/pod without the condition DisruptionTarget, which could not be set: "
			if warning.Reason != "DisruptionTargetNotSet" || !strings.HasPrefix(warning.Message, want) || warning.Count != 1 {
				t.Errorf("warning %s %q, %d times; want DisruptionTargetNotSet %q…", warning.Reason, warning.Message, warning.Count, want)
			}
		})
	}
}

func waitWarning(t *testing.T, pod *corev1.Pod) *corev1.Event {
	t.Helper()
	var found *corev1.Event
	eventually(t, "an event warns", func(context.Context) error {
		for _, event := range recorded.eventsOn(pod.UID) {
			if event.Type == corev1.EventTypeWarning {
				found = event
				return nil
			}
		}
		return fmt.Errorf("there are %v", recorded.eventsOn(pod.UID))
	})
	return found
}
