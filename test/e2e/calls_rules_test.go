// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestRulesOnARealAPIServer is about what only the API server decides: what happens to rules that an older definition
// of the resource accepted, which columns are shown, and that a kubelet cannot say whose a taint is.
func TestRulesOnARealAPIServer(t *testing.T) {
	addOldRules(t)
	startProgram(t, "rules", "--controllers=node-taint-rule")
	t.Run("what got in before is told what is wrong with it, and can be deleted", testOldRules)

	s, err := scene.New(t.Context(), onStage.Client(), "rules")
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, s.Clear(context.WithoutCancel(t.Context()))) })
	for i, name := range []string{"c", "a", "b"} {
		deadlocked(t, s, name, time.Now().Add(time.Duration(i-60)*time.Second))
	}
	await.Must(t, objects.Create(t.Context(), ruleKind.named("deadlock", "maxTainted: 2")))
	await.Must(t, objects.Create(t.Context(), ruleKind.named("late", "taint: {value: late}")))
	awaitDeadlock(t, s, "a", "c")
	await.Eventually(t, "the columns of the rules are right", checkColumns)
	t.Run("a kubelet cannot say whose a taint is", func(t *testing.T) { testKubelet(t, s.NodeName("c")) })
	awaitDeadlock(t, s, "a", "c")
	for _, name := range []string{"late", "deadlock"} {
		await.Must(t, objects.Delete(t.Context(), ruleKind.named(name, "")))
		awaitDeleted(t, name)
	}
	awaitDeadlock(t, s)
}

// oldRules have been refused since a newer version of the resource.
var oldRules = map[string]struct{ spec, says string }{
	"ready":     {`condition: {type: Ready}`, "use the taints node.kubernetes.io/not-ready"},
	"unknown":   {`condition: {type: DiskPressure, status: Unknown}`, "use the status True"},
	"unbounded": {`taint: {effect: NoExecute}`, "needs maxTainted"},
	"selector":  {`nodeSelector: {matchExpressions: [{key: pool, operator: in, values: [batch]}]}`, `"in" is not a valid label selector operator`},
}

// addOldRules creates them while the resource refuses nothing.
func addOldRules(t *testing.T) {
	t.Helper()
	manifests, err := config.Objects(config.CRD)
	await.Must(t, err)
	current := manifests[0].(*apiextensionsv1.CustomResourceDefinition)
	lenient := current.DeepCopy()
	relax(lenient.Spec.Versions[0].Schema.OpenAPIV3Schema)
	replaceCRD(t, lenient, true)
	for name, old := range oldRules {
		object := ruleKind.named(name, old.spec)
		mergePatch(object.Object["spec"].(map[string]any), specOf("taint: {key: example.com/"+name+"}"))
		object.SetFinalizers([]string{v1alpha1.Finalizer}) // it has tainted nodes
		await.Must(t, objects.Create(t.Context(), object))
	}
	replaceCRD(t, current, false)
}

// replaceCRD replaces the definition of the resource, and waits until it accepts or refuses an invalid rule.
func replaceCRD(t *testing.T, next *apiextensionsv1.CustomResourceDefinition, accepts bool) {
	t.Helper()
	await.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var known apiextensionsv1.CustomResourceDefinition
		if err := objects.Get(t.Context(), client.ObjectKeyFromObject(next), &known); err != nil {
			return err
		}
		known.Spec = next.Spec
		return objects.Update(t.Context(), &known)
	}))
	await.Eventually(t, "the new definition is in force", func(ctx context.Context) error {
		err := objects.Create(ctx, ruleKind.named("probe", "condition: {status: Maybe}"), client.DryRunAll)
		if accepts != (err == nil) || !accepts && !apierrors.IsInvalid(err) {
			return fmt.Errorf("an invalid rule is answered with %w", cmp.Or(err, errors.New("an acceptance")))
		}
		return nil
	})
}

// relax takes away what refuses a value.
func relax(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations, schema.Enum, schema.Pattern = nil, nil, ""
	for name, property := range schema.Properties {
		relax(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		relax(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		relax(schema.AdditionalProperties.Schema)
	}
}

func testOldRules(t *testing.T) {
	for name, old := range oldRules {
		await.Eventually(t, "rule "+name+" says what is wrong with it", func(ctx context.Context) error {
			var read v1alpha1.NodeTaintRule
			if err := objects.Get(ctx, client.ObjectKey{Name: name}, &read); err != nil {
				return err
			}
			accepted := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionAccepted)
			if accepted == nil || accepted.Reason != v1alpha1.ReasonInvalid || !strings.Contains(accepted.Message, old.says) {
				return fmt.Errorf("it says %v", accepted)
			}
			return nil
		})
		await.Must(t, objects.Delete(t.Context(), ruleKind.named(name, "")))
		awaitDeleted(t, name)
	}
}

// awaitDeleted waits until a rule is gone, which Taintkeeper keeps until its taints are.
func awaitDeleted(t *testing.T, name string) {
	t.Helper()
	await.Eventually(t, "the deleted rule "+name+" is gone", func(ctx context.Context) error {
		err := objects.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.NodeTaintRule{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it is there"))
	})
}

// deadlocked makes a node that says since when it has had the condition KernelDeadlock.
func deadlocked(t *testing.T, s scene.Scene, name string, since time.Time) {
	t.Helper()
	_, err := s.Node(t.Context(), name, Ready, func(node *corev1.Node) {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: "KernelDeadlock", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		})
	})
	await.Must(t, err)
}

