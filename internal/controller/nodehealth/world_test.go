// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// excludeDisruption is upstream's label of nodes that do not count in their zone.
const excludeDisruption = "node.kubernetes.io/exclude-disruption"

// defaultGrace is that of the flags.
var defaultGrace = readiness.Grace{Monitor: readiness.DefaultMonitorGrace, Startup: readiness.DefaultStartupGrace}

// world is a cluster of client-go's fake clientset in virtual time, with our whole Keeper at work in it
// and kubelets that renew their leases.
type world struct {
	t        *testing.T
	client   *fake.Clientset
	book     *bubble.Book // of the calls that change something
	registry *prometheus.Registry
	start    time.Time
	stop     func()
	silent   map[string]bool
	leases   clienttesting.ObjectTracker

	// renewing is called before our own lease is renewed, and says what becomes of that; nil: it is renewed.
	renewing func(ctx context.Context) error
	// wrote is told of a patch of a node that was done, and says what its caller hears; nil: that it was.
	wrote func(ctx context.Context) error

	unwritable atomic.Bool       // leases, also for kubelets
	renewals   atomic.Int32      // of our own lease
	late       *bubble.LateWatch // of nodes; nil: it is never late
}

// renewEvery is how often kubelets renew their lease.
const renewEvery = 10 * time.Second

func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := &world{t: t, client: client, start: time.Now(), silent: map[string]bool{}}
		bubble.WatchNodesFromTheirList(client, func() *bubble.LateWatch { return w.late })
		w.book = bubble.NewBook(client, bubble.DescribeWrites)
		w.leases = w.trackLeases()
		bubble.LockNodes(client, w.book)
		w.must(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease, UID: "uid-of-the-namespace"},
		}, metav1.CreateOptions{}))
		test(t, w)
	})
}

// trackLeases keeps leases where nobody keeps book of who manages which of their fields: for each renewal that takes
// the fake clientset longer than all else.
func (w *world) trackLeases() clienttesting.ObjectTracker {
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	w.client.PrependReactor("*", "leases", clienttesting.ObjectReaction(tracker))
	w.client.PrependReactor("patch", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return w.applyOwnLease(tracker, action.(clienttesting.PatchActionImpl))
	})
	w.client.PrependWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		stream, err := tracker.Watch(action.GetResource(), action.GetNamespace())
		return true, stream, err
	})
	return tracker
}

// applyOwnLease takes a renewal of our own lease, unless leases cannot be written.
func (w *world) applyOwnLease(tracker clienttesting.ObjectTracker, patch clienttesting.PatchActionImpl) (bool, runtime.Object, error) {
	w.renewals.Add(1)
	if w.unwritable.Load() {
		return true, nil, apierrors.NewInternalError(errors.New("etcdserver: no leader"))
	}
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(patch.Patch, lease); err != nil {
		return true, nil, err
	}
	if patch.PatchType != types.ApplyPatchType || !isOwn(lease) {
		return true, nil, fmt.Errorf("%s of lease %s", patch.PatchType, patch.Name)
	}
	if _, err := tracker.Get(leasesResource, lease.Namespace, lease.Name); err != nil {
		return true, lease, tracker.Create(leasesResource, lease, lease.Namespace)
	}
	return true, lease, tracker.Update(leasesResource, lease, lease.Namespace)
}

// run starts a Keeper, and stops it when the test ends or stop is called.
func (w *world) run(change ...func(*Config)) {
	w.t.Helper()
	keeper, err := New(w.config(change...))
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = bubble.Run(w.t, "the Keeper", keeper.Run)
}

// config is that of the flags' defaults, changed as wanted, with metrics of its own.
func (w *world) config(change ...func(*Config)) Config {
	w.registry = prometheus.NewRegistry()
	config := Config{
		Client: w.client, Registerer: w.registry,
		Grace: defaultGrace,
		Policy: readiness.Policy{
			Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
			LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
		},
	}
	if w.renewing != nil || w.wrote != nil {
		slow := &bubble.Slow{Clientset: w.client, Before: onRequest("apply", "leases", w.renewing), After: onRequest("patch", "nodes", w.wrote)}
		config.Client, config.LeaseClient = slow, w.client
	}
	for _, apply := range change {
		apply(&config)
	}
	return config
}

// onRequest lets something happen to the requests of a sort, if anything.
func onRequest(verb, resource string, happens func(context.Context) error) bubble.Hook {
	return func(ctx context.Context, r bubble.Request) error {
		if happens == nil || r.Verb != verb || r.Resource != resource {
			return nil
		}
		return happens(ctx)
	}
}

// until lets virtual time pass up to an instant since the world began, in which kubelets renew.
func (w *world) until(at time.Duration) {
	for {
		next := time.Since(w.start).Truncate(renewEvery) + renewEvery
		if next > at {
			break
		}
		w.sleep(next - time.Since(w.start))
		w.renewAll()
	}
	w.sleep(at - time.Since(w.start))
}

