// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakepolicies "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

func TestMain(m *testing.M) { bubble.Main(m) }

const sec = time.Second

// spec is what a policy of these tests says.
type spec = v1alpha1.EvictionPolicySpec

var (
	podResource     = corev1.SchemeGroupVersion.WithResource("pods")
	budgetsResource = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	errNotNow       = apierrors.NewInternalError(errors.New("not now"))
	errRefused      = apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no"))

	// Answers to a list of policies: the right to list them is missing, the resource is not installed, and the API server
	// cannot say.
	errNoRight     = apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("evictionpolicies").GroupResource(), "", errors.New("no right"))
	errNoResource  = &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("EvictionPolicy").GroupKind()}
	errUnavailable = apierrors.NewServiceUnavailable("starting")
)

// world is a cluster with policies, the Eviction API, and an Evictor that follows the policies. Nodes n and m are in
// zone a.
type world struct {
	*bubble.World

	policies client.WithWatch
	evictor  *eviction.Evictor
	follower *Follower
	core     kubernetes.Interface  // the follower's client
	limiter  *rate.Limiter         // of the follower
	writes   atomic.Int32          // of statuses
	unlisted atomic.Pointer[error] // why no policies can be listed

	forbidden atomic.Bool  // to use the Eviction API
	asked     atomic.Int32 // how often the Eviction API was
	stale     atomic.Int32 // asked about another UID
	evictions sync.Mutex   // one after the other, as those about one budget are
}

// playStories plays each story in a world of its own.
func playStories(t *testing.T, stories map[string]func(w *world)) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) { play(t, story) })
	}
}

func play(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble.Play(t, describe, func(in *bubble.World) {
		w := &world{World: in, core: in.Client}
		w.makePolicies()
		w.makeEvictionAPI()
		for _, node := range []string{"n", "m"} {
			w.AddNode(node, "a")
		}
		w.addNamespace("default", nil)
		test(w)
	})
}

// begins starts a process, and taints node n at an instant.
func (w *world) begins(taintedAt time.Duration) {
	w.T.Helper()
	w.run()
	w.Until(taintedAt)
	w.Taint("n", "k:NoExecute")
}

// describe describes what happens to pods.
func describe(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		return "delete " + action.Name
	case clienttesting.PatchActionImpl:
		switch {
		case action.Resource.Resource == "pods" && action.Subresource == "":
			return "keep " + action.Name
		case action.Resource.Resource == "pods":
			return "patch " + action.Name + " " + string(action.Patch)
		}
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			return "event " + event.InvolvedObject.Name + " " + event.Reason + ": " + event.Message
		}
	}
	return ""
}

// plainLister tells client-go that the fake client cannot send a list through a watch.
type plainLister struct{ client.WithWatch }

func (plainLister) IsWatchListSemanticsUnSupported() bool { return true }

func (w *world) makePolicies() {
	scheme, err := v1alpha1.NewScheme()
	w.Must(nil, err)
	w.Must(nil, corev1.AddToScheme(scheme))
	plain := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder()) // managed fields cost milliseconds a call
	var mu sync.Mutex
	begun := map[string]watch.Interface{} // with a list, so that nothing is lost before the watch
	kind := func(list client.ObjectList) string {
		if metadata, ok := list.(*metav1.PartialObjectMetadataList); ok {
			return metadata.Kind
		}
		return ""
	}
	statuses := &statuses{tracker: plain}
	w.policies = plainLister{fakepolicies.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.EvictionPolicy{}).WithObjectTracker(plain).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if why := w.unlisted.Load(); why != nil && kind(list) == "" {
				return *why
			}
			mu.Lock()
			defer mu.Unlock()
			stream, err := c.Watch(ctx, list, options...)
			if err != nil {
				return err
			}
			if unread := begun[kind(list)]; unread != nil {
				unread.Stop()
			}
			begun[kind(list)] = stream
			return c.List(ctx, list, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			if stream := begun[kind(list)]; stream != nil {
				delete(begun, kind(list))
				return metadata(stream), nil
			}
			stream, err := c.Watch(ctx, list, options...)
			return metadata(stream), err
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			statuses.mu.Lock()
			defer statuses.mu.Unlock()
			return c.Update(ctx, object, options...)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			w.writes.Add(1)
			return statuses.patch(object, patch)
		},
	}).Build()}
}

