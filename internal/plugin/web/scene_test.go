// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }

// Resources of a scene.
var (
	nodes  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

	configMaps = schema.GroupVersionResource{Version: "v1", Resource: kindReports}

	rules = v1alpha1.GroupVersion.WithResource(kindRules)
)

// midnight is when scenes begin, because virtual time begins then.
var midnight = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// scene is an API server, and a board with one open page. Its time is virtual.
type scene struct {
	t       *testing.T
	clients *fake.Clientset
	rules   *dynamicfake.FakeDynamicClient
	ping    func() error
	board   *Board
	// policies tells the board which policies were read.
	policies func(*state.Cluster, error)
	version  uint64                                // what the page has received
	shown    map[string]map[string]json.RawMessage // what the page shows, by sheet and id
}

// play runs a scene.
func play(t *testing.T, act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		kinds := map[schema.GroupVersionResource]string{rules: "NodeTaintRuleList"}
		s := &scene{
			t: t, clients: fake.NewClientset(), rules: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
			ping: func() error { return nil }, shown: map[string]map[string]json.RawMessage{},
		}
		act(s)
		s.onlyRead()
	})
}

// onlyRead fails if the board has done anything but list and watch.
func (s *scene) onlyRead() {
	s.t.Helper()
	for _, action := range slices.Concat(s.clients.Actions(), s.rules.Actions()) {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" {
			s.t.Errorf("the board wants to %s %s", verb, action.GetResource().Resource)
		}
	}
}

// open opens the board and its page.
func (s *scene) open() {
	s.board = New(Config{
		Cluster: "home", Clients: s.clients, Rules: s.rules, Now: time.Now,
		Ping: func(context.Context) error { return s.ping() },
		Policies: func(_ context.Context, tell func(*state.Cluster, error)) {
			s.policies = tell
			tell(&state.Cluster{}, nil)
		},
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.board.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-ended })
	s.pass(time.Second)
}

// pass lets virtual time pass, and updates the page.
func (s *scene) pass(d time.Duration) {
	s.t.Helper()
	bubble.Pass(d)
	s.apply(s.next())
}

// next returns what the page has not received yet.
func (s *scene) next() (changes update) {
	changes, s.version, _ = s.board.rows.since(s.version, time.Now())
	return changes
}

func (s *scene) apply(u update) {
	s.t.Helper()
	if u.Reset {
		clear(s.shown)
	}
	for key, row := range u.Rows {
		table, id, _ := strings.Cut(key, "/")
		table += "/"
		if s.shown[table] == nil {
			s.shown[table] = map[string]json.RawMessage{}
		}
		s.shown[table][id] = row
	}
}

// row returns a row of the page.
func row[T any](s *scene, sheet, id string) (found T) {
	s.t.Helper()
	encoded, ok := s.shown[sheet][id]
	if !ok {
		s.t.Fatalf("there is no row %s of %s, only %s", id, sheet, s.shown[sheet])
	}
	if err := json.Unmarshal(encoded, &found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

func (s *scene) head() headRow {
	s.t.Helper()
	return row[headRow](s, tableHead, "")
}

// zone returns the row of a zone.
func (s *scene) zone(name string) zoneRow {
	s.t.Helper()
	all := s.head().Zones
	return all[slices.IndexFunc(all, func(zone zoneRow) bool { return zone.Name == name })]
}

// eviction returns the row of the eviction of a pod.
func (s *scene) eviction(name string) evictionRow {
	s.t.Helper()
	all := s.head().Evictions
	return all[slices.IndexFunc(all, func(eviction evictionRow) bool { return eviction.Name == name })]
}

// pending returns the pods of node n that must leave, by name.
func (s *scene) pending() map[string]cliv1alpha1.PendingPod {
	s.t.Helper()
	all := map[string]cliv1alpha1.PendingPod{}
	for _, pod := range row[nodeRow](s, tableNodes, "n").Pods {
		all[pod.Name] = pod
	}
	return all
}

func (s *scene) put(resource schema.GroupVersionResource, object runtime.Object, namespace string) {
	s.t.Helper()
	tracker := s.clients.Tracker()
	if resource == rules {
		tracker = s.rules.Tracker()
	}
	err := tracker.Create(resource, object, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = tracker.Update(resource, object, namespace)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// node creates a ready node in zone z.
func (s *scene) node(name string, change ...func(*corev1.Node)) {
	s.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelTopologyZone: "z"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range change {
		change(node)
	}
	s.put(nodes, node, "")
}

// tainted gives a node a NoExecute taint that counts from the current second.
func tainted(key string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.Now())})
	}
}

// unready sets the Ready condition to something other than True.
func unready(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Conditions[0].Status = status }
}

// in puts a node into a zone.
func in(zone string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[corev1.LabelTopologyZone] = zone }
}

// pod creates a pod on node n that tolerates key k for a while.
func (s *scene) pod(name string, seconds int64, change ...func(*corev1.Pod)) {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(midnight.Add(-time.Hour))},
		Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		}},
	}
	for _, change := range change {
		change(pod)
	}
	s.put(pods, pod, pod.Namespace)
}

// marked sets the condition of a taint eviction.
func marked(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: message,
		})
	}
}

// leaving makes a pod terminate as of the current second, with a grace period.
func leaving(pod *corev1.Pod) {
	pod.DeletionGracePeriodSeconds = new(int64(30))
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Truncate(time.Second).Add(30 * time.Second)}
	pod.Finalizers = []string{"test/keep"} // the fake API server rejects terminating objects without one
}

func (s *scene) deletePod(name string) {
	s.t.Helper()
	if err := s.clients.Tracker().Delete(pods, "a", name); err != nil {
		s.t.Fatal(err)
	}
}
