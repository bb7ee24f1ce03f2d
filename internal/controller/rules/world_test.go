// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakerules "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

const (
	deadlock     = corev1.NodeConditionType("KernelDeadlock")
	deadlocked   = "example.com/deadlock:NoSchedule"
	planningTime = togetherWithin + time.Millisecond
)

// world is a cluster with our whole Controller at work in it.
type world struct {
	*bubble.World

	wrote func(ctx context.Context) error // is told of a patch of a node that was done, and says what its caller hears

	rules   client.WithWatch
	writes  atomic.Int32 // of rules
	listed  atomic.Int32 // how often live lists of a rule's nodes were asked for
	missing atomic.Bool  // the resource is not installed
	secret  atomic.Bool  // no rule may be read

	listing     func()       // is called before such a list is answered
	unlistable  atomic.Bool  // no such list is answered for now
	unwritable  atomic.Bool  // no rule can be changed for now
	statusTakes atomic.Int64 // how long writes of statuses take
}

func TestMain(m *testing.M) { bubble.Main(m) }

var (
	errForbidden = apierrors.NewForbidden(corev1.Resource("nodes"), "x", errors.New("a webhook says no"))
	errNotNow    = apierrors.NewInternalError(errors.New("etcdserver: no leader"))
)

// playStories plays each story in a world of its own.
func playStories(t *testing.T, stories map[string]func(w *world)) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) { play(t, func(_ *testing.T, w *world) { story(w) }) })
	}
}

func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Play(t, bubble.DescribeWrites, func(in *bubble.World) {
		w := &world{World: in}
		w.makeRules()
		test(w.T, w)
	})
}

// plainLister tells client-go that the fake client cannot send a list through a watch.
type plainLister struct{ client.WithWatch }

func (plainLister) IsWatchListSemanticsUnSupported() bool { return true }

// makeRules makes the client of the rules.
func (w *world) makeRules() {
	scheme, err := v1alpha1.NewScheme()
	w.Must(nil, err)
	var begun watch.Interface // with a list, so that nothing is lost before the watch
	w.rules = plainLister{fakerules.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeTaintRule{}).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if nodes, ok := list.(*metav1.PartialObjectMetadataList); ok {
				return w.listNodes(ctx, nodes, options)
			}
			if w.secret.Load() {
				return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("nodetaintrules").GroupResource(), "", errors.New("no right"))
			}
			if w.missing.Load() {
				return &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("NodeTaintRule").GroupKind()}
			}
			if isReflectors(options) {
				var err error
				if begun, err = c.Watch(ctx, list, options...); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if stream := begun; stream != nil {
				begun = nil
				return stream, nil
			}
			return c.Watch(ctx, list, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if w.unwritable.Load() {
				return errNotNow
			}
			w.writes.Add(1)
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if w.unwritable.Load() {
				return errNotNow
			}
			w.writes.Add(1)
			w.InCall(time.Duration(w.statusTakes.Load()))
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}).Build()}
}

// listNodes answers a list of the metadata of nodes.
func (w *world) listNodes(ctx context.Context, list *metav1.PartialObjectMetadataList, options []client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	w.listed.Add(1)
	if w.listing != nil {
		w.listing()
	}
	if w.unlistable.Load() {
		return errNotNow
	}
	nodes, err := w.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: asked.LabelSelector.String()})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: nodes.Items[i].ObjectMeta})
	}
	return nil
}

// isReflectors reports whether a list is a reflector's, which says how old it may be.
func isReflectors(options []client.ListOption) bool {
	var all client.ListOptions
	all.ApplyOptions(options)
	return all.Raw != nil && all.Raw.ResourceVersion != ""
}

// run starts a Controller.
func (w *world) run(change ...func(*Config)) {
	w.T.Helper()
	controller, caches := w.controller(change...)
	w.Run("the Controller", caches.With(controller.Run))
	w.Pass(planningTime)
}

// controller returns a Controller with metrics of its own, and the caches that run with it.
func (w *world) controller(change ...func(*Config)) (*Controller, caches.Caches) {
	w.T.Helper()
	w.Registry = prometheus.NewRegistry()
	caches := caches.New(w.Client, &timeline.Clock{}, false)
	config := Config{
		Client: &bubble.Slow{Clientset: w.Client, After: w.answered}, EventClient: w.Client, Rules: w.rules,
		Nodes: caches.Nodes, Clock: w.Clock, Registerer: w.Registry,
	}
	for _, apply := range change {
		apply(&config)
	}
	controller, err := New(config)
	w.Must(nil, err)
	return controller, caches
}