// statuses patches the statuses of policies. The fake client converts the whole object many times for that, which takes
// more than half the time of the random histories. The lock keeps what another client changes at the same instant.
type statuses struct {
	mu      sync.Mutex
	tracker clienttesting.ObjectTracker
}

func (s *statuses) patch(object client.Object, patch client.Patch) error {
	change, err := patch.Data(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := v1alpha1.GroupVersion.WithResource("evictionpolicies")
	stored, err := s.tracker.Get(resource, "", object.GetName())
	if err != nil {
		return err
	}
	is := stored.(*v1alpha1.EvictionPolicy)
	was, err := json.Marshal(is)
	if err != nil {
		return err
	}
	text, err := strategicpatch.StrategicMergePatch(was, change, is) // no field of a status is a list that it merges
	if err != nil {
		return err
	}
	var next v1alpha1.EvictionPolicy
	if err := json.Unmarshal(text, &next); err != nil {
		return err
	}
	version, err := strconv.Atoi(is.ResourceVersion)
	if err != nil {
		return err
	}
	is.Status, is.ResourceVersion = next.Status, strconv.Itoa(version+1)
	return s.tracker.Update(resource, is, "")
}

// metadata makes namespaces what a watch of metadata brings. The fake client brings all of them.
func metadata(stream watch.Interface) watch.Interface {
	if stream == nil {
		return nil
	}
	events := make(chan watch.Event)
	brings := watch.NewProxyWatcher(events)
	go func() { // watch.Filter would continue indefinitely once nobody reads it
		defer close(events)
		defer stream.Stop()
		for {
			var e watch.Event
			more := false
			select {
			case e, more = <-stream.ResultChan():
			case <-brings.StopChan():
			}
			if !more {
				return
			}
			if namespace, ok := e.Object.(*corev1.Namespace); ok {
				e.Object = &metav1.PartialObjectMetadata{ObjectMeta: namespace.ObjectMeta}
			}
			select {
			case events <- e:
			case <-brings.StopChan():
				return
			}
		}
	}()
	return brings
}

func (w *world) makeEvictionAPI() {
	w.Client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !w.forbidden.Load()},
		}, nil
	})
	w.Client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return true, nil, w.evict(action.(clienttesting.CreateActionImpl).Object.(*policyv1.Eviction))
	})
}

// evict is the Eviction API, as far as policies depend on it (k8s.io/kubernetes/pkg/registry/core/pod/storage).
func (w *world) evict(eviction *policyv1.Eviction) error {
	w.asked.Add(1)
	w.evictions.Lock()
	defer w.evictions.Unlock()
	object, err := w.API.Get(podResource, eviction.Namespace, eviction.Name)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	if err := w.passes(pod); err != nil {
		return err
	}
	if is := eviction.DeleteOptions.Preconditions.UID; is == nil || *is != pod.UID {
		w.stale.Add(1)
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("the UID in the precondition does not match"))
	}
	return w.API.Delete(podResource, pod.Namespace, pod.Name)
}

// passes deducts the eviction of a pod from its budget. It does not know which pod the client meant.
func (w *world) passes(pod *corev1.Pod) error {
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
		return nil
	}
	of, err := w.budgetsOf(pod)
	switch {
	case err != nil || len(of) == 0:
		return err
	case len(of) > 1:
		return apierrors.NewInternalError(fmt.Errorf("this pod has more than one PodDisruptionBudget"))
	}
	switch status := &of[0].Status; {
	case !isTrue(pod, corev1.PodReady) && of[0].Spec.UnhealthyPodEvictionPolicy != nil:
		return nil
	case !isTrue(pod, corev1.PodReady) && status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0:
		return nil
	case status.ObservedGeneration < of[0].Generation:
		return apierrors.NewTooManyRequests("The disruption budget is still being processed by the server.", 10)
	case status.DisruptionsAllowed == 0:
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	default:
		status.DisruptionsAllowed--
		return w.API.Update(budgetsResource, &of[0], of[0].Namespace)
	}
}

