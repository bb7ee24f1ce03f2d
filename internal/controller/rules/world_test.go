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
	"testing/synctest"
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
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakerules "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const (
	deadlock     = corev1.NodeConditionType("KernelDeadlock")
	deadlocked   = "example.com/deadlock:NoSchedule"
	planningTime = togetherWithin + time.Millisecond
)

// world is a cluster of client-go's fake clientset in virtual time, with our whole Controller at work in it.
type world struct {
	t        *testing.T
	client   *fake.Clientset
	book     *bubble.Book // of the calls that change something
	registry *prometheus.Registry
	start    time.Time
	clock    *timeline.Clock // knows the API server's exactly
	stop     func()
	late     *bubble.LateWatch               // of nodes; nil: it is never late
	wrote    func(ctx context.Context) error // is told of a patch of a node that was done, and says what its caller hears

	rules   client.WithWatch
	writes  atomic.Int32 // of rules
	asked   atomic.Int32 // for the list of rules
	listed  atomic.Int32 // how often live lists of a rule's nodes were asked for
	missing atomic.Bool  // the resource is not installed
	secret  atomic.Bool  // no rule may be read

	unlistable atomic.Bool // no live list of nodes is answered for now
	unwritable atomic.Bool // no rule can be changed for now
}

func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := &world{t: t, client: client, start: time.Now(), clock: &timeline.Clock{}}
		bubble.TellTime(client, w.clock)
		bubble.WatchNodesFromTheirList(client, func() *bubble.LateWatch { return w.late })
		w.book = bubble.NewBook(client, bubble.DescribeWrites)
		bubble.LockNodes(client, w.book)
		w.makeRules()
		test(t, w)
	})
}

// plainLister tells client-go that the fake client cannot send a list through a watch.
type plainLister struct{ client.WithWatch }

func (plainLister) IsWatchListSemanticsUnSupported() bool { return true }

// makeRules makes the client of the rules.
func (w *world) makeRules() {
	scheme, err := v1alpha1.NewScheme()
	w.must(nil, err)
	var begun watch.Interface // with a list, so that nothing is lost before the watch
	w.rules = plainLister{fakerules.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeTaintRule{}).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if nodes, ok := list.(*metav1.PartialObjectMetadataList); ok {
				return w.listNodes(ctx, nodes, options)
			}
			w.asked.Add(1)
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
				return apierrors.NewInternalError(errors.New("not now"))
			}
			w.writes.Add(1)
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if w.unwritable.Load() {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			w.writes.Add(1)
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}).Build()}
}

// listNodes answers a list of the metadata of nodes.
func (w *world) listNodes(ctx context.Context, list *metav1.PartialObjectMetadataList, options []client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	w.listed.Add(1)
	if w.unlistable.Load() {
		return apierrors.NewInternalError(errors.New("etcdserver: no leader"))
	}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: asked.LabelSelector.String()})
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

// run starts a Controller, and stops it when the test ends or stop is called.
func (w *world) run(change ...func(*Config)) {
	w.t.Helper()
	controller, runNodes := w.controller(change...)
	stopNodes := bubble.Run(w.t, "the watch of nodes", runNodes)
	stopRules := bubble.Run(w.t, "the Controller", controller.Run)
	w.stop = func() { stopRules(); stopNodes() }
	w.sleep(planningTime)
}

// controller returns a Controller with metrics of its own, and what runs its watch of nodes.
func (w *world) controller(change ...func(*Config)) (*Controller, func(context.Context) error) {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	nodes := nodecache.New(nodecache.Config{Client: w.client, Clock: &timeline.Clock{}})
	config := Config{Client: &bubble.Slow{Clientset: w.client, After: w.answered}, EventClient: w.client, Rules: w.rules, Nodes: nodes, Clock: w.clock, Registerer: w.registry}
	for _, apply := range change {
		apply(&config)
	}
	controller, err := New(config)
	w.must(nil, err)
	return controller, nodes.Run
}

