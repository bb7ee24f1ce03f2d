// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

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
