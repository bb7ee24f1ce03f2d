// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// cluster is an API server with a pod of a Deployment on one of two nodes, and a pod without a node.
type cluster struct {
	core    *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
}

func newCluster(policies ...runtime.Object) *cluster {
	kinds := map[schema.GroupVersionResource]string{source.EvictionPolicies: "EvictionPolicyList"}
	owned := func(meta metav1.ObjectMeta, kind, name string) metav1.ObjectMeta {
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
		return meta
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}}}
	deployment := &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Template: template}}
	deployment.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "helm", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:tolerations":{}}}}}`),
	}}
	return &cluster{
		core: fake.NewClientset(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-2"}},
			&corev1.Pod{ObjectMeta: owned(meta("web-1-abc"), "ReplicaSet", "web-1"), Spec: corev1.PodSpec{NodeName: "n-1"}},
			&corev1.Pod{ObjectMeta: meta("unbound")},
			&corev1.Pod{ObjectMeta: meta("orphan"), Spec: corev1.PodSpec{NodeName: "n-9"}},
		),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, kinds, append(policies, deployment,
			&appsv1.ReplicaSet{ObjectMeta: owned(meta("web-1"), "Deployment", "web"), Spec: appsv1.ReplicaSetSpec{Template: template}})...),
	}
}

func (c *cluster) reader() *subjectReader {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}
	return &subjectReader{api: source.NewReader("https://example.com", c.core, c.dynamic, nil, output.NewProgress(env))}
}

// forbid makes the API server refuse a verb on a resource.
func (c *cluster) forbid(verb, resource string) {
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	}
	c.core.PrependReactor(verb, resource, refuse)
	c.dynamic.PrependReactor(verb, resource, refuse)
}

// calls returns all calls to the API server, as verb and resource.
func (c *cluster) calls() []string {
	var calls []string
	for _, action := range append(c.core.Actions(), c.dynamic.Actions()...) {
		calls = append(calls, action.GetVerb()+" "+action.GetResource().Resource)
	}
	return calls
}

func TestOnlyTheObjectsAroundThePodAreRead(t *testing.T) {
	c := newCluster()
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1-abc"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"get pods", "get nodes", "get namespaces", "get replicasets", "get deployments", "list evictionpolicies"}; !slices.Equal(c.calls(), want) {
		t.Errorf("the calls are %v, want %v", c.calls(), want)
	}
	if subject.Node == nil || subject.Node.Name != "n-1" || len(subject.Nodes) != 0 {
		t.Errorf("the node is %+v, want n-1 alone", subject.Node)
	}
	if subject.Owner == nil || subject.Owner.Kind != "Deployment" || subject.Owner.Name != "web" {
		t.Errorf("the owner is %+v, want Deployment web", subject.Owner)
	}
	if subject.Template == nil || len(subject.Template.Tolerations) != 1 || subject.Template.String() != "the template of ReplicaSet web-1, written by helm" {
		t.Errorf("the template is %+v, want that of web-1, written by helm", subject.Template)
	}
}

func TestPoliciesAreReadWhereThereAreSome(t *testing.T) {
	policies := source.EvictionPolicies
	stop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy",
		"metadata": map[string]any{"name": "stop"}, "spec": map[string]any{"action": "Hold", "paused": "a drill"},
	}}
	for name, test := range map[string]struct {
		objects []runtime.Object
		refuse  error
		budgets bool // whether they are read
		missing []string
	}{
		"one, which holds nothing because Taintkeeper is not there": {
			objects: []runtime.Object{stop}, budgets: true,
			missing: []string{"Taintkeeper is not running, or runs without leader election, so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force. Due pods leave only if the built-in controller evicts them."},
		},
		"none":        {},
		"no resource": {refuse: apierrors.NewNotFound(policies.GroupResource(), "")},
		"without leave": {
			refuse:  apierrors.NewForbidden(policies.GroupResource(), "", nil),
			missing: []string{"You may not list evictionpolicies, so EvictionPolicies are not taken into account."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(test.objects...)
			if test.refuse != nil {
				c.dynamic.PrependReactor("list", "evictionpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.refuse
				})
			}
			subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1-abc"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(c.calls(), "list poddisruptionbudgets"); got != test.budgets {
				t.Errorf("budgets are read: %v, want %v", got, test.budgets)
			}
			if got := subject.Policies != nil; got != (len(test.objects) > 0) {
				t.Errorf("the policies are %+v", subject.Policies)
			}
			if !slices.Equal(subject.Missing, test.missing) {
				t.Errorf("missing is %q, want %q", subject.Missing, test.missing)
			}
		})
	}
}

