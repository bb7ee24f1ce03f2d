// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// policies are played in TestEvictions, and the stories about a change of the leader in TestNextToTheBuiltIn.
var policies = []Scenario{
	{
		Name:  "a policy holds pods until it is deleted",
		Given: []Step{Alone("pod")},
		When: []Step{
			whileFollowed(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}, Taint("pod", "gone"), Held(1), keptAlive("pod"), After(2*time.Second)),
		},
	},
	{
		Name:  "a pause stops evictions until it is over",
		Given: []Step{Alone("pod")},
		When:  []Step{whilePaused(Taint("pod", "gone"), After(3*time.Second))},
	},
	{
		Name:  "a policy asks a PodDisruptionBudget",
		Given: []Step{Simulated("node"), ready("node", "web", 3), budget("web", 2)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}), Taint("node", "gone"), Held(2), After(3 * time.Second),
		},
		Promised: []Check{leftBy(1, "create pods/eviction")},
	},
	{
		Name:  "a policy sets a pace",
		Given: []Step{Node("node"), Crowd("node", 3)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: metav1.Duration{Duration: 10 * time.Second}},
			}),
			Taint("node", "gone"),
		},
		Promised: []Check{apart(3, 10*time.Second)},
	},
	{
		Name:  "a breaker stops evictions when too many pods are due",
		Given: []Step{Node("node"), Crowd("node", 4)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromString("50%")},
			}),
			Taint("node", "gone"), tripped, After(3 * time.Second),
		},
		Promised: []Check{leftBy(0, "delete pods")},
	},
}

// whileFollowed lets a policy be followed during some steps. Pods that were due meanwhile are due when it is deleted.
func whileFollowed(spec v1alpha1.EvictionPolicySpec, steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		err := Steps(append([]Step{Follow(spec)}, steps...)...)(ctx, p)
		return errors.Join(err, requireAllPresent(ctx, p), Unfollow(ctx, p))
	}
}

// whilePaused pauses evictions in the namespace of the scene during some steps, as a user does.
func whilePaused(steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		out, err := run(ctx, "pause", "an end-to-end test", "--namespace="+p.Namespace, "--output=name")
		if err != nil {
			return err
		}
		err = errors.Join(Steps(steps...)(ctx, p), requireAllPresent(ctx, p))
		_, name, _ := strings.Cut(strings.TrimSpace(string(out)), "/")
		_, failed := run(ctx, "resume", name)
		p.Excuse(time.Now())
		return errors.Join(err, failed)
	}
}

// requireAllPresent fails if a pod of the scene has left.
func requireAllPresent(ctx context.Context, p *Play) error {
	found, err := allStay(ctx, p)
	if err == nil && !found.Right {
		err = errors.New(found.Seen)
	}
	return err
}

// tripped waits until the breaker of the policy of the scene is open.
func tripped(ctx context.Context, p *Play) error {
	return AwaitPolicy(ctx, p, "its breaker is closed", func(status *v1alpha1.EvictionPolicyStatus) bool {
		return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionTripped)
	})
}

// ready makes pods of an app that are ready, on a node that kwok simulates.
func ready(node, app string, count int) Step {
	labeled := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
	return Steps(Crowd(node, count, labeled), func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			found, err := p.Admin.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
			if err != nil {
				return err
			}
			for i := range found.Items {
				if !scene.IsReady(&found.Items[i]) {
					return fmt.Errorf("pod %s is not ready", found.Items[i].Name)
				}
			}
			return nil
		})
	})
}

// budget makes a PodDisruptionBudget for an app, and waits until it allows something.
func budget(app string, minAvailable int) Step {
	return func(ctx context.Context, p *Play) error {
		budgets := p.Admin.PolicyV1().PodDisruptionBudgets(p.Namespace)
		least := intstr.FromInt(minAvailable)
		_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return await.Poll(ctx, func(ctx context.Context) error {
			found, err := budgets.Get(ctx, app, metav1.GetOptions{})
			if err == nil && found.Status.DisruptionsAllowed == 0 {
				err = fmt.Errorf("the budget allows nothing: %+v", found.Status)
			}
			return err
		})
	}
}

// rule makes a rule that turns a condition of a node into a taint.
func rule(node, kind, key string) Step {
	return func(ctx context.Context, p *Play) error {
		object := &v1alpha1.NodeTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: p.Namespace},
			Spec: v1alpha1.NodeTaintRuleSpec{
				Condition:    v1alpha1.NodeTaintRuleCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionTrue},
				NodeSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelTopologyZone: v1alpha1.LabelValue(p.NodeName(node))}},
				MaxTainted:   new(intstr.FromInt32(1)),
				Taint:        v1alpha1.NodeTaintRuleTaint{Key: key, Effect: corev1.TaintEffectNoExecute},
			},
		}
		p.Finally(func(ctx context.Context) error { return client.IgnoreNotFound(objects.Delete(ctx, object)) })
		return objects.Create(ctx, object)
	}
}
