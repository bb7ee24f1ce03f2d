// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// state says whether a controller runs.
type state int

const (
	unknown state = iota
	off
	runs
	absent // there is no trace of it, but it may run elsewhere under another name
)

// task says which controller does a task, and what is known about Taintkeeper's controller and the built-in one.
type task struct {
	cliv1alpha1.CheckedTask

	ours, builtIn state
	// evictionClock is the state of the eviction clock, and empty if it is not set. backlog is what the built-in must
	// still do. Both are only for evictions.
	evictionClock cliv1alpha1.ClockState
	backlog       string
	// did says when the built-in last acted, if only that shows that it runs: it may have been switched off since.
	did string
}

// writtenLately is how long after writing something a controller counts as running.
const writtenLately = 10 * time.Minute

// The tasks, which are names of Taintkeeper's controllers.
const (
	eviction   = "eviction"
	nodeHealth = "node-health"
)

// controllerNames are the names that the controllers for a task have in the two programs.
var controllerNames = map[string]map[string][]string{
	eviction: {
		plan.Taintkeeper:       {"eviction"},
		plan.ControllerManager: {"taint-eviction-controller"},
	},
	nodeHealth: {
		plan.Taintkeeper:       {"node-health"},
		plan.ControllerManager: {"node-lifecycle-controller", "nodelifecycle"},
	},
}

// detective collects signs for one task.
type detective struct {
	*plan.Cluster

	task task
}

// controllersOf returns which controllers evict, and which monitor node health.
func controllersOf(cluster *plan.Cluster) (evicting, healing task) {
	evict := &detective{Cluster: cluster, task: task{CheckedTask: cliv1alpha1.CheckedTask{Task: eviction}}}
	evict.readEvictionClock()
	evict.task.ours, evict.task.builtIn = evict.oursEvicts(), evict.builtIn(evict.builtInEvicted)
	heal := &detective{Cluster: cluster, task: task{CheckedTask: cliv1alpha1.CheckedTask{Task: nodeHealth}}}
	heal.task.ours, heal.task.builtIn = heal.oursJudges(), heal.builtIn(heal.builtInWrote)
	for _, task := range []*task{&evict.task, &heal.task} {
		task.Who = task.who()
		task.Message = sentences[task.Task][task.Who]
		if task.builtIn == runs {
			task.Message += task.did
		}
		switch {
		case task.Who == cliv1alpha1.WhoUnknown:
			task.Message += ": " + task.why() + "."
		case task.ours == absent:
			task.Message = strings.TrimSuffix(task.Message, ".") + ", and there is no sign that Taintkeeper does."
		}
	}
	if evict.task.held() {
		evict.task.Message = "Taintkeeper evicts, and its eviction clock keeps the built-in from evicting."
	}
	return evict.task, heal.task
}

var sentences = map[string]map[cliv1alpha1.Who]string{
	eviction: {
		cliv1alpha1.WhoTaintkeeper: "Taintkeeper evicts.",
		cliv1alpha1.WhoBuiltIn:     "The built-in taint-eviction-controller evicts.",
		cliv1alpha1.WhoBoth:        "Taintkeeper and the built-in taint-eviction-controller both evict.",
		cliv1alpha1.WhoNobody:      "Nobody evicts.",
		cliv1alpha1.WhoUnknown:     "It is unclear who evicts",
	},
	nodeHealth: {
		cliv1alpha1.WhoTaintkeeper: "Taintkeeper taints unhealthy nodes.",
		cliv1alpha1.WhoBuiltIn:     "The built-in node-lifecycle-controller taints unhealthy nodes.",
		cliv1alpha1.WhoBoth:        "Taintkeeper and the built-in node-lifecycle-controller both taint unhealthy nodes.",
		cliv1alpha1.WhoNobody:      "Nothing taints unhealthy nodes.",
		cliv1alpha1.WhoUnknown:     "It is unclear who taints unhealthy nodes",
	},
}

// held reports whether the built-in is kept from evicting.
func (t *task) held() bool { return t.ours == runs && t.evictionClock == cliv1alpha1.ClockFresh }

func (t *task) who() cliv1alpha1.Who {
	switch {
	case t.held():
		return cliv1alpha1.WhoTaintkeeper
	case t.ours == runs && t.builtIn == runs:
		return cliv1alpha1.WhoBoth
	case t.ours == runs && t.builtIn == off:
		return cliv1alpha1.WhoTaintkeeper
	case (t.ours == off || t.ours == absent) && t.builtIn == runs:
		return cliv1alpha1.WhoBuiltIn
	case t.ours == off && t.builtIn == off:
		return cliv1alpha1.WhoNobody
	}
	return cliv1alpha1.WhoUnknown
}

