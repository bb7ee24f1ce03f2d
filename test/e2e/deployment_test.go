// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestDeployment plays where the replicas of config/deployment.yaml run, in a cluster that notices within 8 s that a
// node has failed. kwok plays the replicas; the stage's Taintkeeper stands for the one that leads.
func TestDeployment(t *testing.T) {
	play(t, cast{
		without: "-taint-eviction-controller", replicas: 1,
		managerArgs: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=8s"},
	}, deployed...)
}

// nowhere is where a replica runs that waits for a node.
const nowhere = ""

var deployed = []Scenario{{
	Name:  "the Deployment keeps Taintkeeper available",
	Alone: true,
	Long:  true,
	Given: []Step{Simulated("one-a", "two-b"), installDeployment, runOn("one-a", "two-b")},
	When: []Step{
		// Replicas stay when every node gets a taint.
		sameReplicas(Taint("one-a", "power"), Taint("two-b", "power"), keepOn("one-a", "two-b")),
		Untaint("one-a", "power"), Untaint("two-b", "power"),
		// An update ends with a replica on each node.
		update("two"), runOn("one-a", "two-b"),
		// A replica leaves a node that has failed, and its successor does not join the other one.
		silence("two-b"), runOn(nowhere, "one-a"), keepOn(nowhere, "one-a"),
		// A drain does not take the only replica that runs.
		drainRefused("one-a"),
		// An update with one node ends, too.
		update("three"), runOn(nowhere, "one-a"),
		// The successor comes to a node that is new.
		Simulated("two-c"), runOn("one-a", "two-c"),
	},
	Promised: []Check{}, // the steps check it
}}

const (
	deploymentName = "taintkeeper"
	replicaLabel   = "app.kubernetes.io/name=" + deploymentName
)

// installDeployment creates what config/deployment.yaml has, until the end of the story.
func installDeployment(ctx context.Context, p *Play) error {
	all, err := config.Objects(config.Deployment)
	for _, object := range all {
		err = errors.Join(err, objects.Create(ctx, object))
	}
	p.Finally(func(ctx context.Context) error {
		var failed []error
		for _, object := range all {
			failed = append(failed, client.IgnoreNotFound(objects.Delete(ctx, object)))
		}
		return errors.Join(append(failed, await.Poll(ctx, func(ctx context.Context) error {
			its := metav1.ListOptions{LabelSelector: replicaLabel}
			sets, err := p.Admin.AppsV1().ReplicaSets(metav1.NamespaceSystem).List(ctx, its)
			if err == nil && len(sets.Items) > 0 {
				err = errors.New("its ReplicaSets are there")
			}
			return errors.Join(err, p.Admin.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, scene.AtOnce(), its))
		}))...)
	})
	return err
}

// replicasOf returns the replicas that are not terminating.
func replicasOf(ctx context.Context, p *Play) ([]corev1.Pod, error) {
	list, err := p.Admin.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: replicaLabel})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// areOn returns an error unless the replicas are on exactly these nodes, and run.
func areOn(ctx context.Context, p *Play, nodes []string) error {
	pods, err := replicasOf(ctx, p)
	if err != nil {
		return err
	}
	var got, want []string
	for _, node := range nodes {
		if node != nowhere {
			node = p.NodeName(node)
		}
		want = append(want, node)
	}
	for i := range pods {
		if pods[i].Spec.NodeName != nowhere && pods[i].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s on node %s is %s", pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.Phase)
		}
		got = append(got, pods[i].Spec.NodeName)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the replicas are on %q, want %q", got, want)
	}
	return nil
}

// runOn waits until the replicas run on exactly these nodes.
func runOn(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error { return areOn(ctx, p, nodes) })
	}
}

// keepOn looks for a while that the replicas keep running there.
func keepOn(nodes ...string) Step {
	const looks, every = 30, 100 * time.Millisecond
	return func(ctx context.Context, p *Play) error {
		for range looks {
			if err := errors.Join(areOn(ctx, p, nodes), await.Pause(ctx, every)); err != nil {
				return err
			}
		}
		return nil
	}
}

// sameReplicas wants no replica to be replaced during some steps.
func sameReplicas(steps ...Step) Step {
	names := func(ctx context.Context, p *Play) (all []string, err error) {
		pods, err := replicasOf(ctx, p)
		for i := range pods {
			all = append(all, pods[i].Name)
		}
		slices.Sort(all)
		return all, err
	}
	return func(ctx context.Context, p *Play) error {
		before, err := names(ctx, p)
		err = errors.Join(err, Steps(steps...)(ctx, p))
		after, failed := names(ctx, p)
		if !slices.Equal(before, after) {
			failed = fmt.Errorf("the replicas %v were replaced by %v", before, after)
		}
		return errors.Join(err, failed)
	}
}

// update changes the template of the replicas, and waits until there are new ones only.
func update(version string) Step {
	return func(ctx context.Context, p *Play) error {
		deployments := p.Admin.AppsV1().Deployments(metav1.NamespaceSystem)
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"version":%q}}}}}`, version)
		changed, err := deployments.Patch(ctx, deploymentName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return await.Poll(ctx, func(ctx context.Context) error {
			d, err := deployments.Get(ctx, deploymentName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			isAvailable := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
				return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
			})
			if is := d.Status; is.ObservedGeneration < changed.Generation || is.UpdatedReplicas < *d.Spec.Replicas ||
				is.Replicas > is.UpdatedReplicas || !isAvailable {
				return fmt.Errorf("the update is not over: %+v", is)
			}
			return nil
		})
	}
}

// drainRefused wants the PodDisruptionBudget to refuse an eviction of the replica on a node, as a drain tries it.
func drainRefused(node string) Step {
	return func(ctx context.Context, p *Play) error {
		pods, err := replicasOf(ctx, p)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == p.NodeName(node) })
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name}}
		err = p.Admin.CoreV1().Pods(metav1.NamespaceSystem).EvictV1(ctx, eviction)
		if !apierrors.IsTooManyRequests(err) {
			return errors.Join(err, errors.New("the PodDisruptionBudget has not refused it"))
		}
		return nil
	}
}
