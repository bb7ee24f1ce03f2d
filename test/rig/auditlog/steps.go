// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Unknown returns those of some calls about pods that no step of the explored worlds makes (test/explore/evictions): of
// a kind that they do not know, or in an order that they never take. So what the explorer shows for its worlds says
// something about the cluster that the log is of. The log was written with the policy [Changes]. The steps are:
//
//   - Taintkeeper marks a pod and then deletes it, or asks the Eviction API about it. Each call is for a UID, and none
//     follows one that has removed the pod.
//   - Taintkeeper lets a pod that a policy holds tolerate its node. The explored worlds have no kubelets.
//   - Node health says that a pod of a silent node is not ready, also while it terminates. Node health has a world of
//     its own.
//   - The built-in marks a pod, but never while the eviction clock is fresh, and deletes by names that it has marked.
func Unknown(calls []Event, asked Filter) (unknown []UnknownStep, err error) {
	clock, err := EvictionClockOf(calls)
	if err != nil {
		return nil, err
	}
	calls = Choose(calls, asked, writesPods)
	slices.SortStableFunc(calls, Event.Compare)
	known := steps{clock: clock, marked: map[types.UID]bool{}, removed: map[types.UID]Event{}, named: map[string]bool{}}
	for _, c := range calls {
		why := ""
		switch {
		case saysNotReady(c):
		case c.ByTaintkeeper():
			why = known.ours(c)
		case c.ByBuiltIn():
			why = known.builtIn(c)
		}
		if why != "" {
			unknown = append(unknown, UnknownStep{c, why})
		}
	}
	return unknown, nil
}

// saysNotReady wants what node health writes to pods, Taintkeeper's or the built-in's.
func saysNotReady(e Event) bool { return StatusPatches(e) && e.Condition == string(corev1.PodReady) }

// Unmarked says that a delete of Taintkeeper's is unknown because the log has no mark of the pod.
const Unmarked = "it deletes what it has not marked"

// UnknownStep is a call that no step makes.
type UnknownStep struct {
	Event

	Why string
}

// writesPods wants the calls that write pods. One for which a right is missing is refused before its body is read.
func writesPods(e Event) bool {
	reads := e.Verb == "get" || e.Verb == "list" || e.Verb == "watch"
	return !reads && e.Code != http.StatusForbidden && (e.Resource == "pods" || strings.HasPrefix(e.Resource, "pods/"))
}

// CheckSteps checks that all calls are steps that the explored worlds know.
func CheckSteps(t testing.TB, calls []Event) {
	t.Helper()
	unknown, err := Unknown(calls, func(Event) bool { return true })
	if err != nil {
		t.Error(err)
	}
	for _, is := range unknown {
		t.Errorf("%v: %s", is.Event, is.Why)
	}
}

// ByTaintkeeper reports whether Taintkeeper sent the call, in whichever namespace it is installed.
func (e Event) ByTaintkeeper() bool {
	return strings.HasPrefix(e.User, "system:serviceaccount:") && strings.HasSuffix(e.User, ":taintkeeper")
}

// steps are what was done so far.
type steps struct {
	clock   EvictionClock
	marked  map[types.UID]bool  // by Taintkeeper
	removed map[types.UID]Event // by Taintkeeper
	named   map[string]bool     // namespaces and names that the built-in marked
}

// mayBeDone reports whether a call may have been carried out. A hook that hung or an answer that was lost is a 5xx.
func mayBeDone(c Event) bool { return c.Code < 400 || c.Code >= 500 }

func (s *steps) ours(c Event) (why string) {
	switch c.Verb + " " + c.Resource {
	case "patch pods": // which keeps a held pod
		return ""
	case "patch pods/status", "delete pods", "create pods/eviction":
	default:
		return "Taintkeeper makes no such call"
	}
	switch {
	case c.UID == "":
		return unnamed(c)
	case c.Accepted() && s.hadRemoved(c):
		return fmt.Sprintf("it had removed that pod: %v", s.removed[c.UID])
	case Deletes(c) && !s.marked[c.UID] && !showsMark(c):
		return Unmarked
	case StatusPatches(c):
		s.marked[c.UID] = s.marked[c.UID] || mayBeDone(c)
	case c.Accepted():
		s.removed[c.UID] = c
	}
	return ""
}

// unnamed says what is strange about a call without a UID: nothing, if it ended before its body was read.
func unnamed(c Event) (why string) {
	if c.Unread && !c.Accepted() {
		return ""
	}
	return "it is for no UID"
}

// hadRemoved reports whether the pod of a call had been removed before Taintkeeper sent the call.
func (s *steps) hadRemoved(c Event) bool {
	before, removed := s.removed[c.UID]
	return removed && before.Answered.Before(c.Received)
}

// showsMark reports whether the answer to a delete shows a mark. The log lacks the calls that were under way when the
// API server was killed.
func showsMark(c Event) bool {
	var pod struct{ Status corev1.PodStatus }
	marks := func(is corev1.PodCondition) bool {
		return is.Type == corev1.DisruptionTarget && is.Status == corev1.ConditionTrue
	}
	return json.Unmarshal(c.Response, &pod) == nil && slices.ContainsFunc(pod.Status.Conditions, marks)
}

func (s *steps) builtIn(c Event) (why string) {
	name := c.Namespace + "/" + c.Name
	switch c.Verb + " " + c.Resource {
	case "patch pods/status":
		s.named[name] = s.named[name] || mayBeDone(c)
		if c.Accepted() && s.clock.Fresh(c.Received, c.Answered) {
			why = "the built-in marks a pod while the eviction clock is fresh"
		}
	case "delete pods":
		if !s.named[name] {
			why = "the built-in deletes what it has not marked"
		}
	}
	return why
}