func (d *detective) sign(format string, args ...any) {
	d.task.Signs = append(d.task.Signs, fmt.Sprintf(format, args...))
}

// readEvictionClock reads the state of the eviction clock.
func (d *detective) readEvictionClock() {
	for _, account := range d.Signs.EvictionClocks {
		clock := plan.EvictionClockOf(account, d.Signs.At)
		switch clock.State {
		case cliv1alpha1.ClockNotSet:
			d.sign("The eviction clock in namespace %s is not set: it was cleared, or never renewed.", account.Namespace)
		case cliv1alpha1.ClockFresh:
			d.task.evictionClock = clock.State
			d.sign("The eviction clock in namespace %s is fresh: it was renewed at %s.", account.Namespace, instant(clock.Renewed.Time))
		case cliv1alpha1.ClockStale:
			d.task.evictionClock = cmp.Or(d.task.evictionClock, clock.State)
			d.sign("The eviction clock in namespace %s is stale: it was last renewed at %s.", account.Namespace, instant(clock.Renewed.Time))
		}
		if backlog := plan.BacklogOf(account, d.Signs.At); backlog != nil {
			d.tellBacklog(backlog)
		}
	}
}

// tellBacklog says when the built-in's backlog ends, and which nodes are spared. After that it is safe to delete what
// an uninstall has left, so this is worth more than a sign.
func (d *detective) tellBacklog(backlog *cliv1alpha1.BuiltInBacklog) {
	d.task.backlog = fmt.Sprintf("kube-controller-manager is working through a backlog of evictions, until %s at the latest (another %s); %s.",
		instant(backlog.Until.Time), backlog.Until.Sub(d.Signs.At).Round(time.Second), plan.SparedBy(backlog))
}

// oursEvicts reports whether Taintkeeper evicts. Its leader does, unless its flags say otherwise. Without leader
// election, its actions show it.
func (d *detective) oursEvicts() state {
	switch told, led := d.switched(plan.Taintkeeper), d.leads(plan.Taintkeeper); {
	case d.task.evictionClock == cliv1alpha1.ClockFresh:
		return runs // only a leader that can evict renews it
	case told == off:
		return off
	case d.evictedLately(plan.Taintkeeper) && d.NewestLease(plan.Taintkeeper) == nil:
		return runs
	case led == absent && d.task.evictionClock == cliv1alpha1.ClockStale:
		return off
	default:
		return led
	}
}

// oursJudges reports whether Taintkeeper monitors node health, which it does not by default. If it does, it renews a
// Lease next to those of the nodes.
func (d *detective) oursJudges() state {
	if lease := d.Signs.NewestLease(v1alpha1.NodeHealthLease, corev1.NamespaceNodeLease); lease != nil {
		d.sign("Lease %s/%s was last renewed at %s.", lease.Namespace, lease.Name, instant(lease.Spec.RenewTime.Time))
		if plan.IsRenewed(lease, d.Signs.At) {
			return runs
		}
		return off
	}
	led, told := d.leads(plan.Taintkeeper), d.switched(plan.Taintkeeper)
	wrote := d.wroteLately(plan.Taintkeeper, plan.WritesConditions)
	switch {
	case told == off || (led == off || led == absent) && (d.NewestLease(plan.Taintkeeper) != nil || !wrote):
		return off
	case led == runs && told == runs || wrote:
		return runs
	}
	return unknown
}

// builtIn reports whether the built-in controller runs, according to its command line, its Lease, and its actions.
func (d *detective) builtIn(did func() bool) state {
	switch told, led := d.switched(plan.ControllerManager), d.leads(plan.ControllerManager); {
	case led == off && d.NewestLease(plan.ControllerManager) != nil:
		return off // it is dead, whatever its flags and earlier actions were
	case told != unknown:
		return told
	case did():
		return runs
	}
	return unknown
}

func (d *detective) builtInEvicted() bool { return d.evictedLately(plan.ControllerManager) }

func (d *detective) builtInWrote() bool {
	return d.wroteLately(plan.ControllerManager, plan.WritesTaints) ||
		d.wroteLately(plan.ControllerManager, plan.WritesConditions)
}

// evictedLately reports whether a program has recently written the event of an eviction.
func (d *detective) evictedLately(program string) bool {
	trace, ok := d.Signs.Evictions[program]
	if ok {
		d.sign("%s wrote %s about evictions, %s %s.", program, sentence.Counted(trace.Count, "event"),
			sentence.Agree(trace.Count, "at", "the last at"), instant(trace.Last))
	}
	return ok && d.recent(program, trace.Last)
}

