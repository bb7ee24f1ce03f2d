// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What things are called in a timetable.

func clock(at time.Duration) string { return fmt.Sprintf("%.3f s", at.Seconds()) }

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
	return fmt.Sprintf("node %s: taint %s gets timeAdded %s", a.Node, a.Key, clock(a.TimeAdded.Truncate(sec)))
}

func (a swap) String() string {
	return fmt.Sprintf("node %s: taint %s becomes %s (timeAdded %s)", a.Node, a.From, a.To, clock(a.TimeAdded.Truncate(sec)))
}

func (a untaint) String() string {
	return fmt.Sprintf("node %s: taint %s removed", a.Node, strings.TrimSuffix(a.Key+":"+string(a.Effect), ":"))
}

func (a cordon) String() string {
	if a.Cordoned {
		return fmt.Sprintf("node %s: cordoned", a.Node)
	}
	return fmt.Sprintf("node %s: uncordoned", a.Node)
}

func (a addNode) String() string    { return a.Node.String() }
func (a removeNode) String() string { return fmt.Sprintf("node %s: removed", a.Node) }
func (a fall) String() string       { return "fall silent: " + strings.Join(a.Nodes, ", ") }
func (a resume) String() string     { return fmt.Sprintf("node %s: its kubelet resumes", a.Node) }
func (a report) String() string     { return fmt.Sprintf("node %s: %s %s", a.Node, a.Type, a.Status) }
func (a touch) String() string {
	return fmt.Sprintf("node %s: another client writes to its Lease", a.Node)
}

func (a create) String() string {
	if a.Unseen {
		return fmt.Sprintf("%s; pods are not seen for %s", a.Pod, blindFor)
	}
	return a.Pod.String()
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

// flag is a word for something that is so, or not.
type flag struct {
	is   bool
	word string
}

func withFlags(words []string, flags ...flag) string {
	for _, f := range flags {
		if f.is {
			words = append(words, f.word)
		}
	}
	return strings.Join(words, ", ")
}

func (n nodeSpec) String() string {
	words := []string{"node " + n.Name}
	for _, taint := range n.Taints {
		words = append(words, taintWords(taint))
	}
	return withFlags(words,
		flag{n.Zone != "", "in zone " + n.Zone}, flag{n.Phase > 0, "renews at " + clock(n.Phase)},
		flag{n.Excluded, "excluded from disruption checks"}, flag{n.Cordoned, "cordoned"},
		flag{n.Mute && !n.Absent, "its status not posted yet"}, flag{n.Absent, "without a kubelet"})
}

func (p podSpec) String() string {
	words := []string{"pod " + p.UID}
	if p.UID != p.Name {
		words[0] += fmt.Sprintf(" (named %s)", p.Name)
	}
	where := "unbound"
	if p.Node != "" {
		where = "on " + p.Node
	}
	words = append(words, where)
	switch {
	case p.Scheduled != nil:
		words = append(words, "scheduled "+clock(*p.Scheduled))
	case p.Node != "":
		words = append(words, fmt.Sprintf("created %s, no condition PodScheduled", clock(p.Created)))
	}
	return withFlags(append(words, "tolerates "+tolerationWords(p.Tolerations)),
		flag{p.Grace > 0, fmt.Sprintf("grace period %d s", p.Grace)}, flag{p.Phase != corev1.PodRunning, string(p.Phase)},
		flag{p.Mirror, "a mirror pod"}, flag{p.Terminating, "terminating"}, flag{p.Held, "held by a finalizer"})
}

func taintWords(taint corev1.Taint) string {
	if taint.TimeAdded == nil {
		return taint.ToString()
	}
	return fmt.Sprintf("%s (timeAdded %s)", taint.ToString(), clock(taint.TimeAdded.Sub(epoch)))
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

func (l look) String() string {
	words := []string{clock(l.at)}
	switch {
	case l.deleted:
		return clock(l.at)
	case l.gone:
		return clock(l.at) + " gone"
	case l.ready == "":
		words = append(words, "-")
	default:
		words = append(words, string(l.ready))
	}
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

// when writes the instants at which a pod was deleted.
func when(deletes []look) string {
	var words []string
	for _, l := range deletes {
		words = append(words, l.String())
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}
