// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// What the actions are called in a timetable.

func (a setTaint) String() string {
	return fmt.Sprintf("node %s: taint %s", a.Node, taintWords(a.Taint))
}

func (a changeValue) String() string {
	return fmt.Sprintf("node %s: taint %s gets the value %q, timeAdded stays", a.Node, a.Key, a.Value)
}

func (a retime) String() string {
	if a.TimeAdded == nil {
		return fmt.Sprintf("node %s: taint %s loses its timeAdded", a.Node, a.Key)
	}
	return fmt.Sprintf("node %s: taint %s gets timeAdded %s", a.Node, a.Key, arena.Clock(a.TimeAdded.Truncate(sec)))
}

func (a swap) String() string {
	return fmt.Sprintf("node %s: taint %s becomes %s (timeAdded %s)", a.Node, a.From, a.To, arena.Clock(a.TimeAdded.Truncate(sec)))
}

func (a untaint) String() string    { return fmt.Sprintf("node %s: taint %s removed", a.Node, a.Key) }
func (a removeNode) String() string { return fmt.Sprintf("node %s: removed", a.Node) }
func (a addNode) String() string    { return a.Node.String() }
func (a create) String() string     { return a.Pod.String() }

func (a createUnseen) String() string {
	return fmt.Sprintf("%s; pods are not seen for %s", a.Pod, blindFor)
}

func (a bind) String() string {
	if a.Condition {
		return fmt.Sprintf("pod %s: bound to %s", a.UID, a.Node)
	}
	return fmt.Sprintf("pod %s: bound to %s, without condition PodScheduled", a.UID, a.Node)
}

func (a remove) String() string {
	if a.Force {
		return fmt.Sprintf("pod %s: removed by force", a.UID)
	}
	return fmt.Sprintf("pod %s: deleted by another client", a.UID)
}

func (a tolerate) String() string {
	return fmt.Sprintf("pod %s: tolerates %s", a.UID, tolerationWords(a.Tolerations))
}

func (a finish) String() string  { return fmt.Sprintf("pod %s: phase %s", a.UID, a.Phase) }
func (a restart) String() string { return fmt.Sprintf("the controller restarts; away for %s", a.Down) }

func (n nodeSpec) String() string {
	words := make([]string, len(n.Taints))
	for i := range n.Taints {
		words[i] = taintWords(n.Taints[i])
	}
	if len(words) == 0 {
		return fmt.Sprintf("node %s", n.Name)
	}
	return fmt.Sprintf("node %s with %s", n.Name, strings.Join(words, ", "))
}

func (p podSpec) String() string {
	words := []string{fmt.Sprintf("pod %s", p.UID)}
	if p.UID != p.Name {
		words[0] += fmt.Sprintf(" (named %s)", p.Name)
	}
	if p.Node == "" {
		words = append(words, "unbound")
	} else {
		words = append(words, "on "+p.Node)
	}
	if p.Node != "" && p.Scheduled == nil {
		words = append(words, fmt.Sprintf("created %s, no condition PodScheduled", arena.Clock(p.Created)))
	} else if p.Scheduled != nil {
		words = append(words, "scheduled "+arena.Clock(*p.Scheduled))
	}
	words = append(words, "tolerates "+tolerationWords(p.Tolerations))
	if p.Grace > 0 {
		words = append(words, fmt.Sprintf("grace period %d s", p.Grace))
	}
	if p.Phase != corev1.PodRunning {
		words = append(words, string(p.Phase))
	}
	for word, is := range map[string]bool{"a mirror pod": p.Mirror, "terminating": p.Terminating, "held by a finalizer": p.Held} {
		if is {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

func taintWords(taint corev1.Taint) string {
	if taint.TimeAdded == nil {
		return taint.ToString()
	}
	return fmt.Sprintf("%s (timeAdded %s)", taint.ToString(), arena.Clock(taint.TimeAdded.Sub(arena.Epoch)))
}

func tolerationWords(tolerations []corev1.Toleration) string {
	words := make([]string, len(tolerations))
	for i, toleration := range tolerations {
		words[i] = fmt.Sprintf("%s %s %s", toleration.Key, toleration.Operator, toleration.Value)
		if toleration.Effect != "" {
			words[i] += ":" + string(toleration.Effect)
		}
		words[i] = strings.Join(strings.Fields(words[i]), " ")
		if toleration.TolerationSeconds != nil {
			words[i] += fmt.Sprintf(" for %d s", *toleration.TolerationSeconds)
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, "; ")
}

// when writes the instants at which a pod was deleted.
func when(deletes []time.Duration) string {
	if len(deletes) == 0 {
		return "-"
	}
	words := make([]string, len(deletes))
	for i, at := range deletes {
		words[i] = arena.Clock(at)
	}
	return strings.Join(words, ", ")
}
