// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/controller/rules"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// ruleCluster is a cluster of its own for rules, since what follows them looks at every node.
type ruleCluster struct {
	*localcluster.Cluster

	admin   client.Client
	clients kubernetes.Interface
}

func newRuleCluster(t *testing.T) *ruleCluster {
	t.Helper()
	own, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Config{
		Without:       []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		Audit:         auditlog.Changes,
		APIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
	})
	await.Must(t, err)
	t.Cleanup(func() {
		await.Must(t, note(auditlog.New(own.AuditLog(), auditlog.By(user))))
		await.Must(t, own.Stop())
	})
	await.Must(t, own.GrantTaintkeeper(t.Context()))
	c := &ruleCluster{Cluster: own}
	c.admin, err = own.Client()
	await.Must(t, err)
	c.clients, err = kubernetes.NewForConfig(own.AdminConfig())
	await.Must(t, err)
	return c
}

// installLenient installs the resource without what refuses a rule, and waits until it is served.
func (c *ruleCluster) installLenient(t *testing.T) {
	t.Helper()
	lenient := crd(t)
	relax(lenient.Spec.Versions[0].Schema.OpenAPIV3Schema)
	await.Must(t, c.admin.Create(t.Context(), lenient))
	await.Eventually(t, "the resource is served", func(ctx context.Context) error {
		return c.admin.List(ctx, &v1alpha1.NodeTaintRuleList{})
	})
}

// install replaces the lenient resource with the real one, and waits until it refuses what it should.
func (c *ruleCluster) install(t *testing.T) {
	t.Helper()
	next := crd(t)
	await.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var known apiextensionsv1.CustomResourceDefinition
		if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(next), &known); err != nil {
			return err
		}
		known.Spec = next.Spec
		return c.admin.Update(t.Context(), &known)
	}))
	await.Eventually(t, "the resource refuses rules", func(ctx context.Context) error {
		err := c.admin.Create(ctx, rule("refused", with("Maybe", "condition", "status")), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("one that is wrong is answered by %w", err)
		}
		return nil
	})
}

func crd(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	objects, err := config.Objects(config.CRD)
	await.Must(t, err)
	return objects[0].(*apiextensionsv1.CustomResourceDefinition)
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

// keep runs node health and the rules as the user that config/rbac.yaml makes, until it is stopped or the test ends. It
// never finds a node silent.
func (c *ruleCluster) keep(t *testing.T) (stop func()) {
	t.Helper()
	access, err := c.TaintkeeperAccess()
	await.Must(t, err)
	clock := &timeline.Clock{}
	access = clock.Listen(access)
	clients, err := kubernetes.NewForConfig(access)
	await.Must(t, err)
	known, err := v1alpha1.NewScheme()
	await.Must(t, err)
	custom, err := client.NewWithWatch(access, client.Options{Scheme: known})
	await.Must(t, err)
	caches := caches.New(clients, clock, false)
	keeper, err := nodehealth.New(nodehealth.Config{
		Client: clients, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock,
		Grace: readiness.Grace{Monitor: time.Hour, Startup: time.Hour},
	})
	await.Must(t, err)
	follower, err := rules.New(rules.Config{Client: clients, Rules: custom, Nodes: caches.Nodes, Clock: clock})
	await.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return caches.With(keeper.Run)(ctx) })
	running.Go(func() error { return follower.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		await.Must(t, running.Wait())
	})
	t.Cleanup(stop)
	await.Eventually(t, "the keeper knows the nodes", func(context.Context) error {
		if !keeper.HasSynced() {
			return errors.New("its lists are not complete")
		}
		return nil
	})
	return stop
}

