// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// How long the pods that tolerate the taint do so.
const (
	shortWhile = 5 * time.Second
	longWhile  = 15 * time.Second
)

// TestEvictionsFollowTheRestoredState takes a snapshot of etcd, lets Taintkeeper evict, and restores the snapshot. From
// then on evictions follow what the snapshot says, not what Taintkeeper remembers. The control plane is the test's own:
// other tests could not go on with what they remember of it.
func TestEvictionsFollowTheRestoredState(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	plane := newRestorable(t)
	for _, test := range []struct {
		name       string
		flags      []string // of etcdutl snapshot restore
		standStill bool     // Taintkeeper is paused until the API server is back
	}{
		{"the revisions go back", nil, false},
		// It opens its watches again once the API server is ready. A moment earlier the API server can refuse them, and
		// then client-go lists anyway.
		{"the revisions go back while Taintkeeper stands still", nil, true},
		{"the revisions are bumped", []string{"--bump-revision=1000000000", "--mark-compacted"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := plane.newScene(t)
			tainted, later, untainted := s.node("tainted"), s.node("tainted-later"), s.node("untainted")
			removed, terminating := s.pod("removed", tainted), s.pod("terminating", tainted)
			counting := s.pod("counting", tainted, scene.Tolerating("gone", int64(longWhile.Seconds())))
			spared := s.pod("spared", later)
			patient := s.pod("patient", later, scene.Tolerating("gone", int64(shortWhile.Seconds())))
			bystander := s.pod("bystander", untainted)
			held, budgeted := s.pod("held", tainted, labeled("held")), s.pod("budgeted", tainted, labeled("budgeted"))
			s.runs(budgeted)
			s.policy("budgeted", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Unready: v1alpha1.UnreadyAsk}) // nodes are not ready here

			// The snapshot has this taint with its timeAdded, no pod that has left, and nothing that keeps these two pods.
			came := s.taint(tainted, &metav1.Time{Time: time.Now().Truncate(time.Second)})
			snapshot := filepath.Join(t.TempDir(), "snapshot.db")
			await.Must(t, plane.BackUpEtcd(t.Context(), snapshot))
			s.policy("held", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
			budget := s.budget("budgeted")

			keeper := s.keep()
			s.leaves(removed, s.made, came.From)
			s.leaves(terminating, s.made, came.From)
			await.Must(t, s.Remove(t.Context(), removed.Name)) // as its kubelet does once its containers have ended
			cameLater := s.taint(later, nil)
			s.leaves(spared, s.made, cameLater.From)
			s.writeMuch(budget)
			s.untouched(held)
			s.untouched(budgeted)

			if test.standStill {
				await.Must(t, plane.Freeze(keeper.Component()))
			}
			restored := s.restore(snapshot, test.flags...)
			if test.standStill {
				await.Must(t, plane.Thaw(keeper.Component()))
			}

			// The snapshot has both pods, without a deletionTimestamp, and nothing that keeps the other two.
			for _, pod := range []*corev1.Pod{removed, terminating, held, budgeted} {
				s.leaves(pod, restored, came.From)
			}
			// The taint has been there all the time.
			s.leaves(counting, restored, came.From.Add(longWhile))
			s.notBefore(counting, s.made, came.From.Add(longWhile))
			// Taintkeeper sees what is new.
			s.leaves(s.pod("fresh", tainted), restored, restored)
			// The snapshot does not have this taint. What Taintkeeper saw of it does not count.
			s.stays(spared, restored)
			s.stays(patient, restored)
			again := s.taint(later, nil)
			s.leaves(spared, restored, again.From)
			s.leaves(patient, restored, again.From.Add(shortWhile))
			s.notBefore(patient, s.made, cameLater.From.Add(shortWhile))

			s.untouched(bystander)
			s.checkCalls(restored)
		})
	}
}

// restorable is a control plane of an etcd and an API server: a pod that is deleted keeps terminating until the test
// removes it. The audit log is not part of etcd's data, so it knows the calls of before and after a restore.
type restorable struct {
	*localcluster.Cluster

	admin  kubernetes.Interface
	custom client.Client
	audit  *auditlog.Log // of the calls of Taintkeeper
}

