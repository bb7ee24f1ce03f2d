// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// charge is what a replica did wrong.
type charge string

const (
	lost  charge = "lost"  // a pod that had to leave and was not evicted
	tardy charge = "late"  // a pod that was evicted long after it had to leave
	early charge = "early" // a pod that was evicted too early
	wrong charge = "wrong" // a pod that need not have left at all
	twice charge = "twice" // a pod that was known to be leaving already

	strange charge = "strange" // a call that no step of the explored worlds makes
	foreign charge = "foreign" // a pod that the built-in evicted although the eviction clock was fresh
)

var charges = []charge{lost, tardy, early, wrong, twice, strange, foreign}

// finding is one thing that went wrong.
type finding struct {
	charge charge
	uid    types.UID // of the pod; empty if that is not known
	name   string
	when   time.Time
	until  time.Time // how long it lasted; zero for an instant
	why    string
}

// judge finds what went wrong.
func (h *history) judge() []finding {
	var found []finding
	for _, c := range h.calls {
		if c.writes() {
			found = append(found, h.judgeCall(c)...)
		}
	}
	found = append(found, h.judgeStamps()...)
	found = append(found, h.judgeDelays()...)
	found = append(found, h.judgeForeign()...)
	for _, is := range h.unknown {
		if is.Why == auditlog.Unmarked && h.failedToMark(is.UID, is.Received) {
			continue
		}
		name := is.Namespace + "/" + is.Name
		found = append(found, finding{charge: strange, uid: is.UID, name: name, when: is.Received, why: is.Why})
	}
	found = append(found, h.judgeStays()...)
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.name, b.name))
	})
	return found
}

// failedToMark reports whether replicas had failed three times to mark a pod, because then one deletes it unmarked. The
// audit log does not have the calls that a proxy refused.
func (h *history) failedToMark(uid types.UID, before time.Time) bool {
	const tries = 3
	failed := 0
	for _, c := range h.calls {
		if c.kind == patchPod && c.uid == uid && c.told.Before(before) && !c.delivered() {
			failed++
		}
	}
	return failed >= tries
}

// judgeCall judges one DELETE, or one PATCH of the condition, of a replica. It also judges calls that were never
// carried out, because the replica still decided on them.
func (h *history) judgeCall(c *call) []finding {
	charged := func(as charge, format string, args ...any) []finding {
		why := fmt.Sprintf("%s by run %d of %s %s", c.kind, c.run, c.replica, fmt.Sprintf(format, args...))
		return []finding{{charge: as, uid: c.uid, name: c.name, when: c.received, why: why}}
	}
	if c.uid == "" {
		return charged(wrong, "has no UID precondition")
	}
	pod := h.pods[c.uid]
	if pod == nil || pod.name != c.name {
		return charged(wrong, "has UID %s, which no pod of that name ever had", c.uid)
	}
	if before := h.delivered(c); before != nil {
		return charged(twice, "was sent %s after the replica was told that an earlier one had been accepted", c.received.Sub(before.told).Round(time.Millisecond))
	}
	known := h.knowledge(c, pod)
	switch {
	case known.due && h.shouldHaveAborted(c, pod):
		return charged(wrong, "was carried out %s after it was sent, long after the pod no longer had to leave: it was not aborted", c.answered.Sub(c.received).Round(time.Millisecond))
	case known.due:
		return nil
	case known.onlyTerminating && pod.byKeeper():
		return charged(twice, "was sent although the replica had seen long before that the pod was terminating")
	case known.onlyTerminating:
		return charged(wrong, "is for a pod that the replica had long seen terminating or gone")
	case known.leaves:
		return charged(early, "was sent %s before the pod could be due", known.earliest.Sub(c.received).Round(time.Millisecond))
	}
	return charged(wrong, "is for a pod that need not leave, judging by everything that the replica can have known for %s", c.received.Sub(known.nodeSince).Round(time.Millisecond))
}

// abortedWithin is how long it may take to abort a DELETE after the watch has shown that the pod need no longer leave.
const abortedWithin = time.Second