// deadlocked makes a node that says since when it has had the condition KernelDeadlock.
func (c *ruleCluster) deadlocked(t *testing.T, name string, since time.Time) {
	t.Helper()
	node, err := c.clients.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	await.Must(t, err)
	node.ResourceVersion = "" // others may have changed the node meanwhile
	node.Status.Conditions = []corev1.NodeCondition{{Type: "KernelDeadlock", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
	_, err = c.clients.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	await.Must(t, err)
}

// tainted waits until exactly these nodes have the rule's taint.
func (c *ruleCluster) tainted(t *testing.T, want ...string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("the nodes %q have the taint", want), func(ctx context.Context) error {
		nodes, err := c.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, node := range nodes.Items {
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" }) {
				got = append(got, node.Name)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("these have it: %q", got)
		}
		return nil
	})
}

// rule is a rule as a user writes it.
func rule(name string, change ...func(spec map[string]any)) *unstructured.Unstructured {
	spec := map[string]any{
		"condition": map[string]any{"type": "KernelDeadlock", "status": "True"},
		"taint":     map[string]any{"key": "example.com/deadlock", "effect": "NoSchedule"},
	}
	for _, apply := range change {
		apply(spec)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeTaintRule"))
	object.SetName(name)
	return object
}

// reasons returns the given number of reasons of a condition.
func reasons(count int) (all []any) {
	for i := range count {
		all = append(all, fmt.Sprint("Reason", i))
	}
	return all
}

func with(value any, path ...string) func(map[string]any) {
	return func(spec map[string]any) {
		if err := unstructured.SetNestedField(spec, value, path...); err != nil {
			panic(err) // the test is wrong
		}
	}
}

// about makes a rule be about a condition.
func about(kind, status string) func(map[string]any) {
	return with(map[string]any{"type": kind, "status": status}, "condition")
}

// requires gives a rule a selector with requirements on labels.
func requires(requirements ...any) func(map[string]any) {
	return with(requirements, "nodeSelector", "matchExpressions")
}

func TestRulesOnARealAPIServer(t *testing.T) {
	t.Parallel()
	c := newRuleCluster(t)
	stop := c.keep(t) // it waits for the resource, and notices that it is there
	c.addOldRules(t)
	t.Run("what got in before is told what is wrong with it", func(t *testing.T) { c.testOldRules(t) })
	t.Run("what cannot be meant is refused", func(t *testing.T) { c.testRefusals(t) })
	t.Run("a rule taints and is shown", func(t *testing.T) { c.testLife(t) })
	t.Run("a kubelet cannot say whose a taint is", func(t *testing.T) { c.testKubelet(t) })
	stop()
	c.keep(t)
	t.Run("a restart changes nothing", func(t *testing.T) { c.testRestart(t) })
	t.Run("a rule that is deleted takes its taints with it", func(t *testing.T) { c.testEnd(t) })
}

// oldRules have been refused since a newer version of the resource.
var oldRules = map[string]struct {
	edit func(map[string]any)
	says string
}{
	"ready":     {with("Ready", "condition", "type"), "use the taints node.kubernetes.io/not-ready"},
	"unknown":   {about("DiskPressure", "Unknown"), "use the status True"},
	"unbounded": {with("NoExecute", "taint", "effect"), "needs maxTainted"},
	"selector":  {requires(map[string]any{"key": "pool", "operator": "in", "values": []any{"batch"}}), `"in" is not a valid label selector operator`},
}

// addOldRules creates them in the lenient resource, and installs the newer version.
func (c *ruleCluster) addOldRules(t *testing.T) {
	t.Helper()
	c.installLenient(t)
	for name, old := range oldRules {
		object := rule(name, old.edit, with("example.com/"+name, "taint", "key"))
		object.SetFinalizers([]string{v1alpha1.Finalizer}) // it has tainted nodes
		await.Must(t, c.admin.Create(t.Context(), object))
	}
	c.install(t)
}

func (c *ruleCluster) testOldRules(t *testing.T) {
	for name, old := range oldRules {
		await.Eventually(t, "rule "+name+" says what is wrong with it", func(ctx context.Context) error {
			var read v1alpha1.NodeTaintRule
			if err := c.admin.Get(ctx, client.ObjectKey{Name: name}, &read); err != nil {
				return err
			}
			accepted := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionAccepted)
			if accepted == nil || accepted.Reason != v1alpha1.ReasonInvalid || !strings.Contains(accepted.Message, old.says) {
				return fmt.Errorf("it says %v", accepted)
			}
			return nil
		})
	}
	for name := range oldRules {
		await.Must(t, c.admin.Delete(t.Context(), rule(name)))
		c.gone(t, name)
	}
}

// gone waits until a rule is gone.
func (c *ruleCluster) gone(t *testing.T, name string) {
	t.Helper()
	await.Eventually(t, "the deleted rule "+name+" is gone", func(ctx context.Context) error {
		err := c.admin.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.NodeTaintRule{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, or %w", err)
	})
}

func (c *ruleCluster) testRefusals(t *testing.T) {
	refusals := []struct {
		name string
		edit func(map[string]any)
		says string
	}{
		{"a key of Kubernetes", with("node.kubernetes.io/not-ready", "taint", "key"), "belong to Kubernetes itself"},
		{"a key of a cloud provider", with("node.cloudprovider.kubernetes.io/shutdown", "taint", "key"), "belong to Kubernetes itself"},
		{"a key of kubernetes.io itself", with("kubernetes.io/x", "taint", "key"), "belong to Kubernetes itself"},
		{"a key of k8s.io", with("readiness.k8s.io/x", "taint", "key"), "belong to Kubernetes itself"},
		{"a key that is not a label key", with("Example.com/x", "taint", "key"), "spec.taint.key"},
		{"a key with too long a name", with("example.com/"+strings.Repeat("x", 64), "taint", "key"), "at most 63"},
		{"no key", with("", "taint", "key"), "spec.taint.key"},
		{"a value that is not a label value", with("a b", "taint", "value"), "spec.taint.value"},
		{"an invalid effect", with("NoEvict", "taint", "effect"), "NoEvict"},
		{"a negative duration", with("-5s", "after"), "spec.after"},
		{"a duration without a unit", with("5", "clearAfter"), "spec.clearAfter"},
		{"an invalid status", with("true", "condition", "status"), "spec.condition.status"},
		{"an empty reason", with([]any{"DockerHung", ""}, "condition", "reasons"), "write a reason exactly as in the condition"},
		{"a reason with a space after it", with([]any{"DockerHung "}, "condition", "reasons"), "write a reason exactly as in the condition"},
		{"a reason twice", with([]any{"DockerHung", "DockerHung"}, "condition", "reasons"), "Duplicate value"},
		{"too long a reason", with([]any{strings.Repeat("x", 1025)}, "condition", "reasons"), "1024"},
		{"too many reasons", with(reasons(33), "condition", "reasons"), "at most 32"},
		{"no type of condition", with("", "condition", "type"), "spec.condition.type"},
		{"more than all nodes", with("101%", "maxTainted"), "percentage"},
		{"a number as text", with("5", "maxTainted"), "percentage"},
		{"a negative number of nodes", with(int64(-1), "maxTainted"), "percentage"},
		{"more nodes than can be counted", with(int64(1)<<40, "maxTainted"), "percentage"},
		{"a rule about Ready False", about("Ready", "False"), "use the taints node.kubernetes.io/not-ready and node.kubernetes.io/unreachable, which node health sets"},
		{"a rule about Ready Unknown", about("Ready", "Unknown"), "a rule about Ready would taint nodes without regard to the state of their zones"},
		{"a rule about Ready True", about("Ready", "True"), "a rule about Ready would taint nodes without regard to the state of their zones"},
		{"a rule about MemoryPressure Unknown", about("MemoryPressure", "Unknown"), "become Unknown on all nodes at once when the control plane is disrupted: use the status True"},
		{"a rule about DiskPressure Unknown", about("DiskPressure", "Unknown"), "become Unknown on all nodes at once when the control plane is disrupted: use the status True"},
		{"a rule about PIDPressure Unknown", about("PIDPressure", "Unknown"), "become Unknown on all nodes at once when the control plane is disrupted: use the status True"},
		{"NoExecute without a bound", with("NoExecute", "taint", "effect"), "set it to the maximum number of nodes that may have the taint at once"},
		{"an operator in small letters", requires(map[string]any{"key": "pool", "operator": "in", "values": []any{"batch"}}), `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		{"an operator of node affinity", requires(map[string]any{"key": "pool", "operator": "Gt", "values": []any{"1"}}), `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		{"no operator", requires(map[string]any{"key": "pool"}), "operator: Required value"},
		{"In without values", requires(map[string]any{"key": "pool", "operator": "In"}), "In and NotIn need values"},
		{"NotIn without values", requires(map[string]any{"key": "pool", "operator": "NotIn", "values": []any{}}), "In and NotIn need values"},
		{"Exists with a value", requires(map[string]any{"key": "pool", "operator": "Exists", "values": []any{"batch"}}), "Exists and DoesNotExist take none"},
		{"DoesNotExist with a value", requires(map[string]any{"key": "pool", "operator": "DoesNotExist", "values": []any{"batch"}}), "Exists and DoesNotExist take none"},
		{"a required label with an invalid key", requires(map[string]any{"key": "node pool", "operator": "Exists"}), "matchExpressions[0].key"},
		{"a required label without a key", requires(map[string]any{"key": "", "operator": "Exists"}), "matchExpressions[0].key"},
		{"a required label with too long a name", requires(map[string]any{"key": "example.com/" + strings.Repeat("x", 64), "operator": "Exists"}), "at most 63"},
		{"a required label with an invalid value", requires(map[string]any{"key": "pool", "operator": "In", "values": []any{"a b"}}), "matchExpressions[0].values[0]"},
		{"a label with an invalid key", with(map[string]any{"node pool": "x"}, "nodeSelector", "matchLabels"), "a key is not a valid label key"},
		{"a label with two slashes in its key", with(map[string]any{"a/b/c": "x"}, "nodeSelector", "matchLabels"), "a key is not a valid label key"},
		{"a label with too long a name", with(map[string]any{"example.com/" + strings.Repeat("x", 64): "x"}, "nodeSelector", "matchLabels"), "a key is not a valid label key"},
		{"a label with an invalid value", with(map[string]any{"pool": "a b"}, "nodeSelector", "matchLabels"), "matchLabels.pool"},
		{"a label with too long a value", with(map[string]any{"pool": strings.Repeat("x", 64)}, "nodeSelector", "matchLabels"), "matchLabels.pool"},
	}
	for _, refusal := range refusals {
		t.Run(refusal.name, func(t *testing.T) {
			err := c.admin.Create(t.Context(), rule("refused", refusal.edit))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), refusal.says) {
				t.Errorf("it is answered with %v, want a refusal that says %q", err, refusal.says)
			}
		})
	}
	if err := c.admin.Create(t.Context(), rule(strings.Repeat("x", v1alpha1.LongestName+1))); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a shorter name") {
		t.Errorf("a rule with too long a name is answered with %v", err)
	}
	accepted := map[string][]func(map[string]any){
		"all":            {with("1h30m", "after"), with("500ms", "clearAfter"), with("10%", "maxTainted"), with("a.b_c-1", "taint", "value"), with(true, "dryRun")},
		"reasons":        {with(reasons(32), "condition", "reasons")},
		"zero":           {with(int64(0), "maxTainted"), with("0s", "after"), with("plain", "taint", "key")},
		"alike":          {with("kubernetes.io.example.com/x", "taint", "key"), with("100%", "maxTainted")},
		"bounded":        {with("NoExecute", "taint", "effect"), with(int64(3), "maxTainted")},
		"stopped":        {with("NoExecute", "taint", "effect"), with(int64(0), "maxTainted")},
		"pressure":       {about("MemoryPressure", "True")},
		"no-pressure":    {about("DiskPressure", "False")},
		"network":        {about("NetworkUnavailable", "Unknown")},
		"other-unknown":  {about("KernelDeadlock", "Unknown")},
		"other-ready":    {about("RuntimeReady", "False")},
		"empty-selector": {with(map[string]any{}, "nodeSelector")},
		"labels":         {with(map[string]any{"pool": "batch", "topology.kubernetes.io/zone": "a", "empty": ""}, "nodeSelector", "matchLabels")},
		"operators": {requires(
			map[string]any{"key": "pool", "operator": "In", "values": []any{"batch", ""}}, map[string]any{"key": "example.com/x.y_z", "operator": "NotIn", "values": []any{"A-1"}},
			map[string]any{"key": "a", "operator": "Exists"}, map[string]any{"key": "b", "operator": "DoesNotExist", "values": []any{}},
		)},
	}
	for name, edits := range accepted {
		await.Must(t, c.admin.Create(t.Context(), rule(name, edits...)))
	}
	var read v1alpha1.NodeTaintRuleList
	await.Must(t, c.admin.List(t.Context(), &read))
	if len(read.Items) != len(accepted) {
		t.Errorf("%d rules can be read, want %d", len(read.Items), len(accepted))
	}
	changed := rule("all", append(accepted["all"], with("other", "taint", "value"))...)
	if err := c.admin.Patch(t.Context(), changed, client.Merge); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("another taint is answered with %v, want a refusal", err)
	}
	await.Must(t, c.admin.DeleteAllOf(t.Context(), &v1alpha1.NodeTaintRule{}))
	for name := range accepted {
		c.gone(t, name)
	}
}

