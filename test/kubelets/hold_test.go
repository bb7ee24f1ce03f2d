// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// protects is how long Taintkeeper may take to protect pods that it holds.
const protects = 5 * time.Second

// holds are stories about held pods whose kubelet restarts. A kubelet rejects a pod without a toleration that matches a
// NoExecute taint of its node, and stops its containers.
var holds = []Scenario{
	{
		Name: "pods that a policy holds survive restarts of the kubelet",
		Given: []Step{
			Machine("n"), On("n", "one", Runs()), On("n", "two", Runs()), Wrote("main starts", "one", "two"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}),
		},
		When:     []Step{Taint("n", "gone"), Held(2), After(protects), RestartKubelet("n"), After(time.Second), RestartKubelet("n")},
		Promised: []Check{Stays("one"), SawNothing("one", "two"), run("one"), run("two")},
	},
	{
		Name: "pods that are paused survive a restart of the kubelet",
		Given: []Step{
			Machine("n"), On("n", "one", Runs()), On("n", "job", Runs(), Once), Wrote("main starts", "one", "job"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("a test")}),
		},
		When:     []Step{Taint("n", "gone"), Held(2), After(protects), RestartKubelet("n")},
		Promised: []Check{Stays("one"), SawNothing("one", "job"), run("one"), run("job")},
	},
	{
		Name: "pods whose budget allows nothing survive a restart of the kubelet",
		Given: []Step{
			Machine("n"), On("n", "db-0", Runs(), app), On("n", "db-1", Runs(), app), Wrote("main starts", "db-0", "db-1"),
			full, Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}),
		},
		When:     []Step{Taint("n", "gone"), Held(2), After(protects), RestartKubelet("n")},
		Promised: []Check{Stays("db-0"), SawNothing("db-0", "db-1"), run("db-0"), run("db-1")},
	},
	{
		Name: "held pods run again after their node has rebooted",
		Given: []Step{
			Machine("n"), On("n", "one", Runs()), Wrote("main starts", "one"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}),
		},
		When:     []Step{Taint("n", "gone"), Held(1), After(protects), Reboot("n")},
		Promised: []Check{Stays("one"), run("one")},
	},
	{
		Name: "a held pod leaves when its policy is deleted, although the kubelet has restarted meanwhile",
		Given: []Step{
			Machine("n"), On("n", "one", Runs()), Wrote("main starts", "one"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}),
		},
		When: []Step{
			Taint("n", "gone"), Held(1), After(protects), RestartKubelet("n"), After(protects), Then(SawNothing("one")), Unfollow,
		},
		Promised: []Check{ByRule},
	},
}

func app(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} }

// full makes a PodDisruptionBudget that allows nothing as long as there are two pods.
func full(ctx context.Context, p *Play) error {
	budgets := p.Admin.PolicyV1().PodDisruptionBudgets(p.Namespace)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		found, err := budgets.Get(ctx, "db", metav1.GetOptions{})
		if err == nil && found.Status.CurrentHealthy < 2 {
			err = fmt.Errorf("the budget is not ready: %+v", found.Status)
		}
		return err
	})
}

// run wants a pod to run.
func run(name string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		began := time.Now()
		for {
			pod, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if client.IgnoreNotFound(err) != nil {
				return Finding{}, err
			}
			if err == nil && scene.IsReady(pod) {
				return Finding{Seen: name + " runs", Right: true}, nil
			}
			if time.Since(began) > stall.Bound+p.Stalled(began, time.Now()) {
				return Finding{Seen: fmt.Sprintf("%s does not run: %s, %s", name, pod.Status.Reason, pod.Status.Message)}, nil
			}
			if err := await.Pause(ctx, 100*time.Millisecond); err != nil {
				return Finding{}, err
			}
		}
	}
}
