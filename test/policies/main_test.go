// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies proves EvictionPolicies on a real control plane, with the binary that users run, the rights of
// config/rbac.yaml, and kube-controller-manager, which keeps the PodDisruptionBudgets.
//
// All tests share one cluster and one taintkeeper. Each test has a namespace and nodes for itself, and policies that
// select these alone, so they run side by side, after the one that kills the leader.
package policies

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	custom  client.Client
	audit   *auditlog.Log // of the calls of taintkeeper
	binary  string
	leader  *localcluster.Taintkeeper
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

func start(ctx context.Context, shared *suite.Suite) error {
	if err := suite.WaitTogether(16); err != nil {
		return err
	}
	var err error
	if binary, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
		return err
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{Audit: auditlog.Changes})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(localcluster.TaintkeeperUser))
	if custom, err = cluster.Client(); err != nil {
		return err
	}
	if err := cluster.InstallResources(ctx); err != nil {
		return err
	}
	leader, err = startReplica(ctx, "one")
	return err
}

func startReplica(ctx context.Context, name string) (*localcluster.Taintkeeper, error) {
	return cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{
		Binary: binary, Name: name, Args: []string{"--controllers=eviction", "--leader-elect"},
	})
}

// scene is what one test has for itself.
type scene struct {
	rig.Scene

	t *testing.T
}

var scenes atomic.Int32

// newScene makes the test parallel, and a scene for it.
func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return sceneFor(t)
}

func sceneFor(t *testing.T) *scene {
	t.Helper()
	made, err := rig.New(t.Context(), admin, fmt.Sprintf("scene-%d", scenes.Add(1)))
	await.Must(t, err)
	s := &scene{made, t}
	t.Cleanup(func() {
		if err := s.Clear(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// node makes a node on which pods run and end, as kwok plays it.
func (s *scene) node(name string) string { s.t.Helper(); return s.nodeIn("", name) }

// nodeIn makes one in a zone.
func (s *scene) nodeIn(zone, name string) string {
	s.t.Helper()
	spec := localcluster.NodeSpec{Name: s.NodeName(name), Zone: zone, Labels: s.Labels()}
	await.Must(s.t, cluster.AddNodes(s.t.Context(), spec))
	return spec.Name
}

// policy creates a policy for the pods of the scene's namespace.
func (s *scene) policy(spec v1alpha1.EvictionPolicySpec) string {
	s.t.Helper()
	if spec.NamespaceSelector == nil {
		spec.NamespaceSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
			corev1.LabelMetadataName: v1alpha1.LabelValue(s.Namespace),
		}}
	}
	object := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Namespace + "-"}, Spec: spec}
	await.Must(s.t, custom.Create(s.t.Context(), object))
	s.t.Cleanup(func() {
		_ = client.IgnoreNotFound(custom.Delete(context.WithoutCancel(s.t.Context()), object))
	})
	s.awaitStatus(object.Name, "is followed", func(status *v1alpha1.EvictionPolicyStatus) bool {
		return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted) != nil
	})
	return object.Name
}

// edit changes a policy.
func (s *scene) edit(policy string, change func(*v1alpha1.EvictionPolicySpec)) {
	s.t.Helper()
	await.Must(s.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var object v1alpha1.EvictionPolicy
		if err := custom.Get(s.t.Context(), client.ObjectKey{Name: policy}, &object); err != nil {
			return err
		}
		change(&object.Spec)
		return custom.Update(s.t.Context(), &object)
	}))
}

func (s *scene) remove(policy string) {
	s.t.Helper()
	await.Must(s.t, custom.Delete(s.t.Context(), &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}}))
}

func (s *scene) awaitStatus(policy, what string, is func(*v1alpha1.EvictionPolicyStatus) bool) {
	s.t.Helper()
	await.Eventually(s.t, "policy "+policy+" "+what, func(ctx context.Context) error {
		var object v1alpha1.EvictionPolicy
		if err := custom.Get(ctx, client.ObjectKey{Name: policy}, &object); err != nil {
			return err
		}
		if !is(&object.Status) {
			return fmt.Errorf("its status is %+v", object.Status)
		}
		return nil
	})
}

// awaitHeld waits until the status says that a policy holds the given number of pods.
func (s *scene) awaitHeld(policy string, pods int32) {
	s.t.Helper()
	what := fmt.Sprintf("holds %d pods", pods)
	s.awaitStatus(policy, what, func(status *v1alpha1.EvictionPolicyStatus) bool { return status.Held == pods })
}

// awaitTripped waits until the status says that the breaker of a policy is open, or closed.
func (s *scene) awaitTripped(policy string, tripped metav1.ConditionStatus) (is metav1.Condition) {
	s.t.Helper()
	s.awaitStatus(policy, "has tripped: "+string(tripped), func(status *v1alpha1.EvictionPolicyStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionTripped)
		if c != nil {
			is = *c
		}
		return is.Status == tripped
	})
	return is
}

// pod makes a pod that runs on a node.
func (s *scene) pod(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	pod, err := s.Pod(s.t.Context(), name, node, edits...)
	await.Must(s.t, err)
	await.Eventually(s.t, "pod "+name+" is ready", func(ctx context.Context) error {
		is, err := admin.CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !rig.IsReady(is) {
			err = fmt.Errorf("its status is %+v", is.Status)
		}
		return err
	})
	return pod
}

