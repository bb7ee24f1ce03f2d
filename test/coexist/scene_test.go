// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	clockName  = auditlog.EvictionClockName
	annotation = auditlog.EvictionClockAnnotation
)

const (
	asServiceAccount = auditlog.BuiltInAsServiceAccount
	asItself         = auditlog.BuiltInAsItself
	taintkeeper      = localcluster.TaintkeeperUser
)

// withBothCredentials restarts kube-controller-manager with each kind of its credentials and runs a test with each.
func withBothCredentials(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for name, itself := range map[string]bool{asServiceAccount: false, asItself: true} {
		t.Run("the built-in is "+name, func(t *testing.T) {
			await.Must(t, cluster.RestartControllerManager(t.Context(), localcluster.ControllerManagerConfig{AsItself: itself}))
			test(t)
		})
	}
}

// scene is what one test has for itself.
type scene struct {
	rig.Scene

	node string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	node := fmt.Sprintf("n%d", time.Now().UnixNano())
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: node}))
	made, err := rig.New(t.Context(), admin, "test-"+node)
	await.Must(t, err)
	s := &scene{Scene: made, node: node}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		await.Must(t, client.IgnoreNotFound(admin.CoreV1().Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{})))
		await.Must(t, client.IgnoreNotFound(admin.CoreV1().Nodes().Delete(ctx, s.node, metav1.DeleteOptions{})))
		await.Must(t, client.IgnoreNotFound(s.setClock(ctx, nil)))
	})
	return s
}

// keeper starts Taintkeeper next to the built-in, and returns when it has renewed the clock.
func (s *scene) keeper(t *testing.T, name string, args ...string) *localcluster.Taintkeeper {
	t.Helper()
	keeper, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: name, Coexist: true, Args: args,
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, keeper.Kill()) })
	await.Eventually(t, "the eviction clock is renewed", func(ctx context.Context) error {
		return s.checkClock(ctx, func(age time.Duration) bool { return age < validFor/2 })
	})
	return keeper
}

func (s *scene) checkClock(ctx context.Context, right func(age time.Duration) bool) error {
	account, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, clockName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	renewed, err := time.Parse(time.RFC3339, account.Annotations[annotation])
	if err != nil {
		return err
	}
	if age := time.Since(renewed); !right(age) {
		return fmt.Errorf("it is %v old", age)
	}
	return nil
}

