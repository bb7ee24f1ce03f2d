// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
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

// world is a cluster with policies and an Evictor that follows them.
type world struct {
	*bubble.World

	policies client.WithWatch
	evictor  *eviction.Evictor
	follower *Follower
	core     kubernetes.Interface // the follower's client
	limiter  *rate.Limiter        // of the follower
	writes   atomic.Int32         // of statuses
	missing  atomic.Bool          // the resource is not installed
	secret   atomic.Bool          // no policy may be listed
	down     atomic.Bool          // the API server cannot answer about policies
}

func play(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble.Play(t, describe, func(in *bubble.World) {
		w := &world{World: in, core: in.Client}
		w.makePolicies()
		for _, node := range []string{"n", "m"} {
			w.AddNode(node, "a")
		}
		w.addNamespace("default", nil)
		test(w)
	})
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
			if w.down.Load() && kind(list) == "" {
				return apierrors.NewServiceUnavailable("starting")
			}
			if w.secret.Load() && kind(list) == "" {
				return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("evictionpolicies").GroupResource(), "", errors.New("no right"))
			}
			if w.missing.Load() && kind(list) == "" {
				return &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("EvictionPolicy").GroupKind()}
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
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	var change struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(text, &change); err != nil {
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
	if err := merge(&is.Status, change.Status); err != nil {
		return err
	}
	version, err := strconv.Atoi(is.ResourceVersion)
	if err != nil {
		return err
	}
	is.ResourceVersion = strconv.Itoa(version + 1)
	return s.tracker.Update(resource, is, "")
}

// merge is a JSON merge patch of a status, none of whose fields is an object.
func merge(status *v1alpha1.EvictionPolicyStatus, change map[string]json.RawMessage) error {
	was, err := json.Marshal(status)
	if err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(was, &fields); err != nil {
		return err
	}
	maps.Copy(fields, change)
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	is, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	*status = v1alpha1.EvictionPolicyStatus{}
	return json.Unmarshal(is, status)
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

// labeled gives a pod a label.
func labeled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[key] = value
	}
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

// wantHeld checks the metric of held pods.
func (w *world) wantHeld(policy, reason string, pods float64) {
	w.T.Helper()
	got := w.Metrics("taintkeeper_held_pods", map[string]string{"policy": policy, "reason": reason})
	if len(got) != 1 || got[0].GetGauge().GetValue() != pods {
		w.T.Errorf("taintkeeper_held_pods of policy %s and reason %s is %v, want %v", policy, reason, got, pods)
	}
}