func TestAllNodesAreReadForAPodThatHasNone(t *testing.T) {
	c := newCluster()
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "unbound"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"get pods", "list nodes", "get namespaces"}; !slices.Equal(c.calls(), want) || len(subject.Nodes) != 2 {
		t.Errorf("the calls are %v and the nodes %d, want %v and 2", c.calls(), len(subject.Nodes), want)
	}
}

func TestANodeThatIsGoneDiffersFromOneThatMayNotBeRead(t *testing.T) {
	c := newCluster()
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "orphan"}, time.Now())
	if err != nil || !subject.NodeGone {
		t.Errorf("the node is gone: %t, %v", subject.NodeGone, err)
	}
	c.forbid("get", "nodes")
	subject, err = c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "orphan"}, time.Now())
	if err != nil || subject.NodeGone || !slices.Equal(subject.Missing, []string{"You may not get nodes, so the taints of the pod's node are not known."}) {
		t.Errorf("the node may not be read: %+v, %v", subject, err)
	}
}

func TestNotesSayWhatMayNotBeReadAndTheRestIsExplained(t *testing.T) {
	c := newCluster()
	c.forbid("get", "namespaces")
	c.forbid("get", "replicasets")
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1-abc"}, time.Now())
	want := []string{
		"You may not get namespaces, so default tolerations of the namespace are not known.",
		"You may not get replicasets, so the origin of tolerations is inferred from their form.",
	}
	if err != nil || !slices.Equal(subject.Missing, want) {
		t.Errorf("what is missing is %q, %v; want %q", subject.Missing, err, want)
	}
	if subject.Node == nil || subject.Template != nil {
		t.Errorf("the node is %v and the template %v", subject.Node, subject.Template)
	}
}

func TestAnUnknownPodIsNamedInTheError(t *testing.T) {
	c := newCluster()
	c.forbid("list", "pods")
	_, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1"}, time.Now())
	if err == nil || err.Error() != `there is no pod "web-1" in namespace shop` {
		t.Errorf("the error is %v", err)
	}
	c.forbid("get", "pods")
	_, err = c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1-abc"}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "ask for the right to get them") {
		t.Errorf("without the right to get pods the error is %v", err)
	}
}

func TestAnotherOwnerWithTheSameNameIsIgnored(t *testing.T) {
	c := newCluster()
	pod, err := c.core.CoreV1().Pods("shop").Get(t.Context(), "web-1-abc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.OwnerReferences[0].UID = "of one that is gone"
	if _, err := c.core.CoreV1().Pods("shop").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: "shop", name: "web-1-abc"}, time.Now())
	if err != nil || subject.Template != nil {
		t.Errorf("the template is %v, %v; want none", subject.Template, err)
	}
}

func TestThePodOfADeploymentThatLeavesFirstIsRead(t *testing.T) {
	c := newCluster()
	for name, node := range map[string]string{"web-1-aaa": "n-1", "web-1-zzz": "n-2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"pod-template-hash": "1"}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "web-1", Controller: new(true)}}
		if err := c.core.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-2"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}},
	}}
	if err := c.core.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, tainted, ""); err != nil {
		t.Fatal(err)
	}
	w := &wanted{kind: "Deployment", namespace: "shop", name: "web"}
	subject, err := c.reader().read(t.Context(), w, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if subject.Pod.Name != "web-1-zzz" {
		t.Errorf("the pod is %s, want the one that must leave, web-1-zzz", subject.Pod.Name)
	}
	if want := []string{"Deployment shop/web has 2 pods, and this one leaves first. The other: web-1-aaa."}; !slices.Equal(w.notes, want) {
		t.Errorf("the notes are %q, want %q", w.notes, want)
	}
}

func TestAPodIsLookedForInAllNamespacesByItsNameAlone(t *testing.T) {
	c := newCluster()
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, name: "orphan"}, time.Now())
	if err != nil || subject.Pod.Namespace != "shop" {
		t.Fatalf("the pod is %v, error %v", subject.Pod, err)
	}
	if list := c.core.Actions()[0].(clienttesting.ListAction); list.GetListRestrictions().Fields.String() != "metadata.name=orphan" {
		t.Errorf("the pods are listed by %q", list.GetListRestrictions().Fields)
	}
}
