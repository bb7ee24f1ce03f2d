// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// act is a scenario that is played on both sides at the same time.
type act struct {
	namespace string
	about     []string
	Scenario
	// status says what has happened on a side so far.
	status func(p *Play, since time.Time) string
}

const (
	// crowd is how many pods wait: at 20 calls a second, their evictions take longer than half a minute.
	crowd = 200
	// countdown is how long the pod of the second act tolerates its taint, and restart is when the controller restarts.
	countdown = 12 * time.Second
	restart   = 6 * time.Second
)

var acts = []act{
	{
		namespace: "rack",
		about:     []string{fmt.Sprintf("%d pods must leave a node. After two seconds, somebody sees that it was the wrong node.", crowd)},
		status:    deletedBeforeAndAfter("1"),
		Scenario: Scenario{
			Name:  "a taint is removed while evictions wait",
			Given: []Step{Node("1"), Crowd("1", crowd)},
			When: []Step{
				types("kubectl taint node rack-1 power=off:NoExecute", Taint("1", "power")), After(2 * time.Second),
				types("kubectl taint node rack-1 power-", Untaint("1", "power")),
			},
			Promised: []Check{NoneAfterUntaint("1")},
		},
	},
	{
		namespace: "restart",
		about: []string{fmt.Sprintf("A pod tolerates a taint for %d s. After %d s, the controller is restarted, as in an upgrade.",
			int(countdown.Seconds()), int(restart.Seconds()))},
		status: leaves("db-0"),
		Scenario: Scenario{
			Name:  "the controller restarts during a countdown",
			Given: []Step{Node("1"), On("1", "db-0", scene.Tolerating("maintenance", int64(countdown.Seconds())))},
			When: []Step{
				types("kubectl taint node restart-1 maintenance=soon:NoExecute", Taint("1", "maintenance")), After(restart),
				types("kill $(pidof kube-controller-manager)   # and on the other side: kill $(pidof taintkeeper)", Restart),
			},
		},
	},
	{
		namespace: "heat",
		about:     []string{"A pod tolerates maintenance for ten minutes, and heat for three seconds."},
		status:    leaves("web-0"),
		Scenario: Scenario{
			Name:  "a second taint, with a shorter toleration",
			Given: []Step{Node("1"), On("1", "web-0", scene.Tolerating("maintenance", 600), scene.Tolerating("heat", 3))},
			When: []Step{
				types("kubectl taint node heat-1 maintenance=soon:NoExecute", Taint("1", "maintenance")), After(time.Second),
				types("kubectl taint node heat-1 heat=high:NoExecute", Taint("1", "heat")),
			},
			Watched: watched,
		},
	},
	{
		namespace: "webhook",
		about:     []string{"A pod must leave at once. For three seconds, an admission policy refuses its DELETE."},
		status:    leaves("api-0"),
		Scenario: Scenario{
			Name:  "a delete is refused for a moment",
			Given: []Step{Node("1"), On("1", "api-0")},
			When: []Step{
				WhileRefused(types("kubectl taint node webhook-1 power=off:NoExecute", Taint("1", "power")), After(3*time.Second)),
			},
			Watched: watched,
		},
	},
	{
		namespace: "budget",
		about: []string{
			"Three pods run on a node, and their PodDisruptionBudget wants two of them available. Kubernetes does not ask",
			"budgets when it evicts because of a taint. With Taintkeeper, an EvictionPolicy says that it must.",
		},
		status: stillReady,
		Scenario: Scenario{
			Name: "a PodDisruptionBudget",
			Given: []Step{
				Node("1"), running("web-1"), running("web-2"), running("web-3"), Budget("web", 2), withPolicy,
			},
			When:     []Step{types("kubectl taint node budget-1 power=off:NoExecute", Taint("1", "power")), After(watched)},
			Promised: []Check{keepsBudget},
		},
	},
}

// watched is how long pods that are still there are looked at.
const watched = 8 * time.Second

// types says what a user types, once both sides are ready for it, and does that on each side.
func types(command string, do Step) Step {
	return func(ctx context.Context, p *Play) error {
		if err := sideOf(p).types(ctx, p, command); err != nil {
			return err
		}
		return do(ctx, p)
	}
}

// deletedBeforeAndAfter counts the pods that have left, before and after the last change of a node's taints.
func deletedBeforeAndAfter(node string) func(*Play, time.Time) string {
	return func(p *Play, _ time.Time) string {
		before, after, versions := 0, 0, p.History(node)
		for _, pod := range p.Everyone() {
			at, left := p.Seen().Left(pod.UID)
			switch {
			case !left:
			case len(versions) > 1 && at.After(versions[len(versions)-1].At.To):
				after++
			default:
				before++
			}
		}
		text := fmt.Sprintf("%d of %d pods deleted", before+after, crowd)
		if len(versions) > 1 {
			text += fmt.Sprintf(", %d of them after the taint was taken back", after)
		}
		return text
	}
}

// leaves says whether a pod is there.
func leaves(name string) func(*Play, time.Time) string {
	return func(p *Play, since time.Time) string {
		if at, left := p.Seen().Left(p.Named(name).UID); left {
			return fmt.Sprintf("%s left after %s", name, Seconds(at.Sub(since)))
		}
		return name + " is there"
	}
}

// stillReady says how many pods are left.
func stillReady(p *Play, _ time.Time) string {
	return fmt.Sprintf("%d of %d pods are ready", len(p.Everyone())-gone(p), len(p.Everyone()))
}

func gone(p *Play) (count int) {
	for _, pod := range p.Everyone() {
		if _, left := p.Seen().Left(pod.UID); left {
			count++
		}
	}
	return count
}

// running makes a pod of the app web that is ready. There is no kubelet that would say so.
func running(name string) Step {
	return func(ctx context.Context, p *Play) error {
		labeled := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "web"} }
		if err := On("1", name, labeled)(ctx, p); err != nil {
			return err
		}
		pod := p.Named(name).DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err := p.Admin.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
}

// withPolicy makes an EvictionPolicy on the side that has them.
func withPolicy(ctx context.Context, p *Play) error {
	if sideOf(p).keeper == nil {
		return nil
	}
	return Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict})(ctx, p)
}

// keepsBudget wants one pod to leave, which the budget allows, and the others to wait.
func keepsBudget(_ context.Context, p *Play) (Finding, error) {
	seen := fmt.Sprintf("%d of %d pods were evicted, and the budget allows 1", gone(p), len(p.Everyone()))
	return Finding{Seen: seen, Right: gone(p) == 1}, nil
}
