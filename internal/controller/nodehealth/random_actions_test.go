// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// action is something that happens, more or less often. The node that it gets is a random one.
type action struct {
	name    string
	weight  int
	happens func(h *history, node string)
}

var actions = []action{
	{"falls silent:", 6, (*history).silence},
	{"resumes:", 4, (*history).resume},
	{"says whether it is ready:", 4, (*history).saysWhetherReady},
	{"flaps:", 4, (*history).flaps},
	{"sees half of its zone fall:", 3, (*history).seesHalfOfItsZoneFall},
	{"sees its zone recover:", 2, (*history).seesItsZoneRecover},
	{"moves to another zone:", 2, (*history).moves},
	{"counts or does not count:", 2, (*history).togglesExclusion},
	{"is recreated:", 2, (*history).isRecreated},
	{"is recreated and never posts:", 2, (*history).isRecreatedAndNeverPosts},
	{"loses its lease:", 6, (*history).losesItsLease},
	{"the Controller restarts, near", 1, (*history).restarts},
	{"the watch of leases breaks, near", 2, (*history).leasesBreak},
	{"the watch of leases hangs, near", 2, (*history).leasesHang},
	{"leases cannot be written, near", 2, (*history).leasesCannotBeWritten},
	{"writes are refused, perhaps of", 2, (*history).writesAreRefused},
	{"all trouble ends, near", 5, (*history).troubleEnds},
}

func (h *history) silence(name string) { h.Silent[name] = true }

func (h *history) resume(name string) {
	delete(h.Silent, name)
	h.renews(name)
	h.saysReady(name, corev1.ConditionTrue)
}

func (h *history) saysReady(name string, status corev1.ConditionStatus) {
	if h.Silent[name] {
		return
	}
	h.known[name].gives(time.Now())
	h.Report(name, corev1.NodeReady, status)
}

func (h *history) saysWhetherReady(name string) {
	h.saysReady(name, []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[h.random.IntN(2)])
}

func (h *history) flaps(name string) {
	for range 1 + h.random.IntN(3) {
		h.saysReady(name, corev1.ConditionFalse)
		h.pass(time.Second)
		h.saysReady(name, corev1.ConditionTrue)
		h.pass(time.Second)
	}
}

// seesHalfOfItsZoneFall makes a line of nodes that wait to be tainted. A node that flaps then changes the state of the
// zone.
func (h *history) seesHalfOfItsZoneFall(name string) {
	for _, other := range h.neighbors(name) {
		if h.random.IntN(2) == 0 {
			h.saysReady(other, corev1.ConditionFalse)
		}
	}
}

func (h *history) seesItsZoneRecover(name string) {
	for _, other := range h.neighbors(name) {
		h.saysReady(other, corev1.ConditionTrue)
	}
}

// neighbors returns the other nodes of a node's zone.
func (h *history) neighbors(name string) []string {
	zone := h.Node(name).Labels[corev1.LabelTopologyZone]
	return slices.DeleteFunc(slices.Clone(h.nodes), func(other string) bool {
		return other == name || h.Node(other).Labels[corev1.LabelTopologyZone] != zone
	})
}

func (h *history) moves(name string) {
	zone := []string{"a", "b", "c"}[h.random.IntN(3)]
	h.ChangeNode(name, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone })
}

func (h *history) togglesExclusion(name string) {
	h.ChangeNode(name, func(n *corev1.Node) {
		if _, ok := n.Labels[excludeDisruption]; ok {
			delete(n.Labels, excludeDisruption)
		} else {
			n.Labels[excludeDisruption] = ""
		}
	})
}

func (h *history) isRecreated(name string) {
	h.replace(name)
	delete(h.Silent, name)
	h.known[name].posted = true
}

// isRecreatedAndNeverPosts makes a node whose kubelet never posts a status. It renews a lease, or it does not even have
// one. The API server's clock dates its creation. It can be some seconds ahead or behind, in whole seconds.
func (h *history) isRecreatedAndNeverPosts(name string) {
	created := time.Now().Truncate(time.Second).Add(time.Duration(h.random.IntN(7)-3) * time.Second)
	h.replace(name, func(n *corev1.Node) {
		n.Status.Conditions = nil
		n.CreationTimestamp = metav1.NewTime(created)
	})
	h.Silent[name] = h.random.IntN(2) == 0
	if h.Silent[name] {
		h.deleteLease(name)
		if created.Before(time.Now()) {
			h.known[name].lastSign = created
		}
	}
}

// replace deletes a node and its lease, and creates another under its name. The Controller sees both, or only the end.
func (h *history) replace(name string, change ...func(*corev1.Node)) {
	zone := h.Node(name).Labels[corev1.LabelTopologyZone]
	h.Must(nil, h.Client.CoreV1().Nodes().Delete(h.T.Context(), name, metav1.DeleteOptions{}))
	h.deleteLease(name)
	if h.random.IntN(2) == 0 {
		synctest.Wait()
	}
	h.addNode(name, zone, append([]func(*corev1.Node){withForeignTaint, func(n *corev1.Node) {
		n.UID = types.UID(fmt.Sprint(name, time.Now().UnixNano()))
	}}, change...)...)
	h.known[name] = &witness{lastSign: time.Now()}
}

// losesItsLease deletes the lease of a node. A kubelet that lives makes it again with its next renewal. While the watch
// hangs, and until it has come back, nothing is deleted: the fake clientset's next watch does not bring what the one
// before kept back, as a real API server's does, but only that the lease is gone.
func (h *history) losesItsLease(name string) {
	if time.Since(h.blind) < seesAgain {
		return
	}
	h.deleteLease(name)
	if h.random.IntN(3) > 0 { // make the Controller look
		h.ChangeNode(name, func(n *corev1.Node) { n.Labels["somebody"] = h.Start.String() })
	}
	synctest.Wait()
}

func (h *history) deleteLease(name string) {
	err := h.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, name)
	if !apierrors.IsNotFound(err) {
		h.Must(nil, err)
	}
}

// restarts restarts the Controller, unless it could not even begin: one that ends before its lists are complete says so as
// an error.
func (h *history) restarts(string) {
	if h.watch.IsBroken() {
		return
	}
	h.Stop()
	h.forgetsTokens()
	h.run(h.connectsAnew)
	h.forgives()
}

func (h *history) leasesBreak(string) {
	if h.watch.IsHeld() {
		h.watch.Break()
		return
	}
	h.watch.Break()
}

func (h *history) leasesHang(string) {
	if !h.watch.IsBroken() {
		h.watch.Hold()
	}
}

func (h *history) leasesCannotBeWritten(string) { h.NoLeases.Store(true) }

func (h *history) writesAreRefused(name string) {
	h.refusal.Store(&refusedWrites{
		node: []string{name, name, ""}[h.random.IntN(3)],
		sub:  []string{"", "status"}[h.random.IntN(2)],
		err:  []error{errForbidden, errNotNow}[h.random.IntN(2)],
	})
}

func (h *history) troubleEnds(string) {
	if h.watch.IsHeld() {
		h.watch.Break()
	}
	if h.inTrouble() || h.watch.IsBroken() {
		h.troubled = time.Now()
	}
	h.watch.Repair()
	h.NoLeases.Store(false)
	h.refusal.Store(nil)
}

// inTrouble reports whether the Controller can at present not be expected to notice silence.
func (h *history) inTrouble() bool {
	return h.watch.IsBroken() || h.watch.IsHeld() || h.NoLeases.Load() || h.refusal.Load() != nil
}
