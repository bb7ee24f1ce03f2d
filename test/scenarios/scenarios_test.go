// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func TestMain(m *testing.M) { bubble.Main(m) }

func TestOursKeepsWhatIsPromisedInEachScenario(t *testing.T) {
	check := func(t *testing.T, ours scenario.Contestant, s scenario.Scenario) {
		t.Helper()
		if found, err := scenario.PlayVirtually(t, ours, s); err != nil || !found.Right {
			t.Errorf("%v, %v", found, err)
		}
	}
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) { check(t, scenario.Ours, s) })
	}
	for _, s := range Nodes {
		t.Run(s.Name, func(t *testing.T) { check(t, scenario.OursWithNodeHealth, s) })
	}
}

// TestEachScenarioTellsAContestantThatIsWrong plays each with one that does nothing, and with one that evicts at once
// whatever a pod tolerates. A scenario that finds both right proves nothing. One that cannot be played to the end,
// because a pod is gone or still there, has found a wrong one.
func TestEachScenarioTellsAContestantThatIsWrong(t *testing.T) {
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			if !isTold(t, idle, s) && !isTold(t, hasty, s) {
				t.Error("both were right")
			}
		})
	}
	for _, s := range Nodes {
		t.Run(s.Name, func(t *testing.T) {
			if !isTold(t, idle, s) {
				t.Error("one that does nothing was right")
			}
		})
	}
	impatient := readiness.Grace{Monitor: scenario.NodeGrace / 2, Startup: scenario.NodeStartupGrace / 2}
	if !isTold(t, scenario.Keeping(impatient), Nodes[0]) {
		t.Error("one that gives nodes half of their grace period was right")
	}
}

// isTold reports whether a scenario tells that a contestant is wrong.
func isTold(t *testing.T, contestant scenario.Contestant, s scenario.Scenario) bool {
	t.Helper()
	found, err := scenario.PlayVirtually(t, contestant, s)
	return err != nil || !found.Right
}

// idle does nothing.
func idle(*fake.Clientset) (func(context.Context) error, error) {
	return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
}

// hasty deletes every pod whose node has a taint.
func hasty(client *fake.Clientset) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		for await.Pause(ctx, time.Second/2) == nil {
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, node := range nodes.Items {
				if len(node.Spec.Taints) > 0 {
					evictAll(ctx, client, node.Name)
				}
			}
		}
		return nil
	}, nil
}

// evictAll deletes the pods of a node. That some cannot be deleted is up to the scenario.
func evictAll(ctx context.Context, client *fake.Clientset, node string) {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(pods.Items); i++ {
		if pod := pods.Items[i]; pod.Spec.NodeName == node {
			this := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
			_ = client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, this)
		}
	}
}