func (c *ruleCluster) testLife(t *testing.T) {
	now := time.Now()
	for i, name := range []string{"node-c", "node-a", "node-b"} {
		c.deadlocked(t, name, now.Add(time.Duration(i-60)*time.Second))
	}
	await.Must(t, c.admin.Create(t.Context(), rule("deadlock", with(int64(2), "maxTainted"))))
	await.Must(t, c.admin.Create(t.Context(), rule("late", with("late", "taint", "value"))))
	c.tainted(t, "node-a", "node-c")
	await.Eventually(t, "the columns of the rules are right", func(ctx context.Context) error {
		return c.checkColumns(ctx)
	})
	await.Eventually(t, "an event says that a node waits", func(ctx context.Context) error {
		events, err := c.clients.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=NodeTaintRule,reason=TaintHeld"})
		if err != nil {
			return err
		}
		if len(events.Items) != 1 || events.Items[0].Type != corev1.EventTypeWarning || !strings.Contains(events.Items[0].Message, "1 node waits") {
			return fmt.Errorf("the events are %v", events.Items)
		}
		return nil
	})
}

// testKubelet tries what a kubelet could do about the taints of its own node. node-c has the rule's.
func (c *ruleCluster) testKubelet(t *testing.T) {
	config := rest.CopyConfig(c.AdminConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:node-c", Groups: []string{"system:nodes", "system:masters"}} // what RBAC lets it do is not the question
	kubelet, err := kubernetes.NewForConfig(config)
	await.Must(t, err)
	label := v1alpha1.TaintedLabelPrefix + "deadlock"
	node, err := c.clients.CoreV1().Nodes().Get(t.Context(), "node-c", metav1.GetOptions{})
	await.Must(t, err)
	if node.Labels[label] == "" {
		t.Fatalf("node-c has no label %s: %v", label, node.Labels)
	}
	for what, patch := range map[string]string{
		"its taints":       `{"spec":{"taints":null}}`,
		"the rule's label": `{"metadata":{"labels":{"` + label + `":null}}}`,
		"its value":        `{"metadata":{"labels":{"` + label + `":"other"}}}`,
		"another such one": `{"metadata":{"labels":{"` + v1alpha1.TaintedLabelPrefix + `late":"` + node.Labels[label] + `"}}}`,
	} {
		for _, subresource := range [][]string{nil, {"status"}} {
			_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), "node-c", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
			if what == "its taints" && subresource != nil && err == nil {
				continue // the API server leaves them as they are
			}
			if !apierrors.IsForbidden(err) {
				t.Errorf("a kubelet may change %s of its node (%s): %v", what, subresource, err)
			}
		}
	}
	if _, err := kubelet.CoreV1().Nodes().Patch(t.Context(), "node-c", types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a kubelet may not annotate its node: %v", err) // then the above would say nothing
	}
	c.tainted(t, "node-a", "node-c")
}