// budgetsOf returns the stored budgets of a pod.
func (w *world) budgetsOf(pod *corev1.Pod) (of []policyv1.PodDisruptionBudget, err error) {
	all, err := w.API.List(budgetsResource, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), pod.Namespace)
	if err != nil {
		return nil, err
	}
	for _, is := range all.(*policyv1.PodDisruptionBudgetList).Items {
		if selector, _ := metav1.LabelSelectorAsSelector(is.Spec.Selector); selector.Matches(labels.Set(pod.Labels)) {
			of = append(of, is)
		}
	}
	return of, nil
}

// run starts an Evictor that follows the policies.
func (w *world) run(change ...func(*eviction.Config)) {
	w.T.Helper()
	w.Run("the Evictor", w.process(change...))
}

func (w *world) process(change ...func(*eviction.Config)) func(context.Context) error {
	w.T.Helper()
	return w.replica(func(ctx context.Context, f *Follower, evictor func(context.Context) error) error {
		var parts stage.Parts
		parts.InEveryReplica(f.Run, evictor)
		return parts.Run(ctx)
	}, change...)
}

// replica returns a process that runs a Follower and an Evictor with its policies.
func (w *world) replica(
	run func(ctx context.Context, f *Follower, evictor func(context.Context) error) error, change ...func(*eviction.Config),
) func(context.Context) error {
	w.T.Helper()
	caches := caches.New(w.Client, w.Clock, false)
	var err error
	w.follower, err = New(Config{
		Client: w.policies, Core: w.core, Nodes: caches.Nodes, Pods: caches.Pods, Labels: &podwire.Labels{}, Clock: w.Clock,
		Limiter: w.limiter,
	})
	w.Must(nil, err)
	w.Registry = prometheus.NewRegistry()
	config := eviction.Config{Registerer: w.Registry, Client: w.Client, Clock: w.Clock, Nodes: caches.Nodes, Pods: caches.Pods, Policies: w.follower}
	for _, apply := range change {
		apply(&config)
	}
	w.evictor, err = eviction.New(config)
	w.Must(nil, err)
	follower, evictor := w.follower, w.evictor
	return caches.With(func(ctx context.Context) error { return run(ctx, follower, evictor.Run) })
}

// add creates a policy.
func (w *world) add(name string, spec v1alpha1.EvictionPolicySpec) {
	w.T.Helper()
	w.Must(nil, w.policies.Create(w.T.Context(), &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}))
	synctest.Wait()
}

// edit changes a policy, as the API server does: another spec is another generation.
func (w *world) edit(name string, change func(*v1alpha1.EvictionPolicySpec)) {
	w.T.Helper()
	var object v1alpha1.EvictionPolicy
	w.Must(nil, w.policies.Get(w.T.Context(), client.ObjectKey{Name: name}, &object))
	change(&object.Spec)
	object.Generation++
	w.Must(nil, w.policies.Update(w.T.Context(), &object))
	synctest.Wait()
}

