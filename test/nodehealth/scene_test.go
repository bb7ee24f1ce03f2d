// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// scene is what one test has for itself: nodes with their kubelets, pods, and Taintkeeper.
type scene struct {
	made     time.Time
	began    time.Time
	outages  []outage
	kubelets []*kubelet
	args     []string
	keeper   *localcluster.Taintkeeper
}

// outage is a time in which the API server was not there or, while it started, knew nobody's rights.
type outage struct{ from, to time.Time }

func (o outage) covers(c call) bool { return !c.Received.Before(o.from) && !c.Received.After(o.to) }

// newScene makes an empty scene. Whatever is put on it goes when the test is over, Taintkeeper first.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{made: time.Now()}
	t.Cleanup(func() { s.clear(t) })
	return s
}

func (s *scene) clear(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if s.keeper != nil {
		s.stopKeeper(t)
	}
	s.checkRights(t)
	for _, k := range s.kubelets {
		k.stop()
		if err := errors.Join(
			admin.CoreV1().Nodes().Delete(ctx, k.node.Name, metav1.DeleteOptions{}),
			admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, k.node.Name, metav1.DeleteOptions{}),
		); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("clear up: %v", err)
		}
	}
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := admin.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, atOnce, metav1.ListOptions{}); err != nil {
		t.Errorf("clear up: %v", err)
	}
}

// node makes a node in a zone, with a kubelet.
func (s *scene) node(t *testing.T, name, zone string, labels ...string) *kubelet {
	t.Helper()
	k := startKubelet(t, newNode(name, zone, labels...))
	s.kubelets = append(s.kubelets, k)
	return k
}

// zone makes so many nodes in a zone, named after it.
func (s *scene) zone(t *testing.T, zone string, nodes int) []*kubelet {
	t.Helper()
	var all []*kubelet
	for i := range nodes {
		all = append(all, s.node(t, fmt.Sprintf("%s-%d", zone, i), zone))
	}
	return all
}

// mute makes a node whose kubelet never posts anything.
func (s *scene) mute(t *testing.T, name, zone string) *kubelet {
	t.Helper()
	created, err := admin.CoreV1().Nodes().Create(t.Context(), newNode(name, zone), metav1.CreateOptions{})
	await.Must(t, err)
	k := &kubelet{node: created, stop: func() {}}
	s.kubelets = append(s.kubelets, k)
	return k
}

func newNode(name, zone string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelTopologyRegion: localcluster.Region,
		corev1.LabelTopologyZone:   zone,
	}}}
	for _, label := range labels {
		node.Labels[label] = "true"
	}
	return node
}

// keep starts Taintkeeper with short grace periods, and returns when the nodes have no taint: the API
// server gives each new node one.
func (s *scene) keep(t *testing.T, args ...string) {
	t.Helper()
	s.args = append([]string{
		"--controllers=node-health", "--node-monitor-grace-period=" + grace.String(), "--node-startup-grace-period=" + startupGrace.String(),
		"--node-eviction-rate=1",
	}, args...)
	s.startKeeper(t)
	for _, k := range s.kubelets {
		s.becomes(t, k, untainted)
	}
	s.began = time.Now()
}

func (s *scene) startKeeper(t *testing.T) {
	t.Helper()
	var err error
	s.keeper, err = cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{Binary: binary, Args: s.args})
	await.Must(t, err)
}

// stopKeeper stops Taintkeeper as Kubernetes would.
func (s *scene) stopKeeper(t *testing.T) {
	t.Helper()
	if err := s.keeper.Stop(); err != nil {
		t.Errorf("Taintkeeper ended with an error: %v", err)
	}
	s.keeper = nil
}

// checkRights checks that Taintkeeper was refused nothing for want of a right.
func (s *scene) checkRights(t *testing.T) {
	t.Helper()
	for _, c := range audit.All(t, func(c call) bool { return c.Code == http.StatusForbidden && c.Received.After(s.made) }) {
		if !slices.ContainsFunc(s.outages, func(o outage) bool { return o.covers(c) }) {
			t.Errorf("config/rbac.yaml does not suffice: %v", c)
		}
	}
}

// restart stops Taintkeeper and starts it anew. It returns the instant between.
func (s *scene) restart(t *testing.T) time.Time {
	t.Helper()
	s.stopKeeper(t)
	at := time.Now()
	s.startKeeper(t)
	return at
}

// writes returns how Taintkeeper has changed a node since the scene began.
func (s *scene) writes(t *testing.T, k *kubelet) []write {
	t.Helper()
	return slices.DeleteFunc(writes(t, k.node.Name), func(w write) bool { return w.Received.Before(s.began) })
}

