// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

func TestNextToTheBuiltInEveryEvictionIsOurs(t *testing.T) {
	withBothCredentials(t, func(t *testing.T) {
		s := newScene(t)
		s.keeper(t, "taintkeeper")
		pods := s.pods(t, "pod", 0, 0, 1, 2, 3)
		s.taint(t)
		for _, pod := range pods {
			s.leavesBy(t, pod, byUs)
		}
		s.untouchedByBuiltIn(t)
		s.onceEach(t)
	})
}

// The ways in which a pod can already be marked when the built-in reaches it.
var marked = []struct {
	name            string
	reason, message string
	// exact: the built-in finds its own mark and deletes without setting it.
	exact bool
}{
	{name: "not", reason: ""},
	{name: "by us", reason: "DeletionByTaintManager", message: "Taintkeeper: deleting due to NoExecute taint"},
	{name: "by the built-in", reason: "DeletionByTaintManager", message: "Taint manager: deleting due to NoExecute taint", exact: true},
	{name: "by preemption", reason: "PreemptionByScheduler", message: "default-scheduler: preempting to accommodate a higher priority pod"},
	{name: "by the Eviction API", reason: "EvictionByEvictionAPI", message: "Eviction API: evicting"},
}

func (s *scene) markedPods(t *testing.T) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i, m := range marked {
		var conditions []corev1.PodCondition
		if m.reason != "" {
			conditions = append(conditions, condition(m.reason, m.message))
		}
		pods = append(pods, s.pod(t, fmt.Sprintf("marked-%d", i), 0, conditions...))
	}
	return pods
}

func TestWhileTheClockIsFreshTheBuiltInDeletesNoPodHoweverItIsMarked(t *testing.T) {
	withBothCredentials(t, func(t *testing.T) {
		s := newScene(t)
		pods := s.markedPods(t)
		s.holdOff(t)
		s.taint(t)
		for i, m := range marked {
			if m.exact { // that is why we rewrite such a mark
				s.leavesBy(t, pods[i], byBuiltIn)
				continue
			}
			s.triedByBuiltIn(t, pods[i])
			if calls := s.calls(t, byBuiltIn, auditlog.Deletes, of(pods[i])); len(calls) > 0 {
				t.Errorf("marked %s: %v", m.name, calls)
			}
		}
	})
}

func TestOnceTheClockIsStaleTheBuiltInEvictsEveryPodHoweverItIsMarked(t *testing.T) {
	withBothCredentials(t, func(t *testing.T) {
		for name, at := range map[string]time.Time{
			"a minute ago": time.Now().Add(-time.Minute), "in the year 9999": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			t.Run("renewed "+name, func(t *testing.T) {
				s := newScene(t)
				s.letGo(t, &at)
				pods := s.markedPods(t)
				s.taint(t)
				for _, pod := range pods {
					s.leavesBy(t, pod, byBuiltIn)
				}
			})
		}
	})
}

func TestWithoutAClockTheBuiltInEvicts(t *testing.T) {
	s := newScene(t)
	s.letGo(t, nil)
	pod := s.pod(t, "pod", 0)
	s.taint(t)
	s.leavesBy(t, pod, byBuiltIn)
}

