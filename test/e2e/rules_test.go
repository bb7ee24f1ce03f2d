// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// The steps about NodeTaintRules.

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

// condition sets a condition of a node.
func condition(node, kind string, status corev1.ConditionStatus) Step {
	return func(ctx context.Context, p *Play) error {
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Played","lastTransitionTime":%q}]}}`,
			kind, status, time.Now().UTC().Format(time.RFC3339))
		_, err := p.Admin.CoreV1().Nodes().
			Patch(ctx, p.NodeName(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}
}

// heals wants a rule to take its taint off when the condition is over.
func heals(node, kind, key string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		err := Steps(condition(node, kind, corev1.ConditionFalse), AwaitNoTaint(node, key))(ctx, p)
		return Finding{Seen: fmt.Sprint("the taint of the rule: ", err), Right: err == nil}, nil
	}
}

// playExampleRules plays the rules of examples/node-problem-detector.yaml, without their waits, on a cordoned node.
func playExampleRules(node, pod string) Step {
	return func(ctx context.Context, p *Play) error {
		examples, err := exampleRules()
		if err != nil {
			return err
		}
		var on, off []Step
		taints := []string{"node.kubernetes.io/unschedulable:NoSchedule"}
		for _, rule := range examples {
			p.Finally(func(ctx context.Context) error { return forget(ctx, rule) })
			if err := objects.Create(ctx, rule.DeepCopy(), client.DryRunAll); err != nil {
				return err
			}
			rule.Spec.After, rule.Spec.ClearAfter = metav1.Duration{}, metav1.Duration{}
			if rule.Spec.MaxTainted != nil {
				rule.Spec.MaxTainted = new(intstr.FromInt32(1))
			}
			if err := objects.Create(ctx, rule); err != nil {
				return err
			}
			kind := string(rule.Spec.Condition.Type)
			on = append(on, condition(node, kind, corev1.ConditionTrue))
			off = append(off, condition(node, kind, corev1.ConditionFalse))
			taints = append(taints, rule.Spec.Taint.Key+":"+string(rule.Spec.Taint.Effect))
		}
		none := taints[:1]
		withoutDeadlock := slices.DeleteFunc(slices.Clone(taints), func(taint string) bool { return strings.Contains(taint, "kernel-deadlock") })
		err = Steps(
			Steps(on...), hasTaints(node, taints), Gone(pod),
			forgetCondition(node, "KernelDeadlock"), hasTaints(node, withoutDeadlock),
			Steps(off...), hasTaints(node, none),
			Steps(on...), hasTaints(node, taints),
		)(ctx, p)
		for _, rule := range examples {
			err = errors.Join(err, objects.Delete(ctx, rule))
		}
		return errors.Join(err, hasTaints(node, none)(ctx, p))
	}
}

func exampleRules() (all []*v1alpha1.NodeTaintRule, err error) {
	text, err := os.ReadFile("../../examples/node-problem-detector.yaml")
	if err != nil {
		return nil, err
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		rule := &v1alpha1.NodeTaintRule{}
		switch err := decoder.Decode(rule); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, rule)
	}
}

// forget removes a rule, even if Taintkeeper is gone.
func forget(ctx context.Context, rule *v1alpha1.NodeTaintRule) error {
	remove := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return errors.Join(
		client.IgnoreNotFound(objects.Patch(ctx, rule.DeepCopy(), remove)), client.IgnoreNotFound(objects.Delete(ctx, rule)))
}

// forgetCondition takes a condition off a node, as node-problem-detector does not, but a user may.
func forgetCondition(node, kind string) Step {
	return func(ctx context.Context, p *Play) error {
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"$patch":"delete"}]}}`, kind)
		_, err := p.Admin.CoreV1().Nodes().
			Patch(ctx, p.NodeName(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}
}

// hasTaints waits until a node has exactly these taints.
func hasTaints(node string, want []string) Step {
	want = slices.Sorted(slices.Values(want))
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, taint := range found.Spec.Taints {
				got = append(got, taint.ToString())
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("node %s has the taints %q, want %q", node, got, want)
			}
			return nil
		})
	}
}

// healthLeftOut wants Taintkeeper to say that node health is off, and to have called nothing for it since the pod was
// made.
func healthLeftOut(_ context.Context, p *Play) (Finding, error) {
	log, err := os.ReadFile(stageOf(p).replicas[0].LogPath())
	if err != nil {
		return Finding{}, err
	}
	calls, err := p.Calls(auditlog.Since(p.Began(p.Named("pod"))), func(c auditlog.Event) bool {
		return c.Resource == "nodes/status" || c.Namespace == corev1.NamespaceNodeLease
	})
	right := strings.Contains(string(log), "Node-health is off") && len(calls) == 0
	return Finding{Seen: fmt.Sprintf("node health calls %v", calls), Right: right}, err
}