func (w *world) sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

func (w *world) renewAll() {
	nodes, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(nil, err)
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !w.silent[name] {
			w.renew(name)
		}
	}
	synctest.Wait()
}

func (w *world) renew(name string) {
	object, err := w.leases.Get(leasesResource, corev1.NamespaceNodeLease, name)
	if err != nil || w.unwritable.Load() {
		return // a node whose kubelet has no lease, or cannot renew it
	}
	lease := object.(*coordinationv1.Lease).DeepCopy()
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	w.must(nil, w.leases.Update(leasesResource, lease, lease.Namespace))
}

// addNode creates a node in a zone whose kubelet says that it is ready, with a lease.
func (w *world) addNode(name, zone string, change ...func(*corev1.Node)) {
	w.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{corev1.LabelTopologyZone: zone},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
		}},
	}
	for _, apply := range change {
		apply(node)
	}
	w.must(w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}))
	w.must(w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(w.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}, metav1.CreateOptions{}))
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

// falls makes kubelets silent, resumes lets them report again.
func (w *world) falls(names ...string) {
	for _, name := range names {
		w.silent[name] = true
	}
}

func (w *world) resumes(names ...string) {
	w.t.Helper()
	for _, name := range names {
		delete(w.silent, name)
		w.renew(name)
		w.report(name, corev1.NodeReady, corev1.ConditionTrue)
	}
}

// report posts a condition as a kubelet does.
func (w *world) report(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.t.Helper()
	node := w.node(name)
	posted := corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
	changed := readiness.WithConditions(node, []corev1.NodeCondition{posted})
	changed.ResourceVersion = bubble.NextVersion(node.ResourceVersion)
	w.must(w.client.CoreV1().Nodes().UpdateStatus(w.t.Context(), changed, metav1.UpdateOptions{}))
	synctest.Wait()
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

// executing returns the NoExecute taints for readiness that a node has.
func executing(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoExecute || !forReadiness(t)
	})
}

// tainted returns which of the nodes have a NoExecute taint.
func (w *world) tainted(names ...string) []string {
	w.t.Helper()
	var found []string
	for _, name := range names {
		if len(executing(w.node(name))) > 0 {
			found = append(found, name)
		}
	}
	return found
}

func (w *world) wantTainted(count int, names ...string) {
	w.t.Helper()
	if got := w.tainted(names...); len(got) != count {
		w.t.Errorf("after %s the nodes %q are tainted NoExecute, want %d", time.Since(w.start), got, count)
	}
}

// did returns the instants of the calls whose description begins with the given words.
func (w *world) did(words string) []time.Duration { return w.book.When(words) }

// on makes the API server answer patches of a resource by an error for as long as the function returns one.
func (w *world) on(resource, subresource string, answer func() error) {
	w.book.Refuse("patch", resource, subresource, answer)
}

func (w *world) addPod(name, node string) {
	w.t.Helper()
	w.must(w.client.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Told", Message: "by its kubelet"},
		}},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

func (w *world) podReady(name string) corev1.PodCondition {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(nil, err)
	return pod.Status.Conditions[0]
}

func (w *world) wantMetric(name string, labels map[string]string, want float64) {
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

// leaseWatch is the watch of leases, which can be broken: until it is mended nothing is listed and nothing watched.
// It can also hang: nothing comes, and no error says so.
type leaseWatch struct {
	broken atomic.Bool
	hung   atomic.Bool
	mu     sync.Mutex
	open   watch.Interface
}

func (w *world) breakableLeases() *leaseWatch {
	l := &leaseWatch{}
	tooOld := apierrors.NewResourceExpired("too old")
	w.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return l.broken.Load(), nil, tooOld
	})
	w.client.PrependWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if l.broken.Load() {
			return true, nil, tooOld
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		stream, err := w.leases.Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		l.open = l.through(stream)
		return true, l.open, nil
	})
	return l
}

func (l *leaseWatch) breaks() {
	l.broken.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Stop()
}

func (l *leaseWatch) mends() { l.broken.Store(false) }

// hangs lasts until the connection is found dead, which breaks it.
func (l *leaseWatch) hangs() { l.hung.Store(true) }

func (l *leaseWatch) isFoundDead() {
	l.breaks()
	l.hung.Store(false)
}

// reconnects ends it, too. What the watch kept back comes with a list: the fake clientset's next watch does not bring
// it, as a real API server's does.
func (l *leaseWatch) reconnects() {
	if l.hung.Load() {
		l.isFoundDead()
		time.AfterFunc(time.Second, l.mends)
	}
}

// through passes on what a watch brings while it does not hang.
func (l *leaseWatch) through(stream watch.Interface) watch.Interface {
	passed := watch.NewRaceFreeFake()
	go func() {
		defer passed.Stop()
		for event := range stream.ResultChan() {
			if !l.hung.Load() {
				passed.Action(event.Type, event.Object)
			}
		}
	}()
	return bubble.PassedOn{Interface: passed, From: stream}
}
