// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// What the actions are called in a timetable.

func (a fall) String() string     { return "fall silent: " + strings.Join(a.Nodes, ", ") }
func (a resume) String() string   { return fmt.Sprintf("node %s: its kubelet resumes", a.Node) }
func (a ready) String() string    { return fmt.Sprintf("node %s: Ready %s", a.Node, a.Status) }
func (a pressure) String() string { return fmt.Sprintf("node %s: %s %s", a.Node, a.Type, a.Status) }

func (a network) String() string {
	return fmt.Sprintf("node %s: NetworkUnavailable %s", a.Node, a.Status)
}

func (a cordon) String() string {
	if a.Cordoned {
		return fmt.Sprintf("node %s: cordoned", a.Node)
	}
	return fmt.Sprintf("node %s: uncordoned", a.Node)
}

func (a taint) String() string {
	return fmt.Sprintf("node %s: another client sets taint %s:%s", a.Node, a.Key, a.Effect)
}

func (a untaint) String() string {
	return fmt.Sprintf("node %s: another client removes taint %s:%s", a.Node, a.Key, a.Effect)
}

func (a touch) String() string {
	return fmt.Sprintf("node %s: another client writes to its Lease", a.Node)
}

func (a addNode) String() string    { return a.Node.String() }
func (a removeNode) String() string { return fmt.Sprintf("node %s: removed", a.Node) }
func (a restart) String() string    { return fmt.Sprintf("the controller restarts; away for %s", a.Down) }

func (n nodeSpec) String() string {
	words := []string{fmt.Sprintf("node %s in zone %s, renews at %s", n.Name, n.Zone, arena.Clock(n.Phase))}
	for _, flag := range []struct {
		is   bool
		word string
	}{
		{n.Excluded, "excluded from disruption checks"}, {n.Cordoned, "cordoned"},
		{n.Mute && !n.Absent, "its status not posted yet"}, {n.Absent, "without a kubelet"},
	} {
		if flag.is {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, ", ")
}

func (l look) String() string {
	if l.gone {
		return arena.Clock(l.at) + " gone"
	}
	ready := string(l.ready)
	if ready == "" {
		ready = "-"
	}
	words := []string{arena.Clock(l.at), ready}
	if l.noSchedule != "" {
		words = append(words, "NoSchedule:"+l.noSchedule)
	}
	if l.noExecute != "" {
		words = append(words, "NoExecute:"+l.noExecute)
		if l.since != undated {
			words = append(words, fmt.Sprintf("since %s", l.since))
		}
	}
	return strings.Join(words, " ")
}