func (w *world) remove(name string) {
	w.T.Helper()
	w.Must(nil, w.policies.Delete(w.T.Context(), &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	synctest.Wait()
}

func (w *world) addNamespace(name string, labels map[string]string) {
	w.T.Helper()
	w.Must(nil, w.policies.Create(w.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
}

// standBy starts a second process that does not lead until the function that it returns is called.
func (w *world) standBy() (leads func()) {
	w.T.Helper()
	lead, leader := make(chan struct{}), w.evictor
	process := w.replica(func(ctx context.Context, f *Follower, evictor func(context.Context) error) error {
		var parts stage.Parts
		parts.InEveryReplica(append(f.inEveryReplica(), func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-lead:
				return evictor(ctx)
			}
		})...)
		return parts.Run(ctx)
	})
	w.evictor = leader
	w.Run("the standby", process)
	return func() { close(lead) }
}

// slow returns a client of the Evictor whose calls a hook may delay or refuse.
func (w *world) slow(before bubble.Hook) func(*eviction.Config) {
	return func(c *eviction.Config) {
		c.Client, c.EventClient = &bubble.Slow{Clientset: w.Client, Before: before}, w.Client
	}
}

// reads makes a hook delay the follower's reads of pods.
func (w *world) reads(before bubble.Hook) { w.core = &bubble.Slow{Clientset: w.Client, Before: before} }

// status returns the status of a policy.
func (w *world) status(name string) v1alpha1.EvictionPolicyStatus {
	w.T.Helper()
	var object v1alpha1.EvictionPolicy
	w.Must(nil, w.policies.Get(w.T.Context(), client.ObjectKey{Name: name}, &object))
	return object.Status
}

// addBudget creates a budget for pods of namespace default with a label, which allows a number of disruptions.
func (w *world) addBudget(name, app string, allowed int32) {
	w.T.Helper()
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets("default").Create(w.T.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

// changeBudget changes budget web of namespace default.
func (w *world) changeBudget(change func(*policyv1.PodDisruptionBudget)) {
	w.T.Helper()
	budgets := w.Client.PolicyV1().PodDisruptionBudgets("default")
	is, err := budgets.Get(w.T.Context(), "web", metav1.GetOptions{})
	w.Must(nil, err)
	change(is)
	w.Must(budgets.Update(w.T.Context(), is, metav1.UpdateOptions{}))
	synctest.Wait()
}

// allow changes how many disruptions budget web allows.
func (w *world) allow(allowed int32) {
	w.T.Helper()
	w.changeBudget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = allowed })
}

// addKeys creates a budget that selects by as many label keys of its own.
func (w *world) addKeys(namespace, name string, keys int) {
	w.T.Helper()
	selector := map[string]string{}
	for i := range keys {
		selector[fmt.Sprintf("%s.example/key%d", name, i)] = "x"
	}
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(w.T.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

// addPods creates the given number of pods on each of two nodes: n0, n1 and so on, and m0, m1 and so on.
func (w *world) addPods(on ...int) {
	w.T.Helper()
	for i, node := range []string{"n", "m"} {
		for j := range on[i] {
			w.AddPod(fmt.Sprintf("%s%d", node, j), node)
		}
	}
}

// addWeb creates pods web0, web1 and so on, which are ready, on node n.
func (w *world) addWeb(pods int) {
	w.T.Helper()
	for i := range pods {
		w.AddPod(fmt.Sprintf("web%d", i), "n", labeled("app", "web"), ready4ever)
	}
}

// addNodesWith creates nodes x0, x1 and so on, each with pods x0-0, x0-1 and so on.
func (w *world) addNodesWith(nodes, pods int, change ...func(*corev1.Pod)) {
	w.T.Helper()
	for i := range nodes {
		node := fmt.Sprint("x", i)
		w.AddNode(node, "a")
		for j := range pods {
			w.AddPod(fmt.Sprintf("%s-%d", node, j), node, change...)
		}
	}
}

// labeled gives a pod a label.
func labeled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[key] = value
	}
}

func in(namespace string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = namespace }
}

// isReady makes a pod one that became ready or not ready some time ago.
func isReady(status corev1.ConditionStatus, since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
		}}
	}
}

var ready4ever = isReady(corev1.ConditionTrue, time.Hour)

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func matching(key, value string) *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
}

// The specs of policies: a Hold and an Evict with a deadline, if that is not 0; a pause of pods, nil means all; a pace;
// and a breaker that settles for 10 s.

func hold(deadline time.Duration) spec {
	is := spec{Action: v1alpha1.ActionHold}
	if deadline > 0 {
		is.Deadline = &metav1.Duration{Duration: deadline}
	}
	return is
}

func evicts(deadline time.Duration) spec {
	is := hold(deadline)
	is.Action = v1alpha1.ActionEvict
	return is
}

func pauseOf(selector *v1alpha1.Selector) spec {
	is := hold(0)
	is.Paused, is.PodSelector = new("the network is down"), selector
	return is
}

func paceOf(pods int32, per time.Duration, scope v1alpha1.PaceScope) spec {
	return spec{
		Action: v1alpha1.ActionDelete,
		Pace:   &v1alpha1.EvictionPace{Pods: pods, Per: metav1.Duration{Duration: per}, Scope: scope},
	}
}