func newRestorable(t *testing.T) *restorable {
	t.Helper()
	own, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Config{
		Without: []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		Audit:   auditlog.Changes,
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, own.Stop()) })
	own.Stalls() // from now on
	admin, err := kubernetes.NewForConfig(own.AdminConfig())
	await.Must(t, err)
	custom, err := own.Client()
	await.Must(t, err)
	await.Must(t, own.GrantTaintkeeper(t.Context())) // before the first snapshot, so that every restored state has its rights
	await.Must(t, own.InstallResources(t.Context()))
	return &restorable{own, admin, custom, auditlog.New(own.AuditLog(), auditlog.By(localcluster.TaintkeeperUser))}
}

// restoredScene is a namespace and some nodes that one test has for itself.
type restoredScene struct {
	scene.Scene
	*restorable

	t    *testing.T
	made time.Time
}

func (r *restorable) newScene(t *testing.T) *restoredScene {
	t.Helper()
	made, err := scene.New(t.Context(), r.admin, fmt.Sprintf("scene-%d", time.Now().Unix()))
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, made.Clear(context.WithoutCancel(t.Context()))) })
	return &restoredScene{made, r, t, time.Now()}
}

func (s *restoredScene) node(name string) string {
	s.t.Helper()
	name, err := s.Node(s.t.Context(), name)
	await.Must(s.t, err)
	return name
}

func (s *restoredScene) pod(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	pod, err := s.Pod(s.t.Context(), name, node, edits...)
	await.Must(s.t, err)
	return pod
}

// runs reports that a pod runs and is ready, as its kubelet does.
func (s *restoredScene) runs(pod *corev1.Pod) {
	s.t.Helper()
	ready := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	_, err := s.admin.CoreV1().Pods(s.Namespace).
		Patch(s.t.Context(), pod.Name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	await.Must(s.t, err)
}

// taint taints a node; with a timeAdded as the node-lifecycle controller does, without one as kubectl does.
func (s *restoredScene) taint(node string, timeAdded *metav1.Time) scene.Span {
	s.t.Helper()
	taint := scene.NoExecute("gone")
	taint.TimeAdded = timeAdded
	took, err := scene.Taint(s.t.Context(), s.admin, node, taint)
	await.Must(s.t, err)
	return took
}

// policy creates a policy for the pods of an app.
func (s *restoredScene) policy(app string, spec v1alpha1.EvictionPolicySpec) {
	s.t.Helper()
	spec.PodSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(app)}}
	spec.NamespaceSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
		corev1.LabelMetadataName: v1alpha1.LabelValue(s.Namespace),
	}}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + app}, Spec: spec}
	await.Must(s.t, s.custom.Create(s.t.Context(), policy))
}

// budget creates a budget for the pods of an app. Nothing keeps its status, so it allows nothing.
func (s *restoredScene) budget(app string) *policyv1.PodDisruptionBudget {
	s.t.Helper()
	budget, err := s.admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
	return budget
}

// keep starts Taintkeeper with an election whose leader outlasts the outage of a restore.
func (s *restoredScene) keep() *localcluster.Taintkeeper {
	s.t.Helper()
	started, err := s.StartTaintkeeper(s.t.Context(), localcluster.TaintkeeperConfig{Binary: keeper, Args: []string{
		"--leader-elect=true", "--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m",
	}})
	await.Must(s.t, err)
	s.t.Cleanup(func() {
		if err := started.Stop(); err != nil { // which also gives the Lease back
			s.t.Errorf("Taintkeeper did not run all the time: %v", err)
		}
		if s.t.Failed() {
			said, err := os.ReadFile(started.LogPath())
			s.t.Logf("Taintkeeper wrote:\n%s%v", said, err)
		}
	})
	return started
}

// writeMuch makes the cluster's versions so much higher than the snapshot's that a restored cluster does not reach them
// during the test. The watch of budgets brings them.
func (s *restoredScene) writeMuch(budget *policyv1.PodDisruptionBudget) {
	s.t.Helper()
	const writes = 500
	budgets := s.admin.PolicyV1().PodDisruptionBudgets(s.Namespace)
	for i := range writes {
		budget.Labels = map[string]string{"written": fmt.Sprint(i)}
		var err error
		budget, err = budgets.Update(s.t.Context(), budget, metav1.UpdateOptions{})
		await.Must(s.t, err)
	}
}