// recent reports whether a program was seen at work recently enough to count as running.
func (d *detective) recent(program string, at time.Time) bool {
	ago := d.Signs.At.Sub(at)
	if program == plan.ControllerManager {
		d.task.did = fmt.Sprintf(" The built-in last did so %s ago. It may have been switched off since.", duration.HumanDuration(max(ago, 0)))
	}
	return ago < writtenLately
}

// wroteLately reports whether a program has recently written a part of nodes, according to their managed fields.
func (d *detective) wroteLately(program string, what func(*metav1.ManagedFieldsEntry) bool) bool {
	var last time.Time
	var node string
	for _, written := range d.Nodes {
		for i := range written.ManagedFields {
			entry := &written.ManagedFields[i]
			if entry.Manager == program && entry.Time != nil && entry.Time.After(last) && what(entry) {
				last, node = entry.Time.Time, written.Name
			}
		}
	}
	if node == "" {
		return false
	}
	d.sign("%s last wrote the taints or conditions of a node at %s: node %s.", program, instant(last), node)
	return d.recent(program, last)
}

// leads reports whether a replica of a program is the leader.
func (d *detective) leads(program string) state {
	lease := d.NewestLease(program)
	switch {
	case lease == nil && !d.Signs.LeasesKnown:
		return unknown
	case lease == nil:
		name, _ := d.Election(program)
		d.sign("Lease %s does not exist.", name)
		return d.leadsAlone(program)
	}
	renewed, holder := lease.Spec.RenewTime.Time, lease.Spec.HolderIdentity
	switch {
	case holder == nil || *holder == "":
		d.sign("Nobody holds Lease %s/%s.", lease.Namespace, lease.Name)
		return off
	case !plan.IsRenewed(lease, d.Signs.At):
		d.sign("Lease %s/%s was last renewed at %s, by %s.", lease.Namespace, lease.Name, instant(renewed), *holder)
		return off
	}
	d.sign("Lease %s/%s is held by %s.", lease.Namespace, lease.Name, *holder)
	return runs
}

// leadsAlone is for a program without a Lease. It runs if its flags disable leader election. If it has pods, they may
// elect their leader in a way that nothing shows.
func (d *detective) leadsAlone(program string) state {
	processes := d.processes(program)
	electsNot := func(p process) bool { return slices.Contains(p.words, "--leader-elect=false") }
	switch {
	case slices.ContainsFunc(processes, electsNot):
		return runs
	case len(processes) > 0:
		return unknown
	}
	return absent
}

// switched reports whether the flags of a program's pods enable the task.
func (d *detective) switched(program string) state {
	told := unknown
	for _, process := range d.processes(program) {
		if process.does(d.task.Task, program) {
			d.sign("Pod %s/%s runs %s with this task enabled.", process.pod.Namespace, process.pod.Name, program)
			return runs
		}
		told = off
		d.sign("Pod %s/%s runs %s with this task disabled.", process.pod.Namespace, process.pod.Name, program)
	}
	return told
}

// process is a pod that runs one of the programs.
type process struct {
	pod   *corev1.Pod
	words []string
}

// processes returns the pods that run a program.
func (d *detective) processes(program string) (all []process) {
	for _, pod := range d.Pods {
		if words := plan.WordsOf(pod, program); words != nil {
			all = append(all, process{pod, words})
		}
	}
	return all
}

func (p process) does(task, program string) bool {
	return !plan.IsOn("--shadow", p.words) && !plan.IsOn("--dry-run", p.words) &&
		plan.SwitchedOn(program, p.words, controllerNames[task][program]...)
}

// why says what is missing to know who does a task.
func (t *task) why() string {
	switch {
	case t.ours == unknown && t.builtIn == unknown:
		return "neither Taintkeeper nor kube-controller-manager has left enough signs"
	case t.ours == unknown && t.builtIn == runs:
		return "the built-in does, and nothing shows whether Taintkeeper does too"
	case t.ours == unknown:
		return "the built-in does not, and nothing shows whether Taintkeeper does"
	case t.ours == absent && t.builtIn == off:
		return "the built-in does not, and there is no sign that Taintkeeper does"
	case t.ours == absent:
		return "there is no sign that Taintkeeper does, and kube-controller-manager does by default; nothing shows whether a flag switches that off"
	case t.ours == runs:
		return "Taintkeeper does, but nothing shows whether the built-in is off"
	}
	return "Taintkeeper does not, and kube-controller-manager does by default; nothing shows whether a flag switches that off"
}

func instant(at time.Time) string { return at.UTC().Format(time.RFC3339) }
