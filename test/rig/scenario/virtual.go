// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Contestant makes a program that evicts with a client of client-go's fake clientset.
type Contestant func(client *fake.Clientset) (run func(context.Context) error, err error)

// Ours is our whole Evictor.
func Ours(client *fake.Clientset) (func(context.Context) error, error) { return assemble(client, nil) }

// OursWithNodeHealth is our node health and our Evictor, whole and in one process, as the steps about kubelets want.
func OursWithNodeHealth(client *fake.Clientset) (func(context.Context) error, error) {
	return assemble(client, &readiness.Grace{Monitor: NodeGrace, Startup: NodeStartupGrace})
}

// Keeping is OursWithNodeHealth with other grace periods.
func Keeping(grace readiness.Grace) Contestant {
	return func(client *fake.Clientset) (func(context.Context) error, error) { return assemble(client, &grace) }
}

// assemble makes a process that knows the API server's clock. Without grace periods it has no node health.
func assemble(client *fake.Clientset, grace *readiness.Grace) (func(context.Context) error, error) {
	clock := &timeline.Clock{}
	bubble.TellTime(client, clock)
	shared := caches.New(client, clock, false)
	evictor, err := eviction.New(eviction.Config{
		Client: client, Nodes: shared.Nodes, Pods: shared.Pods, Clock: clock, Registerer: prometheus.NewRegistry(),
	})
	if grace == nil || err != nil {
		return shared.With(evictor.Run), err
	}
	rate := float32(time.Second) / float32(NodeTokenEvery)
	health, err := nodehealth.New(nodehealth.Config{
		Client: client, Nodes: shared.Nodes, Pods: shared.Pods, Clock: clock, Grace: *grace,
		Policy: readiness.Policy{
			Rate: rate, FullDisruptionRate: rate,
			LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
		},
	})
	if err != nil {
		return nil, err
	}
	return shared.With(func(ctx context.Context) error {
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return health.Run(ctx) })
		both.Go(func() error { return evictor.Run(ctx) })
		return both.Wait()
	}), nil
}

// PlayVirtually plays a scenario to a contestant in virtual time. A pod that is deleted is gone at once there.
func PlayVirtually(t *testing.T, contestant Contestant, s Scenario) (found Finding, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { found, err = Run(t.Context(), newVirtual(t, contestant), "virtual", s) })
	return found, err
}

// virtual is a [Stage] in virtual time. Safe for concurrent use.
type virtual struct {
	t          *testing.T
	contestant Contestant
	client     *fake.Clientset // the contestant's
	admin      *fake.Clientset
	seen       *observer.Pods
	api        *bubble.API
	stop       func()
	made       atomic.Int32
	refused    atomic.Bool

	mu    sync.Mutex
	calls []auditlog.Event
}

func newVirtual(t *testing.T, contestant Contestant) *virtual {
	t.Helper()
	v := &virtual{t: t, contestant: contestant, client: fake.NewClientset(), admin: &fake.Clientset{}}
	v.api = bubble.NewAPI(v.client)
	v.client.PrependReactor("*", "*", v.called)
	// The scenario has a client of its own for the same objects: what it does is no call of the contestant's.
	v.admin.AddReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := meta.Accessor(action.(clienttesting.CreateAction).GetObject())
		if err == nil {
			object.SetUID(types.UID(fmt.Sprint("uid-", v.made.Add(1))))
			object.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
		}
		return false, nil, err
	})
	v.admin.AddReactor("delete-collection", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, nil // the bubble ends
	})
	v.admin.AddReactor("*", "*", v.api.React)
	v.admin.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		stream, err := v.api.Watch(action.GetResource(), action.GetNamespace())
		t.Cleanup(stream.Stop)
		return true, stream, err
	})
	leases := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}}
	if _, err := v.admin.CoreV1().Namespaces().Create(t.Context(), leases, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if v.seen, err = observer.WatchPods(t.Context(), v.admin, metav1.NamespaceAll); err != nil {
		t.Fatal(err)
	}
	v.start()
	return v
}

func (v *virtual) start() {
	run, err := v.contestant(v.client)
	if err != nil {
		v.t.Fatal(err)
	}
	v.stop = bubble.Run(v.t, "the contestant", run)
}

// called carries out a call of the contestant's, and notes how it was answered.
func (v *virtual) called(action clienttesting.Action) (bool, runtime.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := auditlog.Event{
		Verb: action.GetVerb(), Resource: action.GetResource().Resource, Namespace: action.GetNamespace(),
		Code: http.StatusOK, Received: time.Now(), Answered: time.Now(),
	}
	if action.GetSubresource() != "" {
		e.Resource += "/" + action.GetSubresource()
	}
	var err error
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		e.Name = action.Name
		e.UID, err = v.mayDelete(action)
	case clienttesting.PatchActionImpl:
		e.Name, e.UID = action.Name, uidIn(action.Patch)
	}
	var answer runtime.Object
	if err == nil {
		_, answer, err = v.api.React(action)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		e.Code = int(status.Status().Code)
	} else if action.GetVerb() == "patch" {
		e.Response, _ = json.Marshal(answer)
	}
	v.calls = append(v.calls, e)
	return true, answer, err
}

// mayDelete returns the UID that a delete is for, and why it is refused before it is carried out, if it is. One that
// names no UID is.
func (v *virtual) mayDelete(action clienttesting.DeleteActionImpl) (types.UID, error) {
	var uid types.UID
	if wanted := action.DeleteOptions.Preconditions; wanted != nil && wanted.UID != nil {
		uid = *wanted.UID
	}
	switch {
	case v.refused.Load():
		return uid, apierrors.NewForbidden(corev1.Resource("pods"), action.Name, errors.New("pods are kept for now"))
	case uid == "":
		return uid, apierrors.NewConflict(corev1.Resource("pods"), action.Name, errors.New("the delete names no UID"))
	}
	return uid, nil
}

func uidIn(patch []byte) types.UID {
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(patch, &object) // a patch without a UID is about none
	return object.UID
}

// Client implements [Stage], as do the others.
func (v *virtual) Client() kubernetes.Interface { return v.admin }

func (v *virtual) Seen() *observer.Pods { return v.seen }

// Patience is one second, because a timeAdded is in whole seconds.
func (v *virtual) Patience() time.Duration { return time.Second }

// Stalled implements [Stage]: virtual time stands still while the machine is busy.
func (v *virtual) Stalled(_, _ time.Time) time.Duration { return 0 }

func (v *virtual) Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return auditlog.Choose(slices.Clone(v.calls), wanted...), nil
}

func (v *virtual) Restart(context.Context) error {
	v.stop()
	v.start() //nolint:contextcheck // the contestant continues after the step
	return nil
}

func (v *virtual) Lag() (release func()) {
	v.api.Watches("nodes").Hold()
	return v.api.Watches("nodes").Release
}

func (v *virtual) Refuse(context.Context, scene.Scene, *corev1.Pod) (allow func() error, err error) {
	v.refused.Store(true)
	return func() error { v.refused.Store(false); return nil }, nil
}
