// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies proves EvictionPolicies on a real control plane, with the binary that users run, the rights of
// config/rbac.yaml, and kube-controller-manager, which keeps the PodDisruptionBudgets.
//
// All tests share one cluster and one taintkeeper. Each has a namespace and nodes for itself, and policies that select
// these alone, so they run side by side.
package policies

import (
	"context"
	"fmt"
	"os"
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
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

func start(ctx context.Context, shared *suite.Suite) error {
	binary, err := suite.Build(ctx, shared.Dir, "taintkeeper")
	if err != nil {
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
	_, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{
		Binary: binary, Args: []string{"--controllers=eviction"},
	})
	return err
}

// scene is what one test has for itself.
type scene struct {
	rig.Scene

	t *testing.T
}

var scenes atomic.Int32

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
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
func (s *scene) node(name string) string {
	s.t.Helper()
	spec := localcluster.NodeSpec{Name: s.NodeName(name), Labels: s.Labels()}
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

// pod makes a pod that runs on a node.
func (s *scene) pod(name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	pod, err := s.Pod(s.t.Context(), name, node, edits...)
	await.Must(s.t, err)
	await.Eventually(s.t, "pod "+name+" is ready", func(ctx context.Context) error {
		is, err := admin.CoreV1().Pods(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range is.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", is.Status)
	})
	return pod
}

// theTaint is the key of the taint that the tests set.
const theTaint = "gone"

func (s *scene) taint(node string) time.Time {
	s.t.Helper()
	span, err := rig.Taint(s.t.Context(), admin, node, rig.NoExecute(theTaint))
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

// asks wants the calls that ask the Eviction API.
func asks(e auditlog.Event) bool { return e.Verb == "create" && e.Resource == "pods/eviction" }

func (s *scene) wantBetween(what string, at, earliest, latest time.Time) {
	s.t.Helper()
	if at.Before(earliest) || at.After(latest) {
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

// budget creates a PodDisruptionBudget for pods with a label, and waits until it is in force.
func (s *scene) budget(name, app string, maxUnavailable int) {
	s.t.Helper()
	s.createBudget(name, app, maxUnavailable)
	await.Eventually(s.t, "budget "+name+" is in force", func(ctx context.Context) error {
		is, err := admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && (is.Status.ObservedGeneration < is.Generation || is.Status.ExpectedPods == 0) {
			err = fmt.Errorf("its status is %+v", is.Status)
		}
		return err
	})
}

func (s *scene) createBudget(name, app string, maxUnavailable int) {
	s.t.Helper()
	most := intstr.FromInt(maxUnavailable)
	_, err := admin.PolicyV1().PodDisruptionBudgets(s.Namespace).Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, MaxUnavailable: &most,
		},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
}

// deployment creates a Deployment whose pods are ready, on the scene's nodes.
func (s *scene) deployment(name string, replicas int32) {
	s.t.Helper()
	app := map[string]string{"app": name}
	_, err := admin.AppsV1().Deployments(s.Namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{
					NodeSelector: s.Labels(), Containers: []corev1.Container{{Name: "c", Image: "none"}},
					Tolerations: []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}, metav1.CreateOptions{})
	await.Must(s.t, err)
	s.awaitReady(name, int(replicas))
}

// ready counts the ready pods of a Deployment, and those of them that are on a node.
func (s *scene) ready(ctx context.Context, name, node string) (all, there int, err error) {
	pods, err := admin.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	for i := 0; err == nil && i < len(pods.Items); i++ {
		pod := &pods.Items[i]
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				all++
				if pod.Spec.NodeName == node {
					there++
				}
			}
		}
	}
	return all, there, err
}

func (s *scene) awaitReady(name string, pods int) {
	s.t.Helper()
	await.Eventually(s.t, "Deployment "+name+" is ready", func(ctx context.Context) error {
		all, _, err := s.ready(ctx, name, "")
		if err == nil && all != pods {
			err = fmt.Errorf("%d of %d pods are ready", all, pods)
		}
		return err
	})
}