// restore restores etcd from a snapshot, as Kubernetes' documentation says: with the API server stopped. It returns an
// instant between the calls to the old state and those to the restored one.
func (s *restoredScene) restore(snapshot string, flags ...string) time.Time {
	s.t.Helper()
	ctx := s.t.Context()
	await.Must(s.t, s.StopAPIServer(ctx))
	between := time.Now()
	await.Must(s.t, s.StopEtcd(ctx))
	await.Must(s.t, s.RestoreEtcd(ctx, snapshot, flags...))
	await.Must(s.t, s.StartEtcd(ctx))
	await.Must(s.t, s.StartAPIServer(ctx))
	return between
}

// leaves waits until Taintkeeper has made a pod leave after an instant, and checks that it was not before the pod was
// due.
func (s *restoredScene) leaves(pod *corev1.Pod, after, due time.Time) {
	s.t.Helper()
	const reopens = time.Minute // until client-go opens a watch again after an outage
	latest := time.Now()
	if due.After(latest) {
		latest = due
	}
	var done []auditlog.Event
	await.Eventually(s.t, "pod "+pod.Name+" leaves", func(context.Context) error {
		if done = s.audit.All(s.t, auditlog.Accepted, leaves, auditlog.Of(pod.UID), auditlog.Since(after)); len(done) == 0 {
			return fmt.Errorf("there are the calls %v", s.audit.All(s.t, changesOf(pod)))
		}
		return nil
	})
	if late := done[0].Received.Sub(latest); late > reopens+s.Stalls().Allowed(latest, done[0].Received) {
		s.t.Errorf("pod %s left %s late", pod.Name, late)
	}
	s.notBefore(pod, after, due)
}

// notBefore checks that Taintkeeper did not touch a pod between an instant and when the pod was due.
func (s *restoredScene) notBefore(pod *corev1.Pod, after, due time.Time) {
	s.t.Helper()
	due = due.Truncate(time.Microsecond) // as the audit log writes it
	for _, c := range s.audit.All(s.t, changesOf(pod), auditlog.Since(after)) {
		if c.Received.Before(due) {
			s.t.Errorf("pod %s: %s too early: %v", pod.Name, due.Sub(c.Received), c)
		}
	}
}

// stays checks that Taintkeeper has not touched a pod since an instant, and that the pod does not terminate.
func (s *restoredScene) stays(pod *corev1.Pod, since time.Time) {
	s.t.Helper()
	s.notBefore(pod, since, time.Now())
	found, err := s.admin.CoreV1().Pods(pod.Namespace).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(s.t, err)
	if found.UID != pod.UID || found.DeletionTimestamp != nil {
		s.t.Errorf("pod %s has UID %s and the deletionTimestamp %v, want UID %s and none", pod.Name, found.UID, found.DeletionTimestamp, pod.UID)
	}
}

// untouched checks that Taintkeeper never touched a pod.
func (s *restoredScene) untouched(pod *corev1.Pod) { s.t.Helper(); s.stays(pod, s.made) }

// checkCalls checks that no pod was deleted twice in the old state, and none twice in the restored one.
func (s *restoredScene) checkCalls(restored time.Time) {
	s.t.Helper()
	all := s.audit.All(s.t, auditlog.In(s.Namespace))
	before := func(c auditlog.Event) bool { return c.Received.Before(restored) }
	auditlog.CheckSteps(s.t, auditlog.Choose(all, before))
	auditlog.CheckSteps(s.t, auditlog.Choose(all, auditlog.Since(restored)))
}

// changesOf chooses the changes of a pod, except that which keeps a pod alive that a policy holds.
func changesOf(pod *corev1.Pod) auditlog.Filter {
	return func(c auditlog.Event) bool {
		return c.UID == pod.UID && (auditlog.Deletes(c) || slices.Contains([]string{"pods/status", "pods/eviction"}, c.Resource))
	}
}
