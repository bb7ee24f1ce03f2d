// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
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
)

// exampleRules are the rules of examples/node-problem-detector.yaml.
func exampleRules(t *testing.T) []*v1alpha1.NodeTaintRule {
	t.Helper()
	text, err := os.ReadFile("../../examples/node-problem-detector.yaml")
	await.Must(t, err)
	var all []*v1alpha1.NodeTaintRule
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		rule := &v1alpha1.NodeTaintRule{}
		err := decoder.Decode(rule)
		if errors.Is(err, io.EOF) {
			return all
		}
		await.Must(t, err)
		all = append(all, rule)
	}
}

// atOnce returns a rule with no waits, and with a limit that fits a cluster of few nodes.
func atOnce(rule *v1alpha1.NodeTaintRule) *v1alpha1.NodeTaintRule {
	quick := rule.DeepCopy()
	quick.Spec.After, quick.Spec.ClearAfter = metav1.Duration{}, metav1.Duration{}
	if quick.Spec.MaxTainted != nil {
		quick.Spec.MaxTainted = new(intstr.FromInt32(1))
	}
	return quick
}

// reports writes conditions of the node as node-problem-detector does.
func (s *scene) reports(t *testing.T, conditions ...string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[%s]}}`, strings.Join(conditions, ","))
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), s.node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	await.Must(t, err)
}

// has waits until the node has exactly these taints from rules, and that of the built-in besides.
func (s *scene) has(t *testing.T, want ...string) {
	t.Helper()
	want = append(want, corev1.TaintNodeUnschedulable+":NoSchedule")
	slices.Sort(want)
	await.Eventually(t, fmt.Sprintf("the node has the taints %q", want), func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, taint := range node.Spec.Taints {
			got = append(got, taint.ToString())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// TestRulesTaintNextToTheBuiltInNodeLifecycleController plays the rules of examples/node-problem-detector.yaml while
// node-health is off, as it is on every managed control plane.
func TestRulesTaintNextToTheBuiltInNodeLifecycleController(t *testing.T) {
	s, began := newScene(t), time.Now()
	s.cordoned(t)
	examples := exampleRules(t)
	keeper := s.keeper(t, "taintkeeper", "--controllers=*")
	log, err := os.ReadFile(keeper.LogPath())
	await.Must(t, err)
	if !strings.Contains(string(log), "Node-health is off") {
		t.Errorf("it does not say that node-health is left out:\n%s", log)
	}
	pod := s.pod(t, "pod", 0)
	var on, off, taints []string
	for _, rule := range examples {
		await.Must(t, custom.Create(t.Context(), rule.DeepCopy(), client.DryRunAll))
		quick := atOnce(rule)
		await.Must(t, custom.Create(t.Context(), quick))
		t.Cleanup(func() { s.forget(t, quick) })
		on = append(on, fmt.Sprintf(`{"type":%q,"status":"True","reason":"Trial"}`, rule.Spec.Condition.Type))
		off = append(off, fmt.Sprintf(`{"type":%q,"status":"False","reason":"Trial"}`, rule.Spec.Condition.Type))
		taints = append(taints, rule.Spec.Taint.Key+":"+string(rule.Spec.Taint.Effect))
	}

	s.reports(t, on...)
	s.has(t, taints...)
	s.leavesBy(t, pod, byUs)

	s.reports(t, `{"type":"KernelDeadlock","$patch":"delete"}`) // as the page takes back what it has set
	s.has(t, slices.DeleteFunc(slices.Clone(taints), func(taint string) bool { return strings.Contains(taint, "kernel-deadlock") })...)
	s.reports(t, off...)
	s.has(t)

	s.reports(t, on...)
	s.has(t, taints...)
	for _, rule := range examples {
		await.Must(t, custom.Delete(t.Context(), rule))
	}
	s.has(t)
	for _, c := range audit.All(t, byUs, auditlog.Since(began)) {
		if c.Resource == "nodes/status" || c.Namespace == corev1.NamespaceNodeLease {
			t.Errorf("node-health is left out, and calls: %v", c)
		}
	}
}

// forget removes a rule whose Taintkeeper is gone.
func (s *scene) forget(t *testing.T, rule *v1alpha1.NodeTaintRule) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	remove := []byte(`{"metadata":{"finalizers":null}}`)
	await.Must(t, client.IgnoreNotFound(custom.Patch(ctx, rule, client.RawPatch(types.MergePatchType, remove))))
	await.Must(t, client.IgnoreNotFound(custom.Delete(ctx, rule)))
}