// standBy starts a Controller in a replica that is not the leader, which it becomes by the function that is returned.
func (w *world) standBy() (lead func()) {
	w.t.Helper()
	controller, runNodes := w.controller()
	standby := &bubble.Replica{}
	w.must(nil, controller.AddTo(standby))
	bubble.Run(w.t, "the standby's watch of nodes", runNodes)
	return standby.StandsBy(w.t)
}

// answered tells the world of a patch of a node that was done.
func (w *world) answered(ctx context.Context, r bubble.Request) error {
	if w.wrote == nil || r.Verb != "patch" || r.Resource != "nodes" {
		return nil
	}
	return w.wrote(ctx)
}

// until lets virtual time pass up to an instant since the world began.
func (w *world) until(at time.Duration) { w.sleep(at - time.Since(w.start)) }

func (w *world) sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

// addNode creates a node in a zone whose kubelet says that it is ready.
func (w *world) addNode(name, zone string, change ...func(*corev1.Node)) {
	w.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{corev1.LabelTopologyZone: zone},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
		}},
	}
	for _, apply := range change {
		apply(node)
	}
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
	synctest.Wait()
}

// addZone creates so many ready nodes in a zone, named after it.
func (w *world) addZone(zone string, nodes int) []string {
	w.t.Helper()
	var names []string
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", zone, i)
		w.addNode(name, zone)
		names = append(names, name)
	}
	return names
}

// report posts a condition as a kubelet does, or whoever knows of it.
func (w *world) report(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.t.Helper()
	w.reportSince(name, kind, status, time.Now())
}

// reportSince posts a condition with a lastTransitionTime.
func (w *world) reportSince(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) {
	w.t.Helper()
	w.update(name, func(node *corev1.Node) {
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.NewTime(since),
		})
	})
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(nil, err)
	return node
}

func (w *world) update(name string, change func(*corev1.Node)) {
	w.t.Helper()
	node := w.node(name)
	change(node)
	node.ResourceVersion = bubble.NextVersion(node.ResourceVersion)
	w.must(w.client.CoreV1().Nodes().Update(w.t.Context(), node, metav1.UpdateOptions{}))
	synctest.Wait()
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// taints returns the taints of a node, as [bubble.TaintsOf] writes them.
func (w *world) taints(name string) []string {
	w.t.Helper()
	return bubble.TaintsOf(w.node(name))
}

func (w *world) wantTaints(name string, want ...string) {
	w.t.Helper()
	if got := w.taints(name); !slices.Equal(got, want) {
		w.t.Errorf("after %s node %s has the taints %q, want %q", time.Since(w.start), name, got, want)
	}
}

// did returns the instants of the calls whose description begins with the given words.
func (w *world) did(words string) []time.Duration { return w.book.When(words) }

// onPatch makes the API server answer patches of nodes by an error for as long as the function returns one.
func (w *world) onPatch(answer func() error) { w.book.Refuse("patch", "nodes", "", answer) }

// wantMetric wants a number of nodes in a state of rule deadlock.
func (w *world) wantMetric(state string, want float64) {
	name, labels := "taintkeeper_rule_nodes", map[string]string{"rule": "deadlock", "state": state}
	w.t.Helper()
	families, err := w.registry.Gather()
	w.must(nil, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	metrics:
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if value, ok := labels[pair.GetName()]; ok && value != pair.GetValue() {
					continue metrics
				}
			}
			if got := metric.GetGauge().GetValue() + metric.GetCounter().GetValue(); got != want {
				w.t.Errorf("%s%v is %v, want %v", name, labels, got, want)
			}
			return
		}
	}
	w.t.Errorf("%s%v is absent, want %v", name, labels, want)
}

func forbidden() error {
	return apierrors.NewForbidden(corev1.Resource("nodes"), "x", errors.New("a webhook says no"))
}

// refuses makes the API server refuse patches of one node.
func (w *world) refuses(node, subresource string) {
	w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.PatchActionImpl)
		if p.Name != node || p.GetSubresource() != subresource {
			return false, nil, nil
		}
		return true, nil, forbidden()
	})
}

