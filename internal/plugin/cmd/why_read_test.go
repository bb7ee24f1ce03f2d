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
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
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

func (c *cluster) reader() subjectReader {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}
	return subjectReader{source.NewReader("https://example.com", c.core, c.dynamic, nil, show.NewProgress(env))}
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

// whyStory is a read of one pod, given as namespace/name.
type whyStory struct {
	pod      string
	before   func(*cluster)
	policies []runtime.Object
	calls    string // if not empty, all of them
	missing  []string
	err      string
	is       func(*explain.Subject) bool
}

func (story *whyStory) play(t *testing.T, now time.Time) {
	t.Helper()
	c := newCluster(story.policies...)
	if story.before != nil {
		story.before(c)
		c.core.ClearActions()
	}
	namespace, pod, _ := strings.Cut(story.pod, "/")
	subject, err := c.reader().read(t.Context(), &wanted{kind: kindPod, namespace: namespace, name: pod}, now)
	if story.err != "" {
		if err == nil || !strings.Contains(err.Error(), story.err) {
			t.Errorf("the error is %v, want %s", err, story.err)
		}
		return
	}
	await.Must(t, err)
	if !slices.Equal(subject.Missing, story.missing) || !story.is(&subject) {
		t.Errorf("it reads %+v; missing is %q, want %q", subject, subject.Missing, story.missing)
	}
	if got := strings.Join(c.calls(), ", "); story.calls != "" && got != story.calls {
		t.Errorf("the calls are %s, want %s", got, story.calls)
	}
	if budgets := slices.Contains(c.calls(), "list poddisruptionbudgets"); budgets != (story.policies != nil) {
		t.Errorf("budgets are read: %t, want them only with a policy", budgets)
	}
}

// readAround reports whether the node of web-1-abc and its owners were read.
func readAround(s *explain.Subject) bool {
	return s.Node.Name == "n-1" && len(s.Nodes) == 0 && s.Owner.Kind == "Deployment" && s.Owner.Name == "web" && s.Policies == nil &&
		len(s.Template.Tolerations) == 1 && s.Template.String() == "the template of ReplicaSet web-1, written by helm"
}

func TestWhyReadsWhatIsAroundAPodAndSaysWhatIsMissing(t *testing.T) {
	policies, now := source.EvictionPolicies, time.Now()
	stop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy",
		"metadata": map[string]any{"name": "stop"}, "spec": map[string]any{"action": "Hold", "paused": "a drill"},
	}}
	refusing := func(err error) func(*cluster) {
		return func(c *cluster) {
			c.dynamic.PrependReactor("list", "evictionpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
	}
	forbidding := func(rights ...string) func(*cluster) {
		return func(c *cluster) {
			for _, right := range rights {
				verb, resource, _ := strings.Cut(right, " ")
				c.forbid(verb, resource)
			}
		}
	}
	for name, story := range map[string]whyStory{
		"the node of a pod and its owners": {
			pod: "shop/web-1-abc", calls: "get pods, get nodes, get namespaces, get replicasets, get deployments, list evictionpolicies",
			is: readAround,
		},
		"all nodes for a pod that has none": {
			pod: "shop/unbound", calls: "get pods, list nodes, get namespaces",
			is: func(s *explain.Subject) bool { return len(s.Nodes) == 2 },
		},
		"a node that is gone": {pod: "shop/orphan", is: func(s *explain.Subject) bool { return s.NodeGone }},
		"a node that must not be read is not gone": {
			pod: "shop/orphan", before: forbidding("get nodes"), is: func(s *explain.Subject) bool { return !s.NodeGone },
			missing: []string{"You may not get nodes, so the taints of the pod's node are not known."},
		},
		"a pod of any namespace, which is looked for by its name": {
			pod: "/orphan", is: func(s *explain.Subject) bool { return s.Pod.Namespace == "shop" },
		},
		"without rights, the rest": {
			pod: "shop/web-1-abc", before: forbidding("get namespaces", "get replicasets"),
			is: func(s *explain.Subject) bool { return s.Node != nil && s.Template == nil },
			missing: []string{
				"You may not get namespaces, so default tolerations of the namespace are not known.",
				"You may not get replicasets, so the origin of tolerations is inferred from their form.",
			},
		},
		"no owner that has the name of one that is gone": {
			pod: "shop/web-1-abc", is: func(s *explain.Subject) bool { return s.Template == nil },
			before: func(c *cluster) {
				pod, err := c.core.CoreV1().Pods("shop").Get(t.Context(), "web-1-abc", metav1.GetOptions{})
				await.Must(t, err)
				pod.OwnerReferences[0].UID = "of one that is gone"
				await.Must(t, c.core.Tracker().Update(podsResource, pod, "shop"))
			},
		},
		"a policy, which holds nothing because Taintkeeper is not there": {
			pod: "shop/web-1-abc", policies: []runtime.Object{stop}, is: func(s *explain.Subject) bool { return s.Policies != nil },
			missing: []string{"Taintkeeper is not running, or runs without leader election, so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force. Due pods leave only if the built-in controller evicts them."},
		},
		"no policies where they are not installed": {
			pod: "shop/web-1-abc", before: refusing(apierrors.NewNotFound(policies.GroupResource(), "")),
			is: func(s *explain.Subject) bool { return s.Policies == nil },
		},
		"no policies that must not be read": {
			pod: "shop/web-1-abc", before: refusing(apierrors.NewForbidden(policies.GroupResource(), "", nil)),
			is:      func(s *explain.Subject) bool { return s.Policies == nil },
			missing: []string{"You may not list evictionpolicies, so EvictionPolicies are not taken into account."},
		},
		"no pod that does not exist": {pod: "shop/web-1", before: forbidding("list pods"), err: `there is no pod "web-1" in namespace shop`},
		"no pod that must not be read": {
			pod: "shop/web-1-abc", before: forbidding("list pods", "get pods"), err: "ask for permission to get them",
		},
	} {
		t.Run(name, func(t *testing.T) { story.play(t, now) })
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
