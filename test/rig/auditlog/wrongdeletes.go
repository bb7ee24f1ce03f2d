// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/taints"
)

// WrongDelete is an accepted delete of a pod that should have stayed: its node had no NoExecute taint that the pod does
// not tolerate, or tolerates for only a while.
type WrongDelete struct {
	Event Event
	UID   types.UID
	Node  string
	// Taints are the NoExecute taints of the node at that time.
	Taints []corev1.Taint
}

func (w WrongDelete) String() string {
	return fmt.Sprintf("%s; the pod %s was on node %s with the NoExecute taints %v", w.Event, w.UID, w.Node, w.Taints)
}

// WrongDeletes returns the wrong ones among the given deletes, from a log that was written with the policy [Changes].
// The answers say which pod was deleted, and their resourceVersions in which order pods and nodes changed, whatever the
// order of the lines; an answer without one, as when a pod is gone at once, counts where its line is. Each pod counts
// once, because deleting a terminating pod does no harm.
func WrongDeletes(events []Event, asked Filter) ([]WrongDelete, error) {
	h := history{nodes: map[string][]nodeVersion{}}
	for _, e := range events {
		if err := h.note(e); err != nil {
			return nil, fmt.Errorf("the answer to %s: %w", e, err)
		}
	}
	slices.SortStableFunc(h.deletes, func(a, b deletedPod) int { return cmp.Compare(a.version, b.version) })
	var wrong []WrongDelete
	gone := map[types.UID]bool{}
	for _, d := range h.deletes {
		first := !gone[d.pod.UID]
		gone[d.pod.UID] = true
		is := taintsAt(h.nodes[d.pod.Spec.NodeName], d.version)
		if first && asked(d.event) && !mayLeave(&d.pod, is) {
			wrong = append(wrong, WrongDelete{Event: d.event, UID: d.pod.UID, Node: d.pod.Spec.NodeName, Taints: is})
		}
	}
	return wrong, nil
}

// history is what an audit log says about nodes and deleted pods.
type history struct {
	nodes   map[string][]nodeVersion
	deletes []deletedPod
	newest  uint64 // version so far
}

func (h *history) note(e Event) (err error) {
	if !e.Accepted() || len(e.Response) == 0 {
		return nil
	}
	var version uint64
	switch {
	case e.Resource == "nodes" && e.Verb != "delete":
		version, err = noteNode(h.nodes, e)
	case Deletes(e):
		var deleted deletedPod
		if deleted, err = deletedBy(e); err != nil || deleted.pod.UID == "" {
			return err
		}
		if deleted.version == 0 {
			deleted.version = h.newest + 1
		}
		version = deleted.version
		h.deletes = append(h.deletes, deleted)
	}
	h.newest = max(h.newest, version)
	return err
}

type nodeVersion struct {
	version uint64
	taints  []corev1.Taint
}

type deletedPod struct {
	event   Event
	version uint64
	pod     corev1.Pod
}

func noteNode(nodes map[string][]nodeVersion, e Event) (version uint64, err error) {
	var node corev1.Node
	if err := json.Unmarshal(e.Response, &node); err != nil {
		return 0, err
	}
	if version, err = strconv.ParseUint(node.ResourceVersion, 10, 64); err != nil {
		return 0, err
	}
	nodes[node.Name] = append(nodes[node.Name], nodeVersion{version, taints.NoExecute(node.Spec.Taints)})
	return version, nil
}

// deletedBy returns the pod that an answer shows; one without a UID if the answer is only that it is done. The version
// is zero if the answer has none.
func deletedBy(e Event) (deletedPod, error) {
	var answer struct {
		Metadata metav1.ObjectMeta
		Spec     corev1.PodSpec
	}
	if err := json.Unmarshal(e.Response, &answer); err != nil {
		return deletedPod{}, err
	}
	deleted := deletedPod{event: e, pod: corev1.Pod{ObjectMeta: answer.Metadata, Spec: answer.Spec}}
	if answer.Metadata.ResourceVersion == "" {
		return deleted, nil
	}
	var err error
	if deleted.version, err = strconv.ParseUint(deleted.pod.ResourceVersion, 10, 64); err != nil {
		return deletedPod{}, err
	}
	return deleted, nil
}

// taintsAt returns the taints that a node had in a version of the cluster.
func taintsAt(versions []nodeVersion, version uint64) []corev1.Taint {
	var newest nodeVersion
	for _, v := range versions {
		if v.version < version && v.version >= newest.version {
			newest = v
		}
	}
	return newest.taints
}

func mayLeave(pod *corev1.Pod, is []corev1.Taint) bool {
	return slices.ContainsFunc(is, func(taint corev1.Taint) bool {
		i, tolerated := (taints.Matcher{}).First(pod.Spec.Tolerations, &taint)
		return !tolerated || pod.Spec.Tolerations[i].TolerationSeconds != nil
	})
}
