// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deployment proves that config/deployment.yaml keeps Taintkeeper available, on a real control plane with a
// scheduler: where its replicas run, how they are updated and that one on a node that failed is replaced. The pods of
// the Deployment are played by kwok; a Taintkeeper outside the cluster stands for the one that leads.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

const (
	// watchFor is how long a test checks that something does not happen, lookAgain how often.
	watchFor  = 3 * time.Second
	lookAgain = 100 * time.Millisecond

	name      = "taintkeeper"
	selection = "app.kubernetes.io/name=" + name
)

// scene is a cluster of two nodes in which the Deployment is applied.
type scene struct {
	*localcluster.Cluster
	admin kubernetes.Interface
}

func newScene(t *testing.T) *scene {
	t.Helper()
	suite.SilenceLogs()
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Config{
		// A node that is silent for 8 s has failed; kwok renews leases each second.
		ControllerManagerArgs: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=8s"},
		NodeLeaseSeconds:      4,
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, cluster.Stop()) })
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "a", Zone: "one"}, localcluster.NodeSpec{Name: "b", Zone: "two"}))
	admin, err := kubernetes.NewForConfig(cluster.AdminConfig())
	await.Must(t, err)
	s := &scene{cluster, admin}
	binary, err := suite.Build(t.Context(), t.TempDir(), name)
	await.Must(t, err)
	_, err = cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{Binary: binary})
	await.Must(t, err)
	s.apply(t)
	return s
}

// apply creates everything that deployment.yaml has.
func (s *scene) apply(t *testing.T) {
	t.Helper()
	objects, err := config.Objects(config.Deployment)
	await.Must(t, err)
	writer, err := client.New(s.AdminConfig(), client.Options{})
	await.Must(t, err)
	for _, object := range objects {
		await.Must(t, writer.Create(t.Context(), object))
	}
}

// replicas returns the replicas that are not terminating.
func (s *scene) replicas(ctx context.Context) ([]corev1.Pod, error) {
	list, err := s.admin.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: selection})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// on checks where the replicas run; "" is nowhere yet.
func (s *scene) on(nodes ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.replicas(ctx)
		if err != nil {
			return err
		}
		var got []string
		for i := range pods {
			if pods[i].Spec.NodeName != "" && pods[i].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s on node %s is %s", pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.Phase)
			}
			got = append(got, pods[i].Spec.NodeName)
		}
		slices.Sort(got)
		if !slices.Equal(got, nodes) {
			return fmt.Errorf("replicas on %q, want %q", got, nodes)
		}
		return nil
	}
}

// update changes the template of the pods, and returns once there are new ones only.
func (s *scene) update(t *testing.T, version string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"version":%q}}}}}`, version)
	deployments := s.admin.AppsV1().Deployments(metav1.NamespaceSystem)
	d, err := deployments.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	await.Must(t, err)
	wanted := d.Generation
	await.Eventually(t, "the update is over", func(ctx context.Context) error {
		d, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ObservedGeneration < wanted || d.Status.UpdatedReplicas < *d.Spec.Replicas || d.Status.Replicas > d.Status.UpdatedReplicas {
			return fmt.Errorf("status %+v", d.Status)
		}
		return isAvailable(d)
	})
}

func isAvailable(d *appsv1.Deployment) error {
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("it is not available")
}

// TestTheDeploymentKeepsTaintkeeperAvailable is one story in one cluster: each part begins where the one before it
// ended.
func TestTheDeploymentKeepsTaintkeeperAvailable(t *testing.T) {
	s := newScene(t)
	await.Eventually(t, "each node has a replica", s.on("a", "b"))
	parts := []struct {
		name string
		play func(t *testing.T)
	}{
		{"replicas stay when every node gets a taint", s.everyNodeGetsATaint},
		{"an update ends with a replica on each node", func(t *testing.T) {
			s.update(t, "two")
			await.Eventually(t, "each node has a replica", s.on("a", "b"))
		}},
		{"a replica leaves a node that failed, and its successor does not join the other", func(t *testing.T) {
			await.Must(t, s.SilenceNodes(t.Context(), "b"))
			await.Eventually(t, "the replica has left, and its successor waits", s.on("", "a"))
			always(t, "it waits for another node", s.on("", "a"))
		}},
		{"a drain does not take the only replica that runs", s.drainOfTheOnlyReplica},
		{"an update with one node ends, too", func(t *testing.T) {
			s.update(t, "three")
			await.Eventually(t, "one runs", s.on("", "a"))
		}},
		{"the successor comes to a node that is new", func(t *testing.T) {
			await.Must(t, s.AddNodes(t.Context(), localcluster.NodeSpec{Name: "c", Zone: "two"}))
			await.Eventually(t, "both run", s.on("a", "c"))
		}},
	}
	for _, part := range parts {
		if !t.Run(part.name, part.play) {
			return
		}
	}
}

func (s *scene) everyNodeGetsATaint(t *testing.T) {
	before := s.names(t)
	s.setTaints(t, `[{"key":"power","value":"off","effect":"NoExecute"}]`)
	always(t, "they stay", s.on("a", "b"))
	if after := s.names(t); !maps.Equal(before, after) {
		t.Errorf("replicas %v were replaced by %v", before, after)
	}
	s.setTaints(t, "[]")
}

// setTaints replaces the taints of both nodes.
func (s *scene) setTaints(t *testing.T, taints string) {
	t.Helper()
	patch := []byte(`{"spec":{"taints":` + taints + `}}`)
	for _, node := range []string{"a", "b"} {
		_, err := s.admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
		await.Must(t, err)
	}
}

func (s *scene) drainOfTheOnlyReplica(t *testing.T) {
	pods, err := s.replicas(t.Context())
	await.Must(t, err)
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "a" })
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name}}
	if err := s.admin.CoreV1().Pods(metav1.NamespaceSystem).EvictV1(t.Context(), eviction); !apierrors.IsTooManyRequests(err) {
		t.Errorf("its eviction is answered with %v, want a refusal because of the PodDisruptionBudget", err)
	}
}

// names are the replicas by their names.
func (s *scene) names(t *testing.T) map[string]bool {
	t.Helper()
	pods, err := s.replicas(t.Context())
	await.Must(t, err)
	names := map[string]bool{}
	for i := range pods {
		names[pods[i].Name] = true
	}
	return names
}

// always looks for a while that something stays so.
func always(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), lookAgain, watchFor, true, func(ctx context.Context) (bool, error) {
		return false, check(ctx)
	})
	if !wait.Interrupted(err) {
		t.Fatalf("not so: %s: %v", what, err)
	}
}