// awaitDeadlock waits until exactly these nodes have the rule's taint.
func awaitDeadlock(t *testing.T, s scene.Scene, want ...string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("the nodes %q have the taint", want), func(ctx context.Context) error {
		nodes, err := s.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, node := range nodes.Items {
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" }) {
				got = append(got, strings.TrimPrefix(node.Name, s.NodeName("")))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("these have it: %q", got)
		}
		return nil
	})
}

// testKubelet tries what a kubelet could do about the taints of its own node, which has the rule's.
func testKubelet(t *testing.T, name string) {
	access := cluster.AdminConfig()
	access.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:masters"}} // what RBAC lets it do is not the question
	kubelet, err := kubernetes.NewForConfig(access)
	await.Must(t, err)
	nodes, label := kubelet.CoreV1().Nodes(), v1alpha1.TaintedLabelPrefix+"deadlock"
	node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
	await.Must(t, err)
	if node.Labels[label] == "" {
		t.Fatalf("the node has no label %s: %v", label, node.Labels)
	}
	for what, patch := range map[string]string{
		"its taints":       `{"spec":{"taints":null}}`,
		"the rule's label": `{"metadata":{"labels":{"` + label + `":null}}}`,
		"its value":        `{"metadata":{"labels":{"` + label + `":"other"}}}`,
		"another such one": `{"metadata":{"labels":{"` + v1alpha1.TaintedLabelPrefix + `late":"` + node.Labels[label] + `"}}}`,
	} {
		for _, subresource := range [][]string{nil, {"status"}} {
			_, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
			if what == "its taints" && subresource != nil && err == nil {
				continue // the API server leaves them as they are
			}
			if !apierrors.IsForbidden(err) {
				t.Errorf("a kubelet may change %s of its node (%s): %v", what, subresource, err)
			}
		}
	}
	if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a kubelet may not annotate its node: %v", err) // then the above would say nothing
	}
}

// checkColumns checks what kubectl get would show.
func checkColumns(ctx context.Context) error {
	access := cluster.AdminConfig()
	access.APIPath, access.GroupVersion = "/apis", &v1alpha1.GroupVersion
	access.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	getter, err := rest.RESTClientFor(access)
	if err != nil {
		return err
	}
	raw, err := getter.Get().Resource("nodetaintrules").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return err
	}
	var table metav1.Table
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), raw, &table); err != nil {
		return err
	}
	var lines []string
	for _, row := range table.Rows {
		lines = append(lines, fmt.Sprint(row.Cells[:len(row.Cells)-1]...)) // except for the age
	}
	want := []string{
		fmt.Sprint("deadlock", "KernelDeadlock", "True", "example.com/deadlock", "NoSchedule", 3, 2, 1, nil, "Accepted"),
		fmt.Sprint("late", "KernelDeadlock", "True", "example.com/deadlock", "NoSchedule", 0, 0, 0, nil, "TaintConflict"),
	}
	if !slices.Equal(lines, want) {
		return fmt.Errorf("they show\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// TestOfAPodItMayChangeNothingButTolerationsThatExpireAtOnce acts as Taintkeeper's service account.
func TestOfAPodItMayChangeNothingButTolerationsThatExpireAtOnce(t *testing.T) {
	await.Must(t, cluster.GrantTaintkeeper(t.Context()))
	s, err := scene.New(t.Context(), onStage.Client(), "narrow")
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, s.Clear(context.WithoutCancel(t.Context()))) })
	node, err := s.Node(t.Context(), "node", Ready)
	await.Must(t, err)
	pod, err := s.Pod(t.Context(), "pod", node, scene.Tolerating("kept", 300))
	await.Must(t, err)
	access, err := cluster.TaintkeeperAccess()
	await.Must(t, err)
	our, err := kubernetes.NewForConfig(access)
	await.Must(t, err)
	try := func(change func(*corev1.Pod)) error {
		is, err := s.Admin.CoreV1().Pods(s.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		await.Must(t, err)
		changed := is.DeepCopy()
		change(changed)
		patch, err := client.MergeFrom(is).Data(changed)
		await.Must(t, err)
		_, err = our.CoreV1().Pods(s.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	tolerate := func(more corev1.Toleration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, more) }
	}
	forNoTime := taints.ForNoTime(scene.NoExecute("gone"))
	forever, forASecond := forNoTime, forNoTime
	forever.TolerationSeconds, forASecond.TolerationSeconds = nil, new(int64(1))
	await.Eventually(t, "the admission policy is in force", func(context.Context) error {
		if err := cmp.Or(try(tolerate(forever)), errors.New("it is accepted")); !apierrors.IsInvalid(err) {
			return fmt.Errorf("a toleration without an end is not refused: %w", err)
		}
		return nil
	})
	for name, change := range map[string]func(*corev1.Pod){
		"an image":      func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" },
		"a label":       func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} },
		"an annotation": func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} },
		"a finalizer":   func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/stay"} },
		"an owner": func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "x"}}
		},
		"a deadline":                 func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(1)) },
		"a toleration for a second":  tolerate(forASecond),
		"the seconds of another one": func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = new(int64(1)) },
	} {
		if err := try(change); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Taintkeeper may") {
			t.Errorf("%s is answered with %v, want a refusal by taintkeeper-tolerations", name, err)
		}
	}
	await.Must(t, try(tolerate(forNoTime)))
}
