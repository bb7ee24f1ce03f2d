// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/taints"
)

// RenewEvery is how often kubelets renew their leases.
const RenewEvery = 10 * time.Second

// AddNode creates a node that is ready, in a zone.
func (w *World) AddNode(name, zone string, change ...func(*corev1.Node)) {
	w.T.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-node-" + name), CreationTimestamp: metav1.Now(),
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
	w.Must(w.Client.CoreV1().Nodes().Create(w.T.Context(), node, metav1.CreateOptions{}))
	synctest.Wait()
}

// AddZone creates the given number of ready nodes in a zone, named after the zone.
func (w *World) AddZone(zone string, nodes int, add func(name, zone string)) (names []string) {
	w.T.Helper()
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", zone, i)
		add(name, zone)
		names = append(names, name)
	}
	return names
}

// StartKubelet creates the lease of a node, which is renewed from then on.
func (w *World) StartKubelet(name string) {
	w.T.Helper()
	w.kubelets = true
	w.Must(w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(w.T.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

// Leases is the resource of leases, for the tracker.
var Leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// Renew renews the lease of a node, if it has one.
func (w *World) Renew(name string) {
	object, err := w.API.Get(Leases, corev1.NamespaceNodeLease, name)
	if err != nil || w.NoLeases.Load() {
		return
	}
	lease := object.(*coordinationv1.Lease)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	w.Must(nil, w.API.Update(Leases, lease, lease.Namespace))
}

// RenewAll renews the leases of all nodes whose kubelets are not silent.
func (w *World) RenewAll() {
	w.T.Helper()
	nodes, err := w.Client.CoreV1().Nodes().List(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !w.Silent[name] {
			w.Renew(name)
		}
	}
	synctest.Wait()
}

// Report posts a condition, as a kubelet or another component that knows of it does.
func (w *World) Report(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.T.Helper()
	w.ReportSince(name, kind, status, time.Now())
}

// ReportSince posts a condition with a lastTransitionTime.
func (w *World) ReportSince(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus,
	since time.Time,
) {
	w.T.Helper()
	w.ChangeNode(name, func(node *corev1.Node) {
		same := func(c corev1.NodeCondition) bool { return c.Type == kind }
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, same)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.NewTime(since),
		})
	})
}

// Node returns a node as the API server has stored it.
func (w *World) Node(name string) *corev1.Node {
	w.T.Helper()
	node, err := w.Client.CoreV1().Nodes().Get(w.T.Context(), name, metav1.GetOptions{})
	w.Must(nil, err)
	return node
}

// ChangeNode updates a node, and lets what can happen happen.
func (w *World) ChangeNode(name string, change func(*corev1.Node)) {
	w.T.Helper()
	node := w.Node(name)
	change(node)
	w.UpdateNode(node)
}

// UpdateNode updates a node that was read before, and lets what can happen happen.
func (w *World) UpdateNode(node *corev1.Node) {
	w.T.Helper()
	w.Must(w.Client.CoreV1().Nodes().Update(w.T.Context(), node, metav1.UpdateOptions{}))
	synctest.Wait()
}

// Heartbeat gives a node another version, and nothing else, as its kubelet does all the time.
func (w *World) Heartbeat(name string) {
	w.T.Helper()
	w.ChangeNode(name, func(*corev1.Node) {})
}

// DeleteNode deletes a node.
func (w *World) DeleteNode(name string) {
	w.T.Helper()
	w.Must(nil, w.Client.CoreV1().Nodes().Delete(w.T.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// Taint edits a node's taints as kubectl taint does.
func (w *World) Taint(name string, specs ...string) {
	w.T.Helper()
	w.ChangeNode(name, func(node *corev1.Node) { node.Spec.Taints = w.Edit(node.Spec.Taints, specs...) })
}

// SetTaints replaces the taints of a node.
func (w *World) SetTaints(name string, taints ...corev1.Taint) {
	w.T.Helper()
	w.ChangeNode(name, func(node *corev1.Node) { node.Spec.Taints = taints })
}

// Edit returns taints after kubectl taint has edited them.
func (w *World) Edit(current []corev1.Taint, specs ...string) []corev1.Taint {
	w.T.Helper()
	if len(specs) == 0 {
		return current
	}
	edit, err := taints.ParseEdit(specs...)
	w.Must(nil, err)
	edited, err := edit.Apply(current, taints.OverwriteExisting)
	w.Must(nil, err)
	return edited
}

// Taints returns the taints of a node, as [TaintsOf] writes them.
func (w *World) Taints(name string) []string {
	w.T.Helper()
	return TaintsOf(w.Node(name))
}

// WantTaints wants the taints of a node.
func (w *World) WantTaints(name string, want ...string) {
	w.T.Helper()
	if got := w.Taints(name); !slices.Equal(got, want) {
		w.T.Errorf("after %s node %s has the taints %q, want %q", w.Now(), name, got, want)
	}
}

// TaintsOf returns the taints of a node as key:Effect, in alphabetical order, without the prefix of Kubernetes' own.
func TaintsOf(node *corev1.Node) []string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, strings.TrimPrefix(taint.ToString(), "node.kubernetes.io/"))
	}
	slices.Sort(all)
	return all
}
