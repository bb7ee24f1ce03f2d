// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

var nodeResource = corev1.Resource("nodes")

// How long a call that writes takes. Nothing else takes time, so whatever follows from a write has followed before its
// writer continues. Runs differ only in which of the nodes that fall at one instant is first, because that depends on
// how our goroutines happen to run. A status takes longer, because two writes of taints can follow from it.
const (
	taintTakes  = time.Microsecond
	statusTakes = 5 * time.Microsecond
)

// react answers every call but a watch.
func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	var takes time.Duration
	switch action.GetVerb() {
	case "patch", "update":
		takes = taintTakes
		if action.GetSubresource() == "status" {
			takes = statusTakes
		}
	}
	object, err := w.answer(action)
	if takes > 0 {
		arena.TakeTime(w.client, func() { arena.Sleep(takes) })
	}
	return true, object, err
}

func (w *world) answer(action clienttesting.Action) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		if node, ok := w.cluster.nodes[action.Name]; ok && action.Matches("get", "nodes") {
			return node.DeepCopy(), nil
		}
		if lease, ok := w.cluster.leases[action.Name]; ok && action.Matches("get", "leases") {
			return lease.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(action.Resource.GroupResource(), action.Name)
	case clienttesting.ListActionImpl:
		return w.list(action)
	case clienttesting.PatchActionImpl:
		return w.patch(action)
	case clienttesting.UpdateActionImpl:
		return w.update(action)
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			w.events = append(w.events, event.DeepCopy())
			return event, nil
		}
	}
	return nil, arena.Unexpected(action)
}

func (w *world) list(action clienttesting.ListActionImpl) (runtime.Object, error) {
	version := metav1.ListMeta{ResourceVersion: strconv.Itoa(w.cluster.version)}
	switch action.Resource.Resource {
	case "nodes":
		list := &corev1.NodeList{ListMeta: version}
		for _, node := range arena.Sorted(w.cluster.nodes) {
			list.Items = append(list.Items, *node)
		}
		return list, nil
	case "leases":
		list := &coordinationv1.LeaseList{ListMeta: version}
		for _, lease := range arena.Sorted(w.cluster.leases) {
			list.Items = append(list.Items, *lease)
		}
		return list, nil
	case "pods":
		return &corev1.PodList{ListMeta: version}, nil
	case "daemonsets":
		return &appsv1.DaemonSetList{ListMeta: version}, nil
	}
	return nil, arena.Unexpected(action)
}

// update answers the update there is: of a node's status.
func (w *world) update(action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	next, ok := action.Object.(*corev1.Node)
	if !ok || action.Subresource != "status" {
		return nil, arena.Unexpected(action)
	}
	before, ok := w.cluster.nodes[next.Name]
	if !ok {
		return nil, apierrors.NewNotFound(nodeResource, next.Name)
	}
	if next.ResourceVersion != before.ResourceVersion {
		return nil, conflict(next.Name)
	}
	after := *before
	after.Status = *next.Status.DeepCopy()
	return w.write(&after), nil
}

// patch answers the patches there are: of a node, of its status, of our own lease, and of an event that is told again.
func (w *world) patch(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.Resource.Resource == "events" {
		return &corev1.Event{}, nil
	}
	if action.Resource.Resource == "leases" && action.PatchType == types.ApplyPatchType {
		lease := &coordinationv1.Lease{}
		if err := json.Unmarshal(action.Patch, lease); err != nil {
			return nil, err
		}
		w.cluster.putLease(lease.Name, lease)
		return lease, nil
	}
	if action.Resource.Resource != "nodes" {
		return nil, arena.Unexpected(action)
	}
	before, ok := w.cluster.nodes[action.Name]
	if !ok {
		return nil, apierrors.NewNotFound(nodeResource, action.Name)
	}
	after, err := patched(before, action)
	if err != nil {
		return nil, err
	}
	return w.write(after), nil
}

func (w *world) write(after *corev1.Node) *corev1.Node {
	w.writes[after.Name]++
	w.cluster.put(after.Name, after)
	return after.DeepCopy()
}

// patched applies a patch to a node. The UID and the resource version, if the patch names them, are
// preconditions.
func patched(before *corev1.Node, action clienttesting.PatchActionImpl) (*corev1.Node, error) {
	after, err := arena.Patched(before, action)
	if err != nil {
		return nil, err
	}
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		return nil, conflict(action.Name)
	}
	return after, nil
}

func conflict(name string) error {
	return apierrors.NewConflict(nodeResource, name, fmt.Errorf("%w", errModified))
}

var errModified = errors.New("the object has been modified")
