// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// foreignCall is a call by which the built-in evicts and that the API server accepted: it marks a pod, or deletes one.
type foreignCall struct {
	span // from its receipt to its answer

	kind callKind
	uid  types.UID
	name string // of the pod, with its namespace
}

// noteForeign notes a change of a pod if the built-in made it: a DELETE, or a patch that brings a mark. Of its
// controllers that bear this name only the one that evicts changes pods here. A mark that is there already is brought
// again by a late patch, of which nothing is left to refuse.
func (a *audited) noteForeign(e auditlog.Event, pod *corev1.Pod) {
	c := foreignCall{span: span{e.Received, e.Answered}, uid: pod.UID, name: pod.Namespace + "/" + pod.Name}
	marks := !a.marked[pod.UID]
	a.marked[pod.UID] = slices.ContainsFunc(pod.Status.Conditions, byBuiltIn)
	switch {
	case !e.ByBuiltIn():
		return
	case e.Verb == "delete" && e.Resource == "pods":
		c.kind = deletePod
	case e.Verb == "patch" && e.Resource == "pods/status" && marks:
		c.kind = patchPod
	default:
		return
	}
	a.foreign = append(a.foreign, c)
}

// byBuiltIn reports whether a condition is a mark of the built-in, or what is left of one.
func byBuiltIn(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && strings.HasPrefix(c.Message, "Taint manager:")
}

// markedWithin is how long before its DELETE the built-in can have marked a pod, or have seen its own mark on it: it is
// allowed 20 calls a second, and with a backlog it waits its turn between the two. Nobody can stop such a DELETE.
const markedWithin = time.Minute

// judgeForeign finds the evictions by the built-in while the eviction clock was fresh: pods that it marked, and pods
// that it deleted although it can have marked none for long.
func (h *history) judgeForeign() []finding {
	var found []finding
	for _, c := range h.foreign {
		fresh := h.clock.Fresh(c.earliest, c.latest)
		for ago := time.Duration(0); c.kind == deletePod && fresh && ago <= markedWithin; ago += time.Second {
			at := c.earliest.Add(-ago)
			fresh = h.clock.Fresh(at, at)
		}
		if fresh {
			why := string(c.kind) + " of the built-in was accepted while the eviction clock was fresh"
			found = append(found, finding{charge: foreign, uid: c.uid, name: c.name, when: c.earliest, why: why})
		}
	}
	return found
}

// byBuiltIn reports whether the pod began to leave because the built-in deleted it.
func (p *pod) byBuiltIn() bool {
	state, ok := p.left()
	return ok && auditlog.Event{User: state.writer}.ByBuiltIn()
}