func TestAMarkOfTheBuiltInsIsRewrittenWhenWeTakeOver(t *testing.T) {
	s := newScene(t)
	pod := s.pod(t, "stays", 3600, condition("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"))
	s.keeper(t, "taintkeeper")
	await.Eventually(t, "the mark is ours", func(ctx context.Context) error {
		live, err := admin.CoreV1().Pods(s.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if mark := markOf(live); mark.Status != corev1.ConditionFalse || !ours(mark.Message) {
			return fmt.Errorf("it is %s %q", mark.Status, mark.Message)
		}
		return nil
	})
}

// The policy is in force from the first request that an API server takes after it has started.
func TestNoRestartOfTheAPIServerLetsTheBuiltInEvict(t *testing.T) {
	s := newScene(t)
	s.keeper(t, "taintkeeper")
	const restarts = 4
	var tolerate []int64
	for second := range int64(60) { // one is due at every moment of the restarts
		tolerate = append(tolerate, second)
	}
	pods := s.pods(t, "pod", tolerate...)
	s.taint(t)
	for i := range restarts {
		stop := cluster.StopAPIServer
		if i%2 == 1 {
			stop = cluster.KillAPIServer
		}
		stopped := time.Now()
		await.Must(t, stop(t.Context()))
		await.Must(t, cluster.StartAPIServer(t.Context()))
		await.Eventually(t, "the eviction clock is renewed again", func(ctx context.Context) error {
			return s.checkClock(ctx, func(age time.Duration) bool { return age < time.Since(stopped)-time.Second })
		})
	}
	for _, pod := range pods {
		s.leaves(t, pod)
	}
	s.noForeignMarkUnderAFreshClock(t)
}

func election(more ...string) []string {
	return append([]string{"--leader-elect=true"}, more...)
}

func TestWhenTheLeaderIsKilledItsStandbyContinuesAndWhenBothAreTheBuiltInDoes(t *testing.T) {
	s := newScene(t)
	leader := s.keeper(t, "leader", election()...)
	standby, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: "standby", Coexist: true, Args: election(),
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, standby.Kill()) })

	// One is due every second while the standby takes over.
	var tolerate []int64
	for second := range int64(30) {
		tolerate = append(tolerate, second)
	}
	first := s.pods(t, "first", tolerate...)
	s.taint(t)
	s.leavesBy(t, first[2], byUs)
	await.Must(t, leader.Kill())
	for _, pod := range first {
		s.leavesBy(t, pod, byUs)
	}
	s.untouchedByBuiltIn(t)

	await.Must(t, standby.Kill())
	s.changeTaints(t, func([]corev1.Taint) []corev1.Taint { return nil })
	await.Until(t, time.Now().Add(validFor+5*time.Second))
	second := s.deploymentPods(t, "second", 2)
	s.taint(t)
	for _, pod := range second {
		s.leavesBy(t, pod, byBuiltIn)
	}

	s.changeTaints(t, func([]corev1.Taint) []corev1.Taint { return nil })
	s.keeper(t, "again", election()...)
	third := s.pods(t, "third", 0, 3)
	tainted := time.Now()
	s.taint(t)
	for i, pod := range third {
		deleted := s.leavesBy(t, pod, byUs)
		if due := tainted.Add(time.Duration(i) * 3 * time.Second); deleted.Received.Before(due) {
			t.Errorf("pod %s was deleted %v early", pod.Name, due.Sub(deleted.Received))
		}
	}
	s.onceEach(t)
}

func TestACleanShutdownHandsOverduePodsBackAtOnce(t *testing.T) {
	s := newScene(t)
	pod := s.pod(t, "kept", 0)
	allow, err := s.RefuseDeletes(t.Context(), pod)
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, allow()) })
	keeper := s.keeper(t, "taintkeeper")
	// A pod that is younger than the storm, to the second, would be held: it could have the name of an older pod.
	await.Until(t, pod.CreationTimestamp.Add(5*time.Second))
	s.taint(t)
	await.Eventually(t, "our delete is refused", func(context.Context) error {
		if len(s.calls(t, byUs, auditlog.Deletes, of(pod))) == 0 {
			return fmt.Errorf("the calls about it: %v", s.calls(t, of(pod)))
		}
		return nil
	})
	s.untouchedByBuiltIn(t)
	s.triedByBuiltIn(t, pod)
	await.Must(t, keeper.Stop())
	await.Eventually(t, "the built-in tries again", func(context.Context) error {
		if len(s.calls(t, byBuiltIn, auditlog.StatusPatches, auditlog.Accepted, of(pod))) == 0 {
			return fmt.Errorf("the calls about it: %v", s.calls(t, byBuiltIn, of(pod)))
		}
		return nil
	})
	if err := s.checkClock(t.Context(), func(time.Duration) bool { return true }); err == nil {
		t.Error("the clock is still there")
	}
}

