// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// condition is what must hold besides the states of the two controllers.
type condition int

const (
	always  condition = iota
	isHeld            // Taintkeeper's eviction clock keeps the built-in from evicting
	isStale           // Taintkeeper's eviction clock is stale
	isSeen            // only a recent act shows that the built-in runs
)

// answer says which controller does a task, by the states of Taintkeeper's and of the built-in, and what is wrong with
// that, if it has a severity. The advice defaults to that of the rule.
type answer struct {
	ours, builtIn who.State
	when          condition
	severity      cliv1alpha1.Severity
	says, advice  string
}

// answers are all answers. The first that applies counts. A built-in that Taintkeeper holds counts as not running.
var answers = []answer{
	{who.Running, who.Running, isStale, failure, "Taintkeeper and the {built-in} both {evict}: Taintkeeper leads but does not renew its eviction clock.", readLog},
	{who.Running, who.Running, isSeen, failure, "Taintkeeper {evicts}, and the {built-in} {does}.", ""},
	{who.Running, who.Running, always, failure, "Taintkeeper and the {built-in} both {evict}, {both}.", ""},
	{who.Running, who.NotRunning, isHeld, "", "Taintkeeper {evicts}, and its eviction clock keeps the built-in controller from evicting.", ""},
	{who.Running, who.NotRunning, always, "", "Taintkeeper {evicts}.", ""},
	{who.Running, who.Unknown, always, warning, "{unclear}: Taintkeeper does, but nothing shows whether the built-in controller is off.", ""},
	{who.NotRunning, who.Running, isStale, warning, "The {built-in} {does}. Taintkeeper does not: its eviction clock is stale.", stopped},
	{who.NotRunning, who.Running, always, "", "The {built-in} {does}.", ""},
	{who.NotRunning, who.NotRunning, always, failure, "Nothing {evicts}: pods stay on {nodes}.", "{start}"},
	{who.NotRunning, who.Unknown, isStale, warning, "{unclear}: Taintkeeper does not, as its eviction clock is stale, and kube-controller-manager does" + unlessOff, stopped},
	{who.NotRunning, who.Unknown, always, "", "{unclear}: Taintkeeper does not, and kube-controller-manager does" + unlessOff, ""},
	{who.Absent, who.Running, always, "", "The {built-in} {does}. There is no sign that Taintkeeper does.", ""},
	{who.Absent, who.NotRunning, always, warning, "{unclear}: the built-in controller does not, and there is no sign that Taintkeeper does.", "{start}"},
	{who.Absent, who.Unknown, always, "", "{unclear}: there is no sign that Taintkeeper does, and kube-controller-manager does" + unlessOff, ""},
	{who.Unknown, who.Running, isSeen, "", "{unclear}: nothing shows whether Taintkeeper does{why}, and the built-in controller {does}.", ""},
	{who.Unknown, who.Running, always, "", "{unclear}: the built-in controller does, and nothing shows whether Taintkeeper does too{why}.", ""},
	{who.Unknown, who.NotRunning, always, "", "{unclear}: the built-in controller does not, and nothing shows whether Taintkeeper does{why}.", ""},
	{who.Unknown, who.Unknown, always, "", "{unclear}: nothing shows whether Taintkeeper does{why}, nor whether the built-in controller is off.", ""},
}

const (
	unlessOff = " by default; nothing shows whether a flag switches that off."
	readLog   = "Read Taintkeeper's log, which says why it does not renew the clock."
	stopped   = "Find out why Taintkeeper does not evict. If you have uninstalled it, wait until the built-in controller's backlog is over, and then delete what Helm kept: docs/installation.md#uninstall."
)

// words are what answers say about each task.
var words = map[string][]string{
	who.Eviction: {
		"{built-in}", "built-in taint-eviction-controller", "{evicts}", "evicts", "{evict}", "evict",
		"{unclear}", "It is unclear who evicts", "{nodes}", "nodes with NoExecute taints that they do not tolerate",
		"{both}", "so a pod leaves as soon as either of them evicts it",
		"{start}", "Start Taintkeeper, or switch the built-in taint-eviction-controller on.",
	},
	who.NodeHealth: {
		"{built-in}", "built-in node-lifecycle-controller", "{evicts}", "taints unhealthy nodes",
		"{evict}", "taint unhealthy nodes", "{unclear}", "It is unclear who taints unhealthy nodes",
		"{nodes}", "failed nodes", "{both}", "at twice the rate, and undo each other's work",
		"{start}", "Switch the built-in node-lifecycle-controller on, or Taintkeeper's node-health.",
	},
}

// task says which controller does a task, and what is wrong with that, if wrong has a severity.
type task struct {
	cliv1alpha1.CheckedTask

	wrong finding
}

// taskOf puts what is known about a task into words.
func taskOf(name string, known *who.Answer) task {
	is, act := &known.Eviction, "evicted"
	if name == who.NodeHealth {
		is, act = &known.NodeHealth, "wrote to nodes"
	}
	builtIn, seen, why, does := is.BuiltIn.State, is.BuiltIn.LastSeen, is.Taintkeeper.Why, "{evicts}"
	if is.Held {
		builtIn = who.NotRunning
	}
	if !seen.IsZero() {
		ago := duration.HumanDuration(max(known.At.Sub(seen), 0))
		does = fmt.Sprintf("%s %s ago; it may have been switched off since", act, ago)
	}
	if why != "" {
		why = " (" + why + ")"
	}
	applies := map[condition]bool{
		always: true, isHeld: is.Held, isSeen: !seen.IsZero(),
		isStale: name == who.Eviction && known.Clock == cliv1alpha1.ClockStale,
	}
	answer := answers[slices.IndexFunc(answers, func(a answer) bool {
		return a.ours == is.Taintkeeper.State && a.builtIn == builtIn && applies[a.when]
	})]
	tell := strings.NewReplacer(append(slices.Clone(words[name]), "{why}", why)...)
	says := tell.Replace(strings.ReplaceAll(answer.says, "{does}", does))
	return task{
		cliv1alpha1.CheckedTask{Task: name, Who: is.Who(), Message: says, Signs: is.Signs},
		finding{object: objectOf("Controller", "", name), severity: answer.severity, message: says, advice: tell.Replace(answer.advice)},
	}
}

// controllers requires that exactly one controller does a task.
func controllers(i int) search {
	return func(f *facts, found func(finding)) {
		if wrong := f.tasks[i].wrong; wrong.severity != "" {
			found(wrong)
		}
	}
}

// backlogs say when the built-in's backlogs end, and which nodes are spared. After that it is safe to delete what an
// uninstall has left, so this is worth more than a sign.
func (f *facts) backlogs() (notes []string) {
	for _, account := range f.Signs.EvictionClocks {
		if backlog := who.BacklogOf(account, f.Signs.At); backlog != nil {
			notes = append(notes, fmt.Sprintf("kube-controller-manager is working through a backlog of evictions, until %s at the latest (another %s); %s.",
				who.Instant(backlog.Until.Time), backlog.Until.Sub(f.Signs.At).Round(time.Second), who.SparedBy(backlog)))
		}
	}
	return notes
}