// story returns what became of a node by each of the writes.
func (s *scene) story(t *testing.T, k *kubelet) []string {
	t.Helper()
	var all []string
	for _, w := range s.writes(t, k) {
		all = append(all, w.String())
	}
	return all
}

// wantStory checks that Taintkeeper has changed a node in this way, and in no other, not for a moment.
func (s *scene) wantStory(t *testing.T, k *kubelet, want ...string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("the audit log, which is a little late, has %d writes of node %s", len(want), k.node.Name), func(context.Context) error {
		if got := s.story(t, k); len(got) < len(want) {
			return fmt.Errorf("it became in turn %q, want %q", got, want)
		}
		return nil
	})
	if got := s.story(t, k); !slices.Equal(got, want) {
		t.Errorf("node %s became in turn %q, want %q", k.node.Name, got, want)
	}
}

// becomes waits until a node has these taints, and until the audit log, which is a little late, tells of it.
func (s *scene) becomes(t *testing.T, k *kubelet, want string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("node %s has the taints %q", k.node.Name, want), func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, k.node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := taintsOf(node); got != want {
			return fmt.Errorf("it has %q, and became %q", got, s.story(t, k))
		}
		known := untainted // as every node is when the scene begins
		if writes := s.writes(t, k); len(writes) > 0 {
			known = taintsOf(&writes[len(writes)-1].node)
		}
		if known != want {
			return fmt.Errorf("it has, but by the audit log it became %q", s.story(t, k))
		}
		return nil
	})
}

// calledSilent checks when Taintkeeper last set the conditions of a node to Unknown, and returns that write.
func (s *scene) calledSilent(t *testing.T, k *kubelet, earliest time.Time) write {
	t.Helper()
	writes := slices.DeleteFunc(s.writes(t, k), func(w write) bool { return !w.ofStatus() })
	if len(writes) == 0 {
		t.Fatalf("node %s was never called silent", k.node.Name)
	}
	last := writes[len(writes)-1]
	latest := patience
	if len(s.outages) > 0 {
		latest += reopens
	}
	checkWithin(t, "node "+k.node.Name+" was called silent", last.call, earliest, latest)
	return last
}

// checkInstant checks that a call came no earlier than it may, and not much later.
func checkInstant(t *testing.T, what string, c call, earliest time.Time) {
	t.Helper()
	checkWithin(t, what, c, earliest, patience)
}

func checkWithin(t *testing.T, what string, c call, earliest time.Time, within time.Duration) {
	t.Helper()
	earliest = earliest.Truncate(time.Microsecond) // as the audit log writes it
	if c.Received.Before(earliest) {
		t.Errorf("%s %s too early: %v", what, earliest.Sub(c.Received), c)
	}
	if late := c.Received.Sub(earliest); late > within {
		t.Errorf("%s %s late: %v", what, late, c)
	}
}

// executions returns the writes by which nodes got a NoExecute taint, in order.
func (s *scene) executions(t *testing.T, kubelets []*kubelet) []write {
	t.Helper()
	var all []write
	for _, k := range kubelets {
		before := false
		for _, w := range s.writes(t, k) {
			if now := executes(&w.node); now && !before {
				all = append(all, w)
			}
			before = executes(&w.node)
		}
	}
	slices.SortFunc(all, func(a, b write) int { return a.Received.Compare(b.Received) })
	return all
}

// pod makes a pod on a node, which its kubelet says is ready.
func (s *scene) pod(t *testing.T, name string, k *kubelet, tolerations ...corev1.Toleration) *corev1.Pod {
	t.Helper()
	pod := newPod(name, tolerations...)
	pod.Spec.NodeName = k.node.Name
	created, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	await.Must(t, err)
	ready := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"Posted"}]}}`)
	_, err = admin.CoreV1().Pods(created.Namespace).Patch(t.Context(), name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	await.Must(t, err)
	return created
}

func newPod(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Tolerations:                  tolerations,
			Containers:                   []corev1.Container{{Name: "main", Image: "none"}},
			AutomountServiceAccountToken: new(bool),
		},
	}
}

// look returns a pod as it is.
func look(ctx context.Context, t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	found, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, pod.Name, metav1.GetOptions{})
	await.Must(t, err)
	return found
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return corev1.PodCondition{}
	}
	return pod.Status.Conditions[i]
}

// says waits until there is an event about an object with this reason whose message contains the words.
func says(t *testing.T, about types.UID, reason, words string) corev1.Event {
	t.Helper()
	var found corev1.Event
	await.Eventually(t, fmt.Sprintf("an event %s says %q", reason, words), func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(about)})
		if err != nil {
			return err
		}
		var said []string
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, words) {
				found = event
				return nil
			}
			said = append(said, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("there are %q", said)
	})
	return found
}
