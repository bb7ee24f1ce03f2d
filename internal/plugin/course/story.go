// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// tale is the subject of a line of the story. Lines of one instant are in this order.
type tale int

const (
	silent tale = iota
	back
	taintsSet
	serverIsDown
	unreachable
	tainted
	tripped
	left
	preempted
	jobFailed
	withoutRoom // of one workload, from here on
	withoutVolume
	below
)

// ofWorkloads reports whether each line is about one workload.
func (t tale) ofWorkloads() bool { return t >= withoutRoom }

// stories are the tales of steps.
var stories = map[stepKind]tale{falls: silent, comesBack: back, retaints: taintsSet}

// together is how far apart events in the same line can be.
const together = time.Minute

const (
	// nodesPerLine is how many nodes a line names.
	nodesPerLine = 3
	// mostAlike is how many workloads are listed if the same happens to them at the same instant.
	mostAlike = 5
)

// story groups events into lines.
type story struct {
	lines []*line
	open  map[lineKey]*line
}

// lineKey is what all events in one line have in common.
type lineKey struct {
	tale         tale
	zone, detail string
}

type line struct {
	lineKey

	from, to time.Time
	number   int
	lasts    time.Duration // how long a workload has no ready replicas
	names    []string      // a few more than are listed
	known    map[string]bool
}

// add records that something happened to a node, or to a pod on it, and returns the line for it.
func (s *story) add(at time.Time, tale tale, zone, detail, name string) *line {
	key := lineKey{tale, zone, detail}
	is := s.open[key]
	if is == nil || at.Sub(is.to) > together {
		is = &line{lineKey: key, from: at, known: map[string]bool{}}
		if s.open == nil {
			s.open = map[lineKey]*line{}
		}
		s.open[key] = is
		s.lines = append(s.lines, is)
	}
	is.to = at
	is.number++
	if !is.known[name] {
		is.known[name] = true
		is.names = append(is.names, name)
	}
	return is
}

// tell returns the lines in chronological order. For the same instant, the worst workloads come first: by how long they
// have no ready replica, or by how many pods have no room. The others are counted.
func (s *story) tell(start time.Time) []cliv1alpha1.SimulationEvent {
	slices.SortStableFunc(s.lines, func(a, b *line) int {
		if order := cmp.Or(a.from.Compare(b.from), cmp.Compare(a.tale, b.tale)); order != 0 || a.tale == taintsSet {
			return order // steps at the same time stay in their order
		}
		order := cmp.Compare(a.zone, b.zone)
		if a.tale.ofWorkloads() {
			order = cmp.Or(cmp.Compare(b.lasts, a.lasts), cmp.Compare(b.number, a.number))
		}
		return cmp.Or(order, cmp.Compare(a.detail, b.detail))
	})
	events := make([]cliv1alpha1.SimulationEvent, 0, len(s.lines))
	for i := 0; i < len(s.lines); {
		first, alike := s.lines[i], 1
		for first.tale.ofWorkloads() && i+alike < len(s.lines) &&
			s.lines[i+alike].tale == first.tale && s.lines[i+alike].from.Equal(first.from) {
			alike++
		}
		told := alike
		if alike > mostAlike+1 { // one more would only add a line
			told = mostAlike
		}
		at := metav1.Duration{Duration: first.from.Sub(start)}
		for _, is := range s.lines[i : i+told] {
			event := cliv1alpha1.SimulationEvent{At: at, Message: is.message()}
			if is.to.After(is.from) {
				event.Ends = &metav1.Duration{Duration: is.to.Sub(start)}
			}
			events = append(events, event)
		}
		if more := alike - told; more > 0 {
			events = append(events, cliv1alpha1.SimulationEvent{At: at, Message: fmt.Sprintf("the same happens to %d more workloads", more)})
		}
		i += alike
	}
	return events
}

// message is the text of the line.
func (is *line) message() string {
	switch is.tale {
	case silent:
		return is.nodes("falls silent", "fall silent")
	case back:
		return is.nodes("is back", "are back")
	case taintsSet:
		return is.where() + ": " + is.detail
	case serverIsDown:
		return "the API server is down for " + is.detail
	case unreachable:
		return is.nodes("is unreachable", "are unreachable")
	case tainted:
		return is.nodes("is tainted NoExecute by node health", "are tainted NoExecute by node health")
	case left:
		return fmt.Sprintf("%s %s because of %s", is.pods("leaves", "leave"), is.where(), is.detail)
	case preempted:
		return fmt.Sprintf("%s %s, preempted by %s", is.pods("leaves", "leave"), is.where(), is.detail)
	case jobFailed:
		return is.detail + " fails, and its other pods are deleted"
	case withoutRoom:
		return is.pods("finds no room", "find no room") + ": " + is.detail
	case withoutVolume:
		return is.pods("waits for a volume", "wait for volumes") + " still attached to " + is.detail
	}
	return is.detail
}

// does describes what an edit does to the taints of nodes.
func does(edit taints.Edit) string {
	var added, removed, parts []string
	for _, taint := range edit.Add {
		added = append(added, taints.Format(taint))
	}
	for _, removal := range edit.Remove {
		removed = append(removed, strings.TrimSuffix(removal.String(), "-"))
	}
	if len(added) > 0 {
		parts = append(parts, sentence.Agree(len(added), "taint ", "taints ")+strings.Join(added, ", ")+" set")
	}
	if len(removed) > 0 {
		parts = append(parts, sentence.Agree(len(removed), "taint ", "taints ")+strings.Join(removed, ", ")+" removed")
	}
	return strings.Join(parts, ", ")
}

// pods says what one or several pods do.
func (is *line) pods(one, many string) string {
	return sentence.Do(is.number, "pod", one, many)
}

// nodes says what one or several nodes do.
func (is *line) nodes(one, many string) string {
	return is.where() + " " + sentence.Agree(len(is.names), one, many)
}

// where names the nodes of a line, or counts them.
func (is *line) where() string { return nameNodes(is.names, is.zone) }

// nameNodes names nodes, or counts them if there are many.
func nameNodes(names []string, zone string) string {
	if len(names) <= nodesPerLine {
		return sentence.Agree(len(names), "node ", "nodes ") + sentence.Enumerate(names)
	}
	where := sentence.Counted(len(names), "node")
	if zone != "" {
		where += " of zone " + zone
	}
	return where
}