func breakerOf(most intstr.IntOrString) spec {
	return spec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{
		MaxDue: most, Settle: &metav1.Duration{Duration: 10 * sec},
	}}
}

// only makes a policy select pods with a label.
func only(key, value string, is spec) spec {
	is.PodSelector = matching(key, value)
	return is
}

// wantLeft fails unless exactly these pods have been deleted so far, each once, at an instant or a quarter of a second
// later.
func (w *world) wantLeft(want map[string]time.Duration) {
	w.T.Helper()
	got := map[string]time.Duration{}
	for _, c := range w.Book.Calls() {
		if name, ok := strings.CutPrefix(c.What, "delete "); ok {
			if _, twice := got[name]; twice {
				w.T.Errorf("pod %s was deleted again at %s", name, c.At)
			}
			got[name] = c.At
			if at, ok := want[name]; !ok || c.At < at || c.At > at+sec/4 {
				w.T.Errorf("pod %s was deleted at %s, want %s", name, c.At, at)
			}
		}
	}
	for name, at := range want {
		if _, ok := got[name]; !ok {
			w.T.Errorf("pod %s was not deleted, want at %s", name, at)
		}
	}
}

// wantCount fails unless the descriptions of the given number of calls begin with these words.
func (w *world) wantCount(words string, want int) {
	w.T.Helper()
	if got := w.Did(words); len(got) != want {
		w.T.Errorf("%q was called at %v, want %d times", words, got, want)
	}
}

// left is when pods leave that all do at one instant.
func left(at time.Duration, pods ...string) map[string]time.Duration {
	want := map[string]time.Duration{}
	for _, pod := range pods {
		want[pod] = at
	}
	return want
}

// deletes returns when the pods whose names begin with a prefix were deleted, in order.
func (w *world) deletes(prefix string) (at []time.Duration) {
	at = w.Did("delete " + prefix)
	slices.Sort(at)
	return at
}

// wantThere checks how many pods there are in namespace default.
func (w *world) wantThere(pods int) {
	w.T.Helper()
	all, err := w.API.List(podResource, corev1.SchemeGroupVersion.WithKind("Pod"), "default")
	w.Must(nil, err)
	if got := len(all.(*corev1.PodList).Items); got != pods {
		w.T.Errorf("after %s %d pods are there, want %d", w.Now(), got, pods)
	}
}

func (w *world) wantAsked(least, most int32) {
	w.T.Helper()
	if got := w.asked.Load(); got < least || got > most {
		w.T.Errorf("after %s the Eviction API was asked %d times, want %d to %d", w.Now(), got, least, most)
	}
	if stale := w.stale.Load(); stale != 0 {
		w.T.Errorf("the Eviction API was asked %d times about a pod that was replaced", stale)
	}
}

// wantNumbers checks how many pods a policy selects, how many of them are due, and how many it holds.
func (w *world) wantNumbers(name string, selected, due, held int32) {
	w.T.Helper()
	if is := w.status(name); is.Selected != selected || is.Due != due || is.Held != held {
		w.T.Errorf("after %s policy %s selects %d, of which %d are due and %d held; want %d, %d and %d",
			w.Now(), name, is.Selected, is.Due, is.Held, selected, due, held)
	}
}

// wantCondition checks a condition of a policy.
func (w *world) wantCondition(name, kind, reason, message string) {
	w.T.Helper()
	c := meta.FindStatusCondition(w.status(name).Conditions, kind)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.T.Errorf("after %s condition %s of policy %s is %v, want %s: %q", w.Now(), kind, name, c, reason, message)
	}
}

// wantStays wants one event that says why a pod stays.
func (w *world) wantStays(pod, why string) {
	w.T.Helper()
	w.wantCount(fmt.Sprintf("event %s EvictionHeld: Pod default/%s is due to leave, but stays: %s", pod, pod, why), 1)
}

// wantMarked checks whether the eviction of a pod marks it.
func (w *world) wantMarked(name string, want bool) {
	w.T.Helper()
	if pod := w.Pod(name); isTrue(pod, corev1.DisruptionTarget) != want {
		w.T.Errorf("after %s the conditions of pod %s are %v, want it marked: %t", w.Now(), name, pod.Status.Conditions, want)
	}
}
