// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// task says which controller does a task, for people.
type task struct {
	cliv1alpha1.CheckedTask

	ours, builtIn who.State
	held          bool
	// did says when the built-in last acted, if only that shows that it runs: it may have been switched off since.
	did string
}

// taskOf puts what is known about a task into words.
func taskOf(name string, known *who.Task, at time.Time) task {
	t := task{
		CheckedTask: cliv1alpha1.CheckedTask{
			Task: name, Who: known.Who(), Message: sentences[name][known.Who()], Signs: known.Signs,
		},
		ours: known.Taintkeeper.State, builtIn: known.BuiltIn.State, held: known.Held,
	}
	if seen := known.BuiltIn.LastSeen; !seen.IsZero() {
		t.did = fmt.Sprintf(" The built-in last did so %s ago. It may have been switched off since.", duration.HumanDuration(max(at.Sub(seen), 0)))
	}
	switch {
	case t.held:
		t.Message = "Taintkeeper evicts, and its eviction clock keeps the built-in from evicting."
	case t.Who == cliv1alpha1.WhoUnknown:
		t.Message += ": " + t.why(known.Taintkeeper.Why) + "."
	case t.builtIn == who.Running && t.ours == who.Absent:
		t.Message = strings.TrimSuffix(t.Message+t.did, ".") + ", and there is no sign that Taintkeeper does."
	case t.builtIn == who.Running:
		t.Message += t.did
	}
	return t
}

var sentences = map[string]map[cliv1alpha1.Who]string{
	who.Eviction: {
		cliv1alpha1.WhoTaintkeeper: "Taintkeeper evicts.",
		cliv1alpha1.WhoBuiltIn:     "The built-in taint-eviction-controller evicts.",
		cliv1alpha1.WhoBoth:        "Taintkeeper and the built-in taint-eviction-controller both evict.",
		cliv1alpha1.WhoNobody:      "Nobody evicts.",
		cliv1alpha1.WhoUnknown:     "It is unclear who evicts",
	},
	who.NodeHealth: {
		cliv1alpha1.WhoTaintkeeper: "Taintkeeper taints unhealthy nodes.",
		cliv1alpha1.WhoBuiltIn:     "The built-in node-lifecycle-controller taints unhealthy nodes.",
		cliv1alpha1.WhoBoth:        "Taintkeeper and the built-in node-lifecycle-controller both taint unhealthy nodes.",
		cliv1alpha1.WhoNobody:      "Nothing taints unhealthy nodes.",
		cliv1alpha1.WhoUnknown:     "It is unclear who taints unhealthy nodes",
	},
}

// why says what is missing to know who does a task. reason says why it is not known whether Taintkeeper does, or is
// empty.
func (t *task) why(reason string) string {
	switch {
	case t.ours == who.Unknown:
		return t.whyUnknown(reason)
	case t.ours == who.Absent && t.builtIn == who.NotRunning:
		return "the built-in does not, and there is no sign that Taintkeeper does"
	case t.ours == who.Absent:
		return "there is no sign that Taintkeeper does, and kube-controller-manager does by default; nothing shows whether a flag switches that off"
	case t.ours == who.Running:
		return "Taintkeeper does, but nothing shows whether the built-in is off"
	}
	return "Taintkeeper does not, and kube-controller-manager does by default; nothing shows whether a flag switches that off"
}