func TestNodeHealthIsLeftOutNextToTheBuiltInAndEvictionsContinue(t *testing.T) {
	s := newScene(t)
	s.cordoned(t)
	keeper := s.keeper(t, "taintkeeper", "--controllers=*")
	log, err := os.ReadFile(keeper.LogPath())
	await.Must(t, err)
	if !strings.Contains(string(log), "Node-health is off") {
		t.Errorf("it does not say that node-health is left out:\n%s", log)
	}
	pod := s.pod(t, "pod", 0)
	s.taint(t)
	s.leavesBy(t, pod, byUs)
}

// The built-in always writes it; other clients that send such a mark must not find a way past the policy.
func TestAMarkWithoutATimeOfItsOwnIsRefusedToo(t *testing.T) {
	s := newScene(t)
	s.keeper(t, "taintkeeper")
	pod := s.pod(t, "pod", 3600)
	const mark = `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`
	if err := s.patchStatus(t, pod, mark); !apierrors.IsForbidden(err) {
		t.Errorf("it is answered with %v, want it forbidden", err)
	}
}

// The built-in's patch has only what differs from the pod as it was read. The pod can have changed since.
func TestAMarkWhoseRestWasResetMeanwhileIsRefusedToo(t *testing.T) {
	s := newScene(t)
	s.holdOff(t)
	for name, taken := range map[string]struct{ reason, message string }{
		"by-us":                        {"DeletionByTaintManager", "Taintkeeper: marked by kube-controller-manager, but does not have to leave now"},
		"by-the-disruption-controller": {"", ""},
	} {
		back := condition(taken.reason, taken.message)
		back.Status = corev1.ConditionFalse
		pod := s.pod(t, name, 3600, back)
		const message = `{"status":{"conditions":[{"type":"DisruptionTarget","message":"Taint manager: deleting due to NoExecute taint"}]}}`
		if err := s.patchStatus(t, pod, message); !apierrors.IsForbidden(err) {
			t.Errorf("taken back %s: its message alone is answered with %v, want it forbidden", name, err)
		}
	}
}

// The clock of a replica that marked a pod can be wrong, and so can the time of its mark.
func TestAMarkOfAPodThatWasMarkedByAClockThatIsAheadIsRefusedToo(t *testing.T) {
	s := newScene(t)
	ours := condition("DeletionByTaintManager", "Taintkeeper: deleting due to NoExecute taint")
	ours.LastTransitionTime = metav1.NewTime(time.Now().Add(5 * time.Minute))
	pod := s.pod(t, "pod", 3600, ours)
	s.holdOff(t)
	const mark = `{"status":{"conditions":[{"type":"DisruptionTarget","message":"Taint manager: deleting due to NoExecute taint"}]}}`
	if err := s.patchStatus(t, pod, mark); !apierrors.IsForbidden(err) {
		t.Errorf("it is answered with %v, want it forbidden", err)
	}
}

// Kubelets must be able to write the status of every pod.
func TestWhoeverWritesTheStatusOfAPodThatWasMarkedBeforeIsNotRefused(t *testing.T) {
	s := newScene(t)
	var pods []*corev1.Pod
	for name, status := range map[string]corev1.ConditionStatus{"marked": corev1.ConditionTrue, "kept": corev1.ConditionFalse} {
		foreign := condition("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
		foreign.Status = status
		pods = append(pods, s.pod(t, name, 3600, foreign))
	}
	s.holdOff(t)
	for _, pod := range pods {
		if err := s.patchStatus(t, pod, `{"status":{"message":"said by a kubelet"}}`); err != nil {
			t.Errorf("%s: %v", pod.Name, err)
		}
		if err := s.patchStatus(t, pod, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"False"}]}}`); err != nil {
			t.Errorf("%s, and then not any more: %v", pod.Name, err)
		}
		if err := s.patchStatus(t, pod, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`); !apierrors.IsForbidden(err) {
			t.Errorf("%s, and then again: answered with %v, want it forbidden", pod.Name, err)
		}
	}
}