// testRestart adds a node after a restart: what the next plan says about all nodes follows from what is written on the
// nodes. The nodes come in a first list that is streamed, which client-go's fake clientset cannot do.
func (c *ruleCluster) testRestart(t *testing.T) {
	c.deadlocked(t, "node-d", time.Now())
	await.Eventually(t, "the rule counts the new node, and goes on holding", func(ctx context.Context) error {
		var read v1alpha1.NodeTaintRule
		if err := c.admin.Get(ctx, client.ObjectKey{Name: "deadlock"}, &read); err != nil {
			return err
		}
		if got := read.Status; got.Matching != 4 || got.Tainted != 2 || got.Held != 2 {
			return fmt.Errorf("of %d that match %d are tainted and %d held", got.Matching, got.Tainted, got.Held)
		}
		return nil
	})
	c.tainted(t, "node-a", "node-c")
}

func (c *ruleCluster) testEnd(t *testing.T) {
	await.Must(t, c.admin.Delete(t.Context(), rule("late")))
	await.Must(t, c.admin.Delete(t.Context(), rule("deadlock")))
	c.gone(t, "deadlock")
	c.tainted(t)
}

// checkColumns checks what kubectl get would show.
func (c *ruleCluster) checkColumns(ctx context.Context) error {
	configuration := rest.CopyConfig(c.AdminConfig())
	configuration.APIPath, configuration.GroupVersion = "/apis", &v1alpha1.GroupVersion
	configuration.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	getter, err := rest.RESTClientFor(configuration)
	if err != nil {
		return err
	}
	var table metav1.Table
	raw, err := getter.Get().Resource("nodetaintrules").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return err
	}
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