// whyUnknown is why if it is not known whether Taintkeeper does the task.
func (t *task) whyUnknown(reason string) string {
	if reason == "" && t.builtIn == who.Unknown {
		return "neither Taintkeeper nor kube-controller-manager has left enough signs"
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	switch t.builtIn {
	case who.Unknown:
		return "nothing shows whether Taintkeeper does" + reason + ", nor whether the built-in is off"
	case who.Running:
		return "the built-in does, and nothing shows whether Taintkeeper does too" + reason
	}
	return "the built-in does not, and nothing shows whether Taintkeeper does" + reason
}

// backlogs say when the built-in's backlogs end, and which nodes are spared. After that it is safe to delete what an
// uninstall has left, so this is worth more than a sign.
func (f *Facts) backlogs() (notes []string) {
	for _, account := range f.Signs.EvictionClocks {
		if backlog := who.BacklogOf(account, f.Signs.At); backlog != nil {
			notes = append(notes, fmt.Sprintf("kube-controller-manager is working through a backlog of evictions, until %s at the latest (another %s); %s.",
				who.Instant(backlog.Until.Time), backlog.Until.Sub(f.Signs.At).Round(time.Second), who.SparedBy(backlog)))
		}
	}
	return notes
}

// evictionControllers requires that exactly one controller evicts.
var evictionControllers = Rule{
	ID:       "eviction-controllers",
	Severity: cliv1alpha1.SeverityError,
	Title:    "No controller evicts, or more than one does",
	Advice:   "Run Taintkeeper with --coexist, or switch the built-in off with --controllers=*,-taint-eviction-controller.",
	Find: func(facts *Facts) []Finding {
		task := &facts.eviction
		switch {
		case task.Who == cliv1alpha1.WhoNobody:
			return task.found(Finding{
				Message: "Nothing evicts: pods stay on nodes with NoExecute taints that they do not tolerate.",
				Advice:  "Start Taintkeeper, or switch the built-in taint-eviction-controller on.",
			})
		case task.ours == who.Absent && task.builtIn == who.NotRunning:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "The built-in does not evict, and there is no sign that Taintkeeper does.",
				Advice:   "Start Taintkeeper, or switch the built-in taint-eviction-controller on.",
			})
		case task.Who == cliv1alpha1.WhoBoth && facts.who.Clock == cliv1alpha1.ClockStale:
			return task.found(Finding{
				Message: "Taintkeeper leads but does not renew its eviction clock, so the built-in evicts as well.",
				Advice:  "Read Taintkeeper's log, which says why it does not renew the clock.",
			})
		case task.Who == cliv1alpha1.WhoBoth:
			return task.found(Finding{Message: "Taintkeeper and the built-in both evict, so a pod leaves as soon as either of them evicts it." + task.did})
		case task.ours == who.NotRunning && facts.who.Clock == cliv1alpha1.ClockStale:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper does not evict: its eviction clock is stale, so the built-in evicts if it is on.",
				Advice:   "Find out why Taintkeeper does not evict. If you have uninstalled it, wait until the built-in's backlog is over, and then delete what Helm kept: docs/installation.md#uninstall.",
			})
		case task.ours == who.Running && task.builtIn == who.Unknown && !task.held:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper evicts, and nothing shows whether the built-in does too.",
			})
		}
		return nil
	},
}

// nodeHealthControllers: two controllers would taint at twice the rate, and undo each other's work.
var nodeHealthControllers = Rule{
	ID:       "node-health-controllers",
	Severity: cliv1alpha1.SeverityError,
	Title:    "No controller taints unhealthy nodes, or more than one does",
	Advice:   "Remove node-health from Taintkeeper's --controllers, or switch the built-in node-lifecycle-controller off.",
	Find: func(facts *Facts) []Finding {
		task := &facts.nodeHealth
		switch {
		case task.Who == cliv1alpha1.WhoNobody:
			return task.found(Finding{
				Message: "Nothing taints unhealthy nodes: pods stay on failed nodes.",
				Advice:  "Switch the built-in node-lifecycle-controller on, or Taintkeeper's node-health.",
			})
		case task.Who == cliv1alpha1.WhoBoth:
			return task.found(Finding{Message: "Taintkeeper and the built-in both taint nodes, at twice the rate, and undo each other's work." + task.did})
		case task.ours == who.Running && task.builtIn == who.Unknown:
			return task.found(Finding{
				Severity: cliv1alpha1.SeverityWarning,
				Message:  "Taintkeeper taints nodes, and nothing shows whether the built-in does too.",
			})
		}
		return nil
	},
}

func (t *task) found(finding Finding) []Finding {
	finding.Object = objectOf("Controller", "", t.Task)
	return []Finding{finding}
}
