// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// foreignCall is a call by which the built-in evicts and that the API server accepted: it marks a pod, or deletes one.
type foreignCall struct {
	span // from its receipt to its answer

	kind callKind
	uid  types.UID
	name string // of the pod, with its namespace
}

// noteForeign notes a change of a pod if the built-in made it: a DELETE, or a patch that brings a mark. Of the
// built-in's controllers that use this name, only the one that evicts changes pods here. A late patch may bring a mark
// that is already there, so there is nothing left in it to refuse.
func (a *audited) noteForeign(e auditlog.Event, pod *corev1.Pod) {
	c := foreignCall{span: oracle.Between(e.Received, e.Answered), uid: pod.UID, name: pod.Namespace + "/" + pod.Name}
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
// that it marked, and pods that it deleted although it cannot have marked them recently.
func (h *history) judgeForeign() []finding {
	var found []finding
	for _, c := range h.foreign {
		fresh := h.clock.Fresh(c.From, c.To)
		for ago := time.Duration(0); c.kind == deletePod && fresh && ago <= markedWithin; ago += time.Second {
			at := c.From.Add(-ago)
			fresh = h.clock.Fresh(at, at)
		}
		if fresh {
			why := string(c.kind) + " by the built-in was accepted while the eviction clock was fresh"
			found = append(found, finding{charge: foreign, uid: c.uid, name: c.name, when: c.From, why: why})
		}
	}
	return found
}

// judgeStays finds the pods that the built-in deleted although no taint of their nodes asked for it: it works off, by
// name, what it began while it was refused. Nothing can prevent that if it marked the pod while the pod was due, or if
// no replica could know and record that it would try.
func (h *history) judgeStays() []finding {
	dueBefore := map[string][]stretch{} // by the name of the pod
	for _, s := range h.stretches() {
		dueBefore[s.pod.name] = append(dueBefore[s.pod.name], s)
	}
	var found []finding
	for _, c := range h.foreign {
		p := h.pods[c.uid]
		if c.kind != deletePod || p == nil || !p.byBuiltIn() {
			continue
		}
		known := h.known(p, c.To, c.From, func(string) time.Time { return c.From })
		if known.leaves || known.onlyTerminating {
			continue
		}
		why := "the built-in deleted it although no taint of its node required that, and no pod of that name was ever due"
		if cause, ok := causeOf(c, dueBefore[c.name]); ok {
			if h.markedBefore(c, cause.staysFrom(p)) || !h.recorded(cause, p, c) {
				continue
			}
			why = fmt.Sprintf("the built-in deleted it although no taint of its node required that, and a replica had recorded that %s had been due", cause.pod.name)
		}
		found = append(found, finding{charge: wrong, uid: c.uid, name: c.name, when: c.From, why: why})
	}
	return found
}

// causeOf returns when a pod with a name was last due before the built-in deleted one with that name.
func causeOf(c foreignCall, due []stretch) (cause stretch, ok bool) {
	for _, s := range due {
		if s.due.Before(c.From) && (!ok || s.due.After(cause.due)) {
			cause, ok = s, true
		}
	}
	return cause, ok
}

// staysFrom returns from when a pod that the built-in may still try to delete may stay: when it was no longer due, or
// when it took the name of a pod that was due.
func (s stretch) staysFrom(p *pod) time.Time {
	if s.pod == p {
		return s.ended
	}
	return p.states[0].from.To
}

// markedBefore reports whether the built-in had marked a pod of that name by an instant.
func (h *history) markedBefore(c foreignCall, instant time.Time) bool {
	return slices.ContainsFunc(h.foreign, func(mark foreignCall) bool {
		return mark.kind == patchPod && mark.name == c.name &&
			!mark.From.After(instant) && mark.From.After(c.From.Add(-markedWithin))
	})
}

// recorded reports whether a replica that had seen that a pod was due wrote the eviction clock once it knew that a
// pod of that name stays, and before the built-in deleted it.
func (h *history) recorded(cause stretch, p *pod, deleted foreignCall) bool {
	stays := cause.due // what took the name of a pod that was due is protected before it is there
	if cause.pod == p {
		stays = cause.ended
	}
	return slices.ContainsFunc(h.calls, func(c *call) bool {
		return c.kind == clockCall && c.accepted() && c.answered.Before(deleted.From.Add(-time.Second)) &&
			h.sawAll(c, watchNodes, oracle.Between(cause.due, stays)) && h.sawAll(c, watchPods, oracle.Between(cause.due, stays))
	})
}

// sawAll reports whether one watch of a call's sender had delivered, before the call, everything that happened in a
// period.
func (h *history) sawAll(c *call, kind callKind, during span) bool {
	return slices.ContainsFunc(h.streams, func(s stream) bool {
		return s.replica == c.replica && s.run == c.run && s.kind == kind && !s.opened.Add(catchUp).After(during.From) &&
			s.inOrderUntil(c.received).Add(-h.hasteAt(c.received)).After(during.To)
	})
}

// byBuiltIn reports whether the pod began to leave because the built-in deleted it.
func (p *pod) byBuiltIn() bool {
	state, ok := p.left()
	return ok && auditlog.Event{User: state.writer}.ByBuiltIn()
}