// setClock writes the eviction clock as if Taintkeeper had, or takes it away, and says that the built-in has no backlog.
func (s *scene) setClock(ctx context.Context, at *time.Time) error {
	value := "null"
	if at != nil {
		value = fmt.Sprintf("%q", at.UTC().Format(time.RFC3339))
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s,%q:null,%q:null,%q:null}}}`, annotation, value,
		coexist.BacklogSince, coexist.BacklogUntil, coexist.BacklogSpared)
	_, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Patch(ctx, clockName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// holdOff keeps the built-in from evicting, as if we were alive and did nothing.
func (s *scene) holdOff(t *testing.T) {
	t.Helper()
	now := time.Now()
	await.Must(t, cluster.InstallCoexistence(t.Context()))
	await.Must(t, s.setClock(t.Context(), &now))
	await.Must(t, cluster.WaitHeldOff(t.Context()))
}

// letGo writes another eviction clock, or takes it away, while the policy is in force, and returns when the API server
// has seen that: the built-in forgets a pod whose eviction is refused, even if only for a moment.
func (s *scene) letGo(t *testing.T, clock *time.Time) {
	t.Helper()
	s.holdOff(t)
	await.Must(t, s.setClock(t.Context(), clock))
	await.Must(t, cluster.WaitLetGo(t.Context()))
}

// pods creates pods on the node, each of which tolerates its taint for one of the given numbers of seconds.
func (s *scene) pods(t *testing.T, prefix string, tolerate ...int64) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i, seconds := range tolerate {
		pods = append(pods, s.pod(t, fmt.Sprintf("%s-%d", prefix, i), seconds))
	}
	return pods
}

func (s *scene) pod(t *testing.T, name string, seconds int64, conditions ...corev1.PodCondition) *corev1.Pod {
	t.Helper()
	pod, err := s.Pod(t.Context(), name, s.node, rig.Tolerating(s.key(), seconds))
	await.Must(t, err)
	if len(conditions) == 0 {
		return pod
	}
	await.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := admin.CoreV1().Pods(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Status.Conditions = append(live.Status.Conditions, conditions...)
		_, err = admin.CoreV1().Pods(s.Namespace).UpdateStatus(t.Context(), live, metav1.UpdateOptions{})
		return err
	}))
	return pod
}

// deploymentPods creates pods on the node. Their names are not used again, because a controller owns them. The API server
// would give one in about 850 a name that ends in five digits, which could be of a StatefulSet.
func (s *scene) deploymentPods(t *testing.T, prefix string, count int) []*corev1.Pod {
	t.Helper()
	owned := s.owned(t)
	var pods []*corev1.Pod
	for i := range count {
		name := fmt.Sprintf("%s-bcdf%d", prefix, 4+i)
		pod, err := s.Pod(t.Context(), name, s.node, owned, func(pod *corev1.Pod) { pod.GenerateName = prefix + "-" })
		await.Must(t, err)
		pods = append(pods, pod)
	}
	return pods
}

func (s *scene) patchStatus(t *testing.T, pod *corev1.Pod, patch string) error {
	t.Helper()
	_, err := admin.CoreV1().Pods(s.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func (s *scene) key() string { return "test/" + s.Namespace }

// taint sets a NoExecute taint of the test's own on the node.
func (s *scene) taint(t *testing.T) {
	t.Helper()
	_, err := rig.Taint(t.Context(), admin, s.node, rig.NoExecute(s.key()))
	await.Must(t, err)
}

// cordoned cordons the node, and waits until the built-in node-lifecycle-controller has tainted it for that.
func (s *scene) cordoned(t *testing.T) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), s.node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	await.Must(t, err)
	await.Eventually(t, "the built-in has tainted node "+s.node, func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnschedulable }) {
			return fmt.Errorf("its taints are %v", node.Spec.Taints)
		}
		return nil
	})
}

func (s *scene) changeTaints(t *testing.T, change func([]corev1.Taint) []corev1.Taint) {
	t.Helper()
	_, err := rig.ChangeTaints(t.Context(), admin, s.node, change)
	await.Must(t, err)
}

// call is a call as the API server saw it.
type call = auditlog.Event

func (s *scene) calls(t *testing.T, wanted ...func(call) bool) []call {
	t.Helper()
	return audit.All(t, append(wanted, auditlog.In(s.Namespace))...)
}

// Filters of calls.

func byBuiltIn(c call) bool { return c.ByBuiltIn() }
func byUs(c call) bool      { return c.User == taintkeeper }
func forbidden(c call) bool { return c.Code == 403 }

func of(pod *corev1.Pod) auditlog.Filter { return auditlog.Named(pod.Name) }

// leavesBy waits until a pod is deleted, and checks by whom.
func (s *scene) leavesBy(t *testing.T, pod *corev1.Pod, whom func(call) bool) call {
	t.Helper()
	var deleted []call
	await.Eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if deleted = s.calls(t, auditlog.Deletes, auditlog.Accepted, localcluster.NotByKwok, of(pod)); len(deleted) == 0 {
			return fmt.Errorf("the calls about it: %v", s.calls(t, of(pod)))
		}
		return nil
	})
	if !whom(deleted[0]) {
		t.Errorf("pod %s was deleted by %s", pod.Name, deleted[0].User)
	}
	return deleted[0]
}

// leaves waits until a pod is gone, or terminating. An API server that is killed may have carried out a call that is not
// in its audit log.
func (s *scene) leaves(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await.Eventually(t, "pod "+pod.Name+" leaves", func(ctx context.Context) error {
		live, err := admin.CoreV1().Pods(s.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && live.DeletionTimestamp == nil {
			return fmt.Errorf("the calls about it: %v", s.calls(t, of(pod)))
		}
		return nil
	})
}

// triedByBuiltIn waits until the built-in has tried to evict a pod, was refused and has given up.
func (s *scene) triedByBuiltIn(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	const tries = 5 // pkg/controller/tainteviction/taint_eviction.go
	await.Eventually(t, "the built-in has given up on pod "+pod.Name, func(context.Context) error {
		if refused := s.calls(t, byBuiltIn, auditlog.StatusPatches, forbidden, of(pod)); len(refused) < tries {
			return fmt.Errorf("it was refused %d times; its calls: %v", len(refused), s.calls(t, byBuiltIn, of(pod)))
		}
		return nil
	})
}

// untouchedByBuiltIn checks that the built-in has neither marked nor deleted any pod.
func (s *scene) untouchedByBuiltIn(t *testing.T) {
	t.Helper()
	for _, c := range s.calls(t, byBuiltIn, auditlog.Accepted) {
		if auditlog.StatusPatches(c) || auditlog.Deletes(c) {
			t.Errorf("%s: %v", c.User, c)
		}
	}
}

// noForeignMarkUnderAFreshClock checks that the built-in has marked no pod while the clock was fresh. An API server
// that takes long to start makes it stale, and then it may.
func (s *scene) noForeignMarkUnderAFreshClock(t *testing.T) {
	t.Helper()
	clock, err := auditlog.EvictionClockOf(audit.All(t))
	await.Must(t, err)
	for _, mark := range s.calls(t, byBuiltIn, auditlog.StatusPatches, auditlog.Accepted) {
		if clock.Fresh(mark.Received, mark.Answered) {
			t.Errorf("while the clock was fresh: %v", mark)
		}
	}
}

// onceEach checks that no pod was deleted twice.
func (s *scene) onceEach(t *testing.T) {
	t.Helper()
	seen := map[string]call{}
	for _, c := range s.calls(t, auditlog.Deletes, auditlog.Accepted, localcluster.NotByKwok) {
		if first, twice := seen[c.Name]; twice {
			t.Errorf("pod %s was deleted twice: %v, %v", c.Name, first, c)
		}
		seen[c.Name] = c
	}
}

// condition is a condition DisruptionTarget that is True.
func condition(reason, message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		// Long before the clock was renewed, and not yet so long that kube-controller-manager's disruption controller
		// takes the condition for stale, after two minutes.
		LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute)),
	}
}

func markOf(pod *corev1.Pod) corev1.PodCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if at < 0 {
		return corev1.PodCondition{}
	}
	return pod.Status.Conditions[at]
}

func ours(message string) bool { return strings.HasPrefix(message, "Taintkeeper:") }