// refusesTaint makes a webhook refuse a taint of node a-0, and returns how often it did.
func (w *world) refusesTaint(key string) *atomic.Int32 {
	var count atomic.Int32
	w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		if patch.Name != "a-0" || patch.GetSubresource() != "" || !strings.Contains(string(patch.Patch), fmt.Sprintf("%q:%q", "key", key)) {
			return false, nil, nil
		}
		count.Add(1)
		return true, nil, forbidden()
	})
	return &count
}

// addRule creates a rule for KernelDeadlock True.
func (w *world) addRule(name string, change ...func(*v1alpha1.NodeTaintRule)) {
	w.t.Helper()
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
	w.must(nil, w.rules.Create(w.t.Context(), rule))
	w.settle()
}

// settle lets what was begun come to its end.
func (w *world) settle() {
	for range 3 {
		w.sleep(planningTime)
	}
}

func (w *world) rule(name string) *v1alpha1.NodeTaintRule {
	w.t.Helper()
	rule := &v1alpha1.NodeTaintRule{}
	w.must(nil, w.rules.Get(w.t.Context(), client.ObjectKey{Name: name}, rule))
	return rule
}

func (w *world) changeRule(change func(*v1alpha1.NodeTaintRule)) {
	w.t.Helper()
	rule := w.rule("deadlock")
	change(rule)
	rule.Generation++
	w.must(nil, w.rules.Update(w.t.Context(), rule))
	w.settle()
}

func (w *world) deleteRule(name string) {
	w.t.Helper()
	w.must(nil, w.rules.Delete(w.t.Context(), w.rule(name)))
	w.settle()
}

func (w *world) isGone(name string) bool {
	return apierrors.IsNotFound(w.rules.Get(w.t.Context(), client.ObjectKey{Name: name}, &v1alpha1.NodeTaintRule{}))
}

// locks makes nodes report KernelDeadlock True, unlocks False.
func (w *world) locks(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, deadlock, corev1.ConditionTrue)
	}
}

func (w *world) unlocks(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, deadlock, corev1.ConditionFalse)
	}
}

// deadlocked returns which nodes have a taint of the rules here.
func (w *world) deadlocked() []string {
	w.t.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(nil, err)
	var names []string
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/deadlock" }) {
			names = append(names, node.Name)
		}
	}
	return names
}

func (w *world) wantDeadlocked(want ...string) {
	w.t.Helper()
	if got := w.deadlocked(); !slices.Equal(got, want) {
		w.t.Errorf("after %s the nodes %q have the rule's taint, want %q", time.Since(w.start), got, want)
	}
}

// wantStatus wants selected, matching, tainted and held, and the reasons of the conditions.
func (w *world) wantStatus(name string, counts [4]int32, reasons ...string) {
	w.t.Helper()
	rule := w.rule(name)
	if got := [4]int32{rule.Status.Selected, rule.Status.Matching, rule.Status.Tainted, rule.Status.Held}; got != counts {
		w.t.Errorf("after %s rule %s counts %v (selected, matching, tainted, held), want %v", time.Since(w.start), name, got, counts)
	}
	var got []string
	for _, c := range rule.Status.Conditions {
		got = append(got, c.Reason)
	}
	if !slices.Equal(got, reasons) {
		w.t.Errorf("after %s rule %s has conditions with reasons %q, want %q: %v", time.Since(w.start), name, got, reasons, rule.Status.Conditions)
	}
	if rule.Status.ObservedGeneration != rule.Generation {
		w.t.Errorf("the status of rule %s is about generation %d, not %d", name, rule.Status.ObservedGeneration, rule.Generation)
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

func dryRun(r *v1alpha1.NodeTaintRule) { r.Spec.DryRun = true }

// awayWebhook makes an admission webhook that keeps nodes from being patched for as long as it is away, which it is.
func (w *world) awayWebhook() (away *atomic.Bool) {
	away = &atomic.Bool{}
	away.Store(true)
	w.onPatch(func() error {
		if away.Load() {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return nil
	})
	return away
}