// shouldHaveAborted reports whether a DELETE was carried out although its sender must have known for some time that the
// pod no longer had to leave. The API server can answer long after the pod has begun to leave: it asks webhooks twice.
func (h *history) shouldHaveAborted(c *call, p *pod) bool {
	by := c.answered.Add(-abortedWithin)
	if left, ok := p.left(); ok && left.visible.Before(c.answered) {
		by = left.visible.Add(-abortedWithin)
	}
	if c.kind != deletePod || !c.accepted() || by.Before(c.received) {
		return false
	}
	known := h.watched(c, p, by)
	return !known.leaves && !known.onlyTerminating
}

// delivered returns an earlier DELETE of the same pod that the same process knows was accepted.
func (h *history) delivered(c *call) *call {
	if c.kind != deletePod {
		return nil
	}
	for _, before := range h.calls {
		if !before.received.Before(c.received) {
			return nil
		}
		if before.kind == deletePod && before.uid == c.uid && before.process == c.process &&
			before.delivered() && before.told.Before(c.received) {
			return before
		}
	}
	return nil
}

// judgeStamps judges what the replicas wrote to nodes: only the timeAdded of taints that had none, or one later than
// when they began to count. That timeAdded must not be before the taint was there, or in the future. What hands the
// evictions back to the built-in is not judged.
func (h *history) judgeStamps() []finding {
	var found []finding
	for name, states := range h.nodes {
		for i := 1; i < len(states); i++ {
			if states[i].writer != keeperUser || states[i].handedBack {
				continue
			}
			if as, why := stampFault(states[i-1].taints, states[i]); why != "" {
				found = append(found, finding{charge: as, name: name, when: states[i].from.To, why: why})
			}
		}
	}
	return found
}

func stampFault(before []oracle.Taint, stamped nodeState) (as charge, why string) {
	after := stamped.taints
	if len(before) != len(after) {
		return wrong, fmt.Sprintf("a PATCH of the node by a replica changes the number of its NoExecute taints from %d to %d", len(before), len(after))
	}
	for i := range after {
		was, is := find(before, after[i].Key), after[i].ToString()
		switch {
		case was == nil || was.Value != after[i].Value:
			return wrong, fmt.Sprintf("a PATCH of the node by a replica adds the taint %s", is)
		case was.TimeAdded.Equal(after[i].TimeAdded):
		case !was.TimeAdded.IsZero() && (after[i].TimeAdded.IsZero() || was.TimeAdded.Before(after[i].TimeAdded)):
			return wrong, fmt.Sprintf("a PATCH of the node by a replica moves timeAdded of the taint %s later, or removes it", is)
		case oracle.EndOfSecond(after[i].TimeAdded.Time).Before(was.Since.From):
			return early, fmt.Sprintf("a replica wrote that the taint %s has been there since %s, but it came %s later: all its deadlines are too early", is,
				after[i].TimeAdded.UTC().Format(time.TimeOnly),
				was.Since.From.Sub(oracle.EndOfSecond(after[i].TimeAdded.Time)).Round(time.Millisecond))
		case after[i].TimeAdded.After(stamped.from.To.Add(resolution)):
			return tardy, fmt.Sprintf("a replica wrote that the taint %s was set at %s, which is %s ahead: all its deadlines are too late", is,
				after[i].TimeAdded.UTC().Format(time.TimeOnly), after[i].TimeAdded.Sub(stamped.from.To).Round(time.Millisecond))
		}
	}
	return "", ""
}

func find(taints []oracle.Taint, key string) *oracle.Taint {
	for i := range taints {
		if taints[i].Key == key {
			return &taints[i]
		}
	}
	return nil
}

// markedWithin is how long before its DELETE the built-in can have marked a pod, or have seen its own mark on it: it is
// allowed 20 calls a second, and with a backlog it waits its turn between the two. Nobody can stop such a DELETE.
const markedWithin = time.Minute

// judgeForeign finds the evictions by the built-in while the eviction clock was fresh: pods that it marked, and pods
// that it deleted although it cannot have marked them recently.
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
	return slices.ContainsFunc(h.streams, func(s *stream) bool {
		return s.process == c.process && s.kind == kind && !s.opened.Add(catchUp).After(during.From) &&
			s.inOrderUntil(c.received).Add(-h.hasteAt(c.received)).After(during.To)
	})
}
