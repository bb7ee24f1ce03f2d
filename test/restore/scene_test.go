// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// reopens is how long client-go may wait before it opens a watch again after an outage.
const reopens = time.Minute

// writes is the number of versions by which the snapshots are behind.
const writes = 500

// scene is a namespace and some nodes that one test has for itself.
type scene struct {
	rig.Scene

	made   time.Time
	keeper *localcluster.Taintkeeper
	holds  bool // a policy may hold its pods
}

var scenes atomic.Int32

// newScene makes a namespace. What the test puts there is removed after the test.
func newScene(t *testing.T) *scene {
	t.Helper()
	made, err := rig.New(t.Context(), admin, fmt.Sprintf("scene-%d", scenes.Add(1)))
	await.Must(t, err)
	s := &scene{Scene: made, made: time.Now()}
	t.Cleanup(func() { await.Must(t, s.Clear(context.WithoutCancel(t.Context()))) })
	return s
}

func (s *scene) node(t *testing.T, name string) string {
	t.Helper()
	name, err := s.Node(t.Context(), name)
	await.Must(t, err)
	return name
}

func (s *scene) pod(t *testing.T, name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := s.Pod(t.Context(), name, node, edits...)
	await.Must(t, err)
	return pod
}

// taint taints a node; with a timeAdded as the node-lifecycle controller does, without one as kubectl does.
func (s *scene) taint(t *testing.T, node string, timeAdded *metav1.Time) rig.Span {
	t.Helper()
	taint := rig.NoExecute(key)
	taint.TimeAdded = timeAdded
	took, err := rig.Taint(t.Context(), admin, node, taint)
	await.Must(t, err)
	return took
}

// remove removes a pod for good, as its kubelet does once its containers have ended.
func (s *scene) remove(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await.Must(t, s.Remove(t.Context(), pod.Name))
}

// keep starts Taintkeeper with an election whose leader outlasts the outage of a restore.
func (s *scene) keep(t *testing.T) {
	t.Helper()
	keeper, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{Binary: binary, Args: []string{
		"--leader-elect=true", "--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m",
	}})
	await.Must(t, err)
	s.keeper = keeper
	t.Cleanup(func() {
		if err := keeper.Stop(); err != nil { // which also gives the Lease back
			t.Errorf("Taintkeeper did not run all the time: %v", err)
		}
		if t.Failed() {
			said, err := os.ReadFile(keeper.LogPath())
			t.Logf("Taintkeeper wrote:\n%s%v", said, err)
		}
	})
}

// backUp takes a snapshot of etcd and returns its file.
func (s *scene) backUp(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	await.Must(t, cluster.BackUpEtcd(t.Context(), path))
	return path
}

// writeMuch makes the cluster's versions so much higher than the snapshot's that a restored cluster does not reach
// them during the test.
func (s *scene) writeMuch(t *testing.T) {
	t.Helper()
	maps := admin.CoreV1().ConfigMaps(s.Namespace)
	written, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{})
	await.Must(t, err)
	for i := range writes {
		written.Data = map[string]string{"writes": fmt.Sprint(i)}
		written, err = maps.Update(t.Context(), written, metav1.UpdateOptions{})
		await.Must(t, err)
	}
}

// restore restores etcd from a snapshot, as Kubernetes' documentation says: with the API server stopped. It returns an
// instant between the calls to the old state and those to the restored one.
func (s *scene) restore(t *testing.T, snapshot string, flags ...string) time.Time {
	t.Helper()
	ctx := t.Context()
	await.Must(t, cluster.StopAPIServer(ctx))
	between := time.Now()
	await.Must(t, cluster.StopEtcd(ctx))
	await.Must(t, cluster.RestoreEtcd(ctx, snapshot, flags...))
	await.Must(t, cluster.StartEtcd(ctx))
	await.Must(t, cluster.StartAPIServer(ctx))
	return between
}

// outage is what Taintkeeper does while etcd is restored.
type outage func(s *scene, t *testing.T, restore func())

// throughout lets Taintkeeper run throughout.
func (s *scene) throughout(_ *testing.T, restore func()) { restore() }

// standingStill keeps Taintkeeper paused until the API server is back.
func (s *scene) standingStill(t *testing.T, restore func()) {
	t.Helper()
	await.Must(t, cluster.Freeze(s.keeper.Component()))
	restore()
	await.Must(t, cluster.Thaw(s.keeper.Component()))
}

// leaves waits until Taintkeeper has deleted a pod after an instant, and checks that it was not before the pod was due.
func (s *scene) leaves(t *testing.T, pod *corev1.Pod, after, due time.Time) {
	t.Helper()
	var done []auditlog.Event
	latest := time.Now()
	if due.After(latest) {
		latest = due
	}
	await.Eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if done = audit.All(t, auditlog.Accepted, deletesOf(pod), auditlog.Since(after)); len(done) == 0 {
			return fmt.Errorf("there are the calls %v", audit.All(t, s.changesOf(pod)))
		}
		return nil
	})
	if late := done[0].Received.Sub(latest); late > reopens+cluster.Stalls().Allowed(latest, done[0].Received) {
		t.Errorf("pod %s was deleted %s late", pod.Name, late)
	}
	s.notBefore(t, pod, after, due)
}

// notBefore checks that Taintkeeper did not touch a pod between an instant and when the pod was due.
func (s *scene) notBefore(t *testing.T, pod *corev1.Pod, after, due time.Time) {
	t.Helper()
	due = due.Truncate(time.Microsecond) // as the audit log writes it
	for _, c := range audit.All(t, s.changesOf(pod), auditlog.Since(after)) {
		if c.Received.Before(due) {
			t.Errorf("pod %s: %s too early: %v", pod.Name, due.Sub(c.Received), c)
		}
	}
}

// stays checks that Taintkeeper has not touched a pod since an instant, and that the pod does not terminate.
func (s *scene) stays(t *testing.T, pod *corev1.Pod, since time.Time) {
	t.Helper()
	s.notBefore(t, pod, since, time.Now())
	found, err := admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(t, err)
	if found.UID != pod.UID || found.DeletionTimestamp != nil {
		t.Errorf("pod %s has UID %s and the deletionTimestamp %v, want UID %s and none", pod.Name, found.UID, found.DeletionTimestamp, pod.UID)
	}
}

// untouched checks that Taintkeeper never touched a pod.
func (s *scene) untouched(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.stays(t, pod, s.made)
}

// checkDeletes checks that no pod was deleted twice in the old state, and none twice in the restored one.
func (s *scene) checkDeletes(t *testing.T, restored time.Time) {
	t.Helper()
	before, after := map[types.UID]int{}, map[types.UID]int{}
	for _, c := range audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.Namespace)) {
		counts := before
		if !c.Received.Before(restored) {
			counts = after
		}
		if counts[c.UID]++; counts[c.UID] > 1 {
			t.Errorf("needless: %v", c)
		}
	}
}

func deletesOf(pod *corev1.Pod) auditlog.Filter {
	return func(c auditlog.Event) bool { return auditlog.Deletes(c) && c.UID == pod.UID }
}

// changesOf chooses the changes of a pod, except that which keeps a pod alive that a policy holds.
func (s *scene) changesOf(pod *corev1.Pod) auditlog.Filter {
	return func(c auditlog.Event) bool {
		keepsAlive := s.holds && c.Verb == "patch" && c.Resource == "pods"
		return c.UID == pod.UID && !keepsAlive && slices.Contains([]string{"pods", "pods/status"}, c.Resource)
	}
}