// theTaint is the key of the taint that the tests set.
const theTaint = "gone"

// taint sets the taint, or those with other keys, and returns when.
func (s *scene) taint(node string, keys ...string) time.Time {
	s.t.Helper()
	if len(keys) == 0 {
		keys = []string{theTaint}
	}
	var taints []corev1.Taint
	for _, key := range keys {
		taints = append(taints, rig.NoExecute(key))
	}
	span, err := rig.Taint(s.t.Context(), admin, node, taints...)
	await.Must(s.t, err)
	return span.From
}

func (s *scene) untaint(node string) {
	s.t.Helper()
	_, err := rig.Untaint(s.t.Context(), admin, node, theTaint)
	await.Must(s.t, err)
}

// leaves waits until a pod begins to leave, and returns when the API server accepted that.
func (s *scene) leaves(pod *corev1.Pod) time.Time {
	s.t.Helper()
	var at time.Time
	await.Eventually(s.t, "pod "+pod.Name+" leaves", func(context.Context) error {
		for _, c := range s.calls(pod) {
			if c.Accepted() {
				at = c.Received
				return nil
			}
		}
		return fmt.Errorf("taintkeeper called %v", s.calls(pod))
	})
	return at
}

// calls are the deletes of a pod, and the evictions that were asked for.
func (s *scene) calls(pod *corev1.Pod) []auditlog.Event {
	s.t.Helper()
	return append(audit.All(s.t, auditlog.Deletes, auditlog.In(s.Namespace), auditlog.Named(pod.Name)),
		audit.All(s.t, asks, auditlog.In(s.Namespace), auditlog.Named(pod.Name))...)
}

// left are the deletes of pods of the scene that were accepted, in the order in which they were received.
func (s *scene) left() []auditlog.Event {
	s.t.Helper()
	all := audit.All(s.t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.Namespace))
	slices.SortFunc(all, func(a, b auditlog.Event) int { return a.Received.Compare(b.Received) })
	return all
}

// asks selects the calls of the Eviction API.
func asks(e auditlog.Event) bool { return e.Verb == "create" && e.Resource == "pods/eviction" }

// wantBetween wants something to happen between two instants, or a little later.
func (s *scene) wantBetween(what string, at, earliest, latest time.Time) {
	s.t.Helper()
	if late := at.Sub(latest); at.Before(earliest) || late > cluster.Stalls().Allowed(latest, at) {
		s.t.Errorf("%s at %s, want between %s and %s", what, at, earliest, latest)
	}
}

// stays checks that a pod is there and was never marked.
func (s *scene) stays(pod *corev1.Pod) {
	s.t.Helper()
	is, err := admin.CoreV1().Pods(s.Namespace).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(s.t, err)
	if is.UID != pod.UID || is.DeletionTimestamp != nil {
		s.t.Errorf("pod %s has left", pod.Name)
	}
	if marks := audit.All(s.t, auditlog.StatusPatches, auditlog.In(s.Namespace), auditlog.Named(pod.Name)); len(marks) > 0 {
		s.t.Errorf("pod %s was marked: %v", pod.Name, marks)
	}
}

// budget creates a PodDisruptionBudget for the pods of an app, and waits until it is in force.
func (s *scene) budget(name, app string, maxUnavailable int) *policyv1.PodDisruptionBudget {
	s.t.Helper()
	s.createBudget(name, app, maxUnavailable)
	return s.awaitBudget(name, "is in force", func(is *policyv1.PodDisruptionBudget) bool { return is.Status.ExpectedPods > 0 })
}

func (s *scene) createBudget(name, app string, maxUnavailable int) {
	s.t.Helper()
	most := intstr.FromInt(maxUnavailable)
	_, err := admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: selector(app), MaxUnavailable: &most,
		},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
}

// deployment creates a Deployment whose pods are ready, on the scene's nodes, and returns these.
func (s *scene) deployment(app string, replicas int32) []corev1.Pod {
	s.t.Helper()
	_, err := admin.AppsV1().Deployments(s.Namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(app), Template: s.template(app)},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
	return s.awaitReady(app, int(replicas))
}

// statefulSet creates a StatefulSet of one pod that is ready, on the scene's nodes, and returns it.
func (s *scene) statefulSet(app string) corev1.Pod {
	s.t.Helper()
	_, err := admin.AppsV1().StatefulSets(s.Namespace).Create(s.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.StatefulSetSpec{Selector: selector(app), Template: s.template(app)},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
	return s.awaitReady(app, 1)[0]
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// template is for pods on the scene's nodes.
func (s *scene) template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeSelector: s.Labels(), Containers: []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations: []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}},
		},
	}
}

// ready returns the ready pods of an app.
func (s *scene) ready(ctx context.Context, app string) ([]corev1.Pod, error) {
	pods, err := admin.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil || !rig.IsReady(&pod) }), nil
}

// awaitReady waits until the given number of pods of an app are ready, and returns them.
func (s *scene) awaitReady(app string, count int) (pods []corev1.Pod) {
	s.t.Helper()
	await.Eventually(s.t, fmt.Sprintf("%d pods of %s are ready", count, app), func(ctx context.Context) (err error) {
		if pods, err = s.ready(ctx, app); err == nil && len(pods) != count {
			err = fmt.Errorf("%d are", len(pods))
		}
		return err
	})
	return pods
}