// standBy starts a Controller in a replica that is not the leader. The returned function makes it the leader.
func (w *world) standBy() (lead func()) {
	w.T.Helper()
	controller, caches := w.controller()
	standby := &bubble.Replica{}
	w.Must(nil, caches.AddTo(standby))
	w.Must(nil, controller.AddTo(standby))
	return standby.StandsBy(w.T)
}

// answered tells the world of a patch of a node that was done.
func (w *world) answered(ctx context.Context, r bubble.Request) error {
	if w.wrote == nil || r.Verb != "patch" || r.Resource != "nodes" {
		return nil
	}
	return w.wrote(ctx)
}

// addZone creates the given number of ready nodes in a zone, named after it.
func (w *world) addZone(zone string, nodes int) []string {
	w.T.Helper()
	return w.AddZone(zone, nodes, func(name, zone string) { w.AddNode(name, zone) })
}

// onPatch makes the API server answer patches of nodes with an error for as long as the function returns one.
func (w *world) onPatch(answer func() error) { w.On("patch", "nodes", "", answer) }

// wantMetric wants a number of nodes in a state of rule deadlock.
func (w *world) wantMetric(state string, want float64) {
	w.T.Helper()
	w.WantMetric("taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": state}, want)
}

// refusesTaint makes a webhook refuse a taint of node a-0, and returns how often it did.
func (w *world) refusesTaint(key string) *atomic.Int32 {
	var count atomic.Int32
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		if patch.Name != "a-0" || patch.GetSubresource() != "" || !strings.Contains(string(patch.Patch), fmt.Sprintf("%q:%q", "key", key)) {
			return false, nil, nil
		}
		count.Add(1)
		return true, nil, errForbidden
	})
	return &count
}

// addRule creates a rule for KernelDeadlock True.
func (w *world) addRule(name string, change ...func(*v1alpha1.NodeTaintRule)) {
	w.T.Helper()
	rule := &v1alpha1.NodeTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("uid-of-", name, time.Now().UnixNano())), CreationTimestamp: metav1.Now(), Generation: 1},
		Spec: v1alpha1.NodeTaintRuleSpec{
			Condition: v1alpha1.NodeTaintRuleCondition{Type: deadlock, Status: corev1.ConditionTrue},
			Taint:     v1alpha1.NodeTaintRuleTaint{Key: "example.com/deadlock", Effect: corev1.TaintEffectNoSchedule},
		},
	}
	for _, apply := range change {
		apply(rule)
	}
	w.Must(nil, w.rules.Create(w.T.Context(), rule))
	w.waitForPlans()
}

// waitForPlans lets as much time pass as it takes to plan and write a change.
func (w *world) waitForPlans() {
	for range 3 {
		w.Pass(planningTime)
	}
}

func (w *world) rule(name string) *v1alpha1.NodeTaintRule {
	w.T.Helper()
	rule := &v1alpha1.NodeTaintRule{}
	w.Must(nil, w.rules.Get(w.T.Context(), client.ObjectKey{Name: name}, rule))
	return rule
}

func (w *world) changeRule(change func(*v1alpha1.NodeTaintRule)) {
	w.T.Helper()
	rule := w.rule("deadlock")
	change(rule)
	rule.Generation++
	w.Must(nil, w.rules.Update(w.T.Context(), rule))
	w.waitForPlans()
}

func (w *world) deleteRule(name string) {
	w.T.Helper()
	w.Must(nil, w.rules.Delete(w.T.Context(), w.rule(name)))
	w.waitForPlans()
}

func (w *world) isGone(name string) bool {
	return apierrors.IsNotFound(w.rules.Get(w.T.Context(), client.ObjectKey{Name: name}, &v1alpha1.NodeTaintRule{}))
}

func (w *world) wantGone(name string) {
	w.T.Helper()
	if !w.isGone(name) {
		w.T.Errorf("after %s the deleted rule %s is still there", w.Now(), name)
	}
}

// wantOnce wants one call whose description begins with some words.
func (w *world) wantOnce(words string) {
	w.T.Helper()
	if at := w.Did(words); len(at) != 1 {
		w.T.Errorf("%q at %v, want once", words, at)
	}
}

// eachNode calls a function with each change of a node from now on.
func (w *world) eachNode(seen func(watch.Event, *corev1.Node)) {
	w.T.Helper()
	stream, err := w.Client.CoreV1().Nodes().Watch(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	w.T.Cleanup(stream.Stop)
	go func() {
		for event := range stream.ResultChan() {
			seen(event, event.Object.(*corev1.Node))
		}
	}()
}

// mostDeadlocked counts how many nodes have the taint at once from now on, and returns the most so far.
func (w *world) mostDeadlocked() func() int32 {
	w.T.Helper()
	tainted := map[string]bool{}
	for _, name := range w.deadlocked() {
		tainted[name] = true
	}
	var most atomic.Int32
	w.eachNode(func(event watch.Event, node *corev1.Node) {
		delete(tainted, node.Name)
		if event.Type != watch.Deleted && isDeadlocked(node) {
			tainted[node.Name] = true
		}
		most.Store(max(most.Load(), int32(len(tainted))))
	})
	return most.Load
}

func isDeadlocked(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" })
}

// locks makes nodes report KernelDeadlock True, unlocks False.
func (w *world) locks(names ...string) {
	w.T.Helper()
	for _, name := range names {
		w.Report(name, deadlock, corev1.ConditionTrue)
	}
}

func (w *world) unlocks(names ...string) {
	w.T.Helper()
	for _, name := range names {
		w.Report(name, deadlock, corev1.ConditionFalse)
	}
}

// deadlocked returns which nodes have a taint of the rules here, also while no client can list nodes.
func (w *world) deadlocked() (names []string) {
	w.T.Helper()
	nodes, err := w.API.List(corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), "")
	w.Must(nil, err)
	for _, node := range nodes.(*corev1.NodeList).Items {
		if isDeadlocked(&node) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) wantDeadlocked(want ...string) {
	w.T.Helper()
	if got := w.deadlocked(); !slices.Equal(got, want) {
		w.T.Errorf("after %s the nodes %q have the rule's taint, want %q", time.Since(w.Start), got, want)
	}
}

// wantStatus wants selected, matching, tainted and held, and the reasons of the conditions.
func (w *world) wantStatus(name string, counts [4]int32, reasons ...string) {
	w.T.Helper()
	rule := w.rule(name)
	if got := [4]int32{rule.Status.Selected, rule.Status.Matching, rule.Status.Tainted, rule.Status.Held}; got != counts {
		w.T.Errorf("after %s rule %s counts %v (selected, matching, tainted, held), want %v", time.Since(w.Start), name, got, counts)
	}
	var got []string
	for _, c := range rule.Status.Conditions {
		got = append(got, c.Reason)
	}
	if !slices.Equal(got, reasons) {
		w.T.Errorf("after %s rule %s has conditions with reasons %q, want %q: %v", time.Since(w.Start), name, got, reasons, rule.Status.Conditions)
	}
	if rule.Status.ObservedGeneration != rule.Generation {
		w.T.Errorf("the status of rule %s is about generation %d, not %d", name, rule.Status.ObservedGeneration, rule.Generation)
	}
}

func atMost(bound intstr.IntOrString) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.MaxTainted = &bound }
}

func comesAfter(d time.Duration) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.After.Duration = d }
}

func goesAfter(d time.Duration) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) { r.Spec.ClearAfter.Duration = d }
}

func about(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) {
		r.Spec.Condition = v1alpha1.NodeTaintRuleCondition{Type: kind, Status: status}
	}
}

func inZone(zone v1alpha1.LabelValue) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) {
		r.Spec.NodeSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelTopologyZone: zone}}
	}
}

func requires(key, operator string, values ...v1alpha1.LabelValue) func(*v1alpha1.NodeTaintRule) {
	return func(r *v1alpha1.NodeTaintRule) {
		r.Spec.NodeSelector = &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{
			{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values},
		}}
	}
}

// ofPool makes a rule select nodes that are in the pool.
func ofPool(r *v1alpha1.NodeTaintRule) { requires("pool", "Exists")(r) }

func inPool(n *corev1.Node) { n.Labels["pool"] = "one" }

func dryRun(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = true }

// awayWebhook makes an admission webhook that is away, and keeps nodes from being patched as long as it is.
func (w *world) awayWebhook() (away *atomic.Bool) {
	away = &atomic.Bool{}
	away.Store(true)
	w.onPatch(func() error {
		if away.Load() {
			return errNotNow
		}
		return nil
	})
	return away
}
