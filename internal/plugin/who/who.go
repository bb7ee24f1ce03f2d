// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package who says which controllers evict pods and taint unhealthy nodes: Taintkeeper, kube-controller-manager, both
// or neither. It is pure: facts about a cluster in, one answer out. Every command that needs to know asks it.
//
// Taintkeeper's leader says on its Lease what it runs. A leader that says nothing is an older version, and then it is
// not known whether it evicts. A replica without a Lease shows itself by the eviction clock, by the Lease of node
// health or by its events, and otherwise its pods only show that it may run. kube-controller-manager says nothing about
// itself. Its Lease shows whether it is alive, and the command lines of its pods, or else its latest actions, what it
// runs.
package who

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// State says whether a controller runs.
type State int

// The states of a controller.
const (
	Unknown State = iota
	NotRunning
	Absent // there is no trace of it, but it may run elsewhere without a Lease here
	Running
)

// Controller is what is known about one controller.
type Controller struct {
	State State
	// Why says why the state is Unknown, as part of a sentence. It is empty if there are no facts at all.
	Why string
	// LastSeen is when the controller last acted, if only that shows that it runs: it may have been switched off since.
	LastSeen time.Time
}

// Task is one task of the controllers.
type Task struct {
	Taintkeeper, BuiltIn Controller
	// Held is set if Taintkeeper runs and keeps the built-in from doing the task.
	Held bool
	// Signs are sentences that say how we know it.
	Signs []string
}

// Who says which program does the task.
func (t *Task) Who() cliv1alpha1.Who {
	ours, builtIn := t.Taintkeeper.State, t.BuiltIn.State
	switch {
	case t.Held, ours == Running && builtIn == NotRunning:
		return cliv1alpha1.WhoTaintkeeper
	case ours == Running && builtIn == Running:
		return cliv1alpha1.WhoBoth
	case (ours == NotRunning || ours == Absent) && builtIn == Running:
		return cliv1alpha1.WhoBuiltIn
	case ours == NotRunning && builtIn == NotRunning:
		return cliv1alpha1.WhoNobody
	}
	return cliv1alpha1.WhoUnknown
}

// Process is what is known about Taintkeeper's process.
type Process struct {
	Controller

	// Mode is empty unless it runs.
	Mode cliv1alpha1.Mode
	// Lease is the one that its replicas use to elect a leader, or nil. Held says that a leader renews it.
	Lease *coordinationv1.Lease
	Held  bool
	// Leader is what the leader says about itself. It is nil if none leads, or if the leader is an older version.
	Leader *v1alpha1.Leader
	// Replicas are its pods that are not over.
	Replicas []*corev1.Pod
	// Version is what the Lease says, or else a pod in that mode. Controllers are nil if they are not known.
	Version     string
	Controllers []string
}

// Answer says which controllers run in a cluster at an instant.
type Answer struct {
	At                   time.Time
	Process              Process
	Eviction, NodeHealth Task
	// Clock is the state of the eviction clock. It is empty if there is none, or if it is not set.
	Clock cliv1alpha1.ClockState
	// BuiltInLease is the one that kube-controller-manager's replicas use to elect a leader, or nil.
	BuiltInLease *coordinationv1.Lease
}

// The names of Taintkeeper's controllers for the two tasks.
const (
	Eviction   = "eviction"
	NodeHealth = "node-health"
)

// Ask says which controllers run in a cluster at an instant.
func Ask(cluster *state.Cluster, at time.Time) *Answer {
	q := &question{Cluster: cluster, managers: managers(cluster)}
	a := &q.answer
	a.At = at
	a.BuiltInLease = cluster.Signs.NewestLease(electsBuiltIn(q.managers))
	q.task = &a.Eviction
	q.readClocks()
	q.readProcess()
	a.Eviction.Taintkeeper = q.taintkeeperEvicts()
	a.Eviction.BuiltIn = q.builtIn(builtin.TaintEviction, func() time.Time { return q.evicted(builtin.Program) })
	a.Eviction.Held = a.Eviction.Taintkeeper.State == Running && a.Clock == cliv1alpha1.ClockFresh
	q.task = &a.NodeHealth
	a.NodeHealth.Taintkeeper = q.taintkeeperTaints()
	a.NodeHealth.BuiltIn = q.builtIn(builtin.NodeLifecycle, func() time.Time {
		return q.wrote(builtin.Program, builtin.Taints, builtin.Conditions)
	})
	return a
}

// question is the work on an answer. Signs are added to the task.
type question struct {
	*state.Cluster

	managers []*corev1.Pod // that run kube-controller-manager
	answer   Answer
	task     *Task
}

// managers returns the pods that run kube-controller-manager.
func managers(cluster *state.Cluster) (pods []*corev1.Pod) {
	for _, pod := range cluster.Pods {
		if builtin.CommandLine(pod) != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// electsBuiltIn returns whether the replicas of kube-controller-manager elect their leader with a Lease.
func electsBuiltIn(managers []*corev1.Pod) func(*coordinationv1.Lease) bool {
	name, namespace := builtin.Election(managers)
	return func(lease *coordinationv1.Lease) bool {
		return lease.Name == name && (namespace == "" || lease.Namespace == namespace)
	}
}

// Reads returns whether Ask reads a Lease of a cluster.
func Reads(cluster *state.Cluster) func(*coordinationv1.Lease) bool {
	electsBuiltIn := electsBuiltIn(managers(cluster))
	return func(lease *coordinationv1.Lease) bool {
		return state.ElectsTaintkeeper(lease) || electsBuiltIn(lease) || state.IsOfNodeHealth(lease)
	}
}

func (q *question) sign(format string, args ...any) {
	q.task.Signs = append(q.task.Signs, fmt.Sprintf(format, args...))
}

// readClocks reads the state of the eviction clocks. One that is fresh counts more than one that is stale.
func (q *question) readClocks() {
	for _, account := range q.Signs.EvictionClocks {
		clock := ClockOf(account, q.answer.At)
		if clock.Renewed == nil {
			q.sign("The eviction clock in namespace %s is not set: it was cleared, or never renewed.", account.Namespace)
			continue
		}
		if q.answer.Clock != cliv1alpha1.ClockFresh {
			q.answer.Clock = clock.State
		}
		q.sign("The eviction clock in namespace %s is %s: it was last renewed at %s.",
			account.Namespace, strings.ToLower(string(clock.State)), Instant(clock.Renewed.Time))
	}
}

// readProcess says whether Taintkeeper runs, and what its leader says about itself.
func (q *question) readProcess() {
	p, at := &q.answer.Process, q.answer.At
	p.Lease = q.Signs.NewestLease(func(lease *coordinationv1.Lease) bool {
		return state.ElectsTaintkeeper(lease) && state.IsHeld(lease, at)
	})
	if p.Held = p.Lease != nil; p.Held {
		p.Version = p.Lease.Labels[v1alpha1.VersionLabel]
		if p.Leader = v1alpha1.LeaderOf(p.Lease); p.Leader != nil {
			p.Controllers = p.Leader.Controllers
		}
	} else {
		p.Lease = q.Signs.NewestLease(state.ElectsTaintkeeper)
	}
	for _, pod := range q.Pods {
		if pod.Labels[v1alpha1.NameLabel] == v1alpha1.Name && !state.IsOver(pod) {
			p.Replicas = append(p.Replicas, pod)
		}
	}
	if q.acts() {
		p.State, p.Mode = Running, cliv1alpha1.ModeEnforce
		return
	}
	q.readReplicas()
	switch {
	case p.Mode != "":
		p.State = Running
	case p.Why != "" || !q.Signs.LeasesKnown:
		p.State = Unknown
	case p.Lease == nil:
		p.State = Absent
	default:
		p.State = NotRunning
	}
}

// acts reports whether anything shows that a replica acts, rather than that its pod runs: its Leases, the eviction
// clock, and, if it elects no leader, the events of its evictions.
func (q *question) acts() bool {
	p := &q.answer.Process
	return p.Held || state.IsHeld(q.Signs.NewestLease(state.IsOfNodeHealth), q.answer.At) ||
		q.answer.Clock == cliv1alpha1.ClockFresh || p.Lease == nil && q.isRecent(q.Signs.EvictionsBy(state.Taintkeeper).Last)
}

// modes are the modes that pods show. Pods that enforce show no mode: whether they do, their leader's Lease says.
var modes = map[string]cliv1alpha1.Mode{
	v1alpha1.LabelShadow: cliv1alpha1.ModeShadow, v1alpha1.LabelDryRun: cliv1alpha1.ModeDryRun,
}

// readReplicas reads the modes of ready pods. One that enforces may do so without a leader's Lease, unless it held one.
func (q *question) readReplicas() {
	p := &q.answer.Process
	for _, pod := range p.Replicas {
		mode := modes[pod.Labels[v1alpha1.ModeLabel]]
		hasLed := p.Lease != nil && strings.HasPrefix(holder(p.Lease), pod.Name+"_") // and does not now
		switch {
		case !state.IsReady(pod) || p.Mode != "":
		case mode != "":
			p.Mode, p.Version, p.Why = mode, pod.Labels[v1alpha1.VersionLabel], ""
			if mode == cliv1alpha1.ModeShadow {
				p.Controllers = []string{Eviction}
			}
		case !hasLed:
			p.Why = fmt.Sprintf("pod %s/%s is ready, but no leader renews a Lease, as with --leader-elect=false or an older version, which you must upgrade", pod.Namespace, pod.Name)
		}
	}
}

// taintkeeperEvicts reports whether Taintkeeper evicts. If a replica has left a clock that is stale, it has stopped.
// Only a leader that evicts renews it.
func (q *question) taintkeeperEvicts() Controller {
	controller := q.taintkeeper(Eviction, func() time.Time { return q.evicted(state.Taintkeeper) })
	switch clock := q.answer.Clock; {
	case clock == cliv1alpha1.ClockFresh:
		return Controller{State: Running}
	case clock == cliv1alpha1.ClockStale && controller.State == Absent:
		return Controller{State: NotRunning}
	}
	return controller
}

// taintkeeperTaints reports whether Taintkeeper monitors node health, which it does not by default. If it does, it
// renews a Lease next to those of the nodes.
func (q *question) taintkeeperTaints() Controller {
	if lease := q.Signs.NewestLease(state.IsOfNodeHealth); lease != nil {
		q.sign("Lease %s/%s was last renewed at %s.", lease.Namespace, lease.Name, Instant(lease.Spec.RenewTime.Time))
		return Controller{State: runs(state.IsRenewed(lease, q.answer.At))}
	}
	controller := q.taintkeeper(NodeHealth, func() time.Time { return q.wrote(state.Taintkeeper, builtin.Conditions) })
	if controller.State == Absent {
		controller.State = NotRunning
	}
	return controller
}

// taintkeeper reports whether Taintkeeper runs a controller, according to what its leader says or, if it says nothing,
// to when the controller last acted.
func (q *question) taintkeeper(controller string, acted func() time.Time) Controller {
	p := &q.answer.Process
	switch {
	case p.Leader != nil:
		q.sign("Lease %s/%s is held by %s, which runs %s.", p.Lease.Namespace, p.Lease.Name, holder(p.Lease), strings.Join(p.Controllers, ", "))
		return Controller{State: runs(p.Leader.Runs(controller))}
	case p.State == Running && p.Mode != cliv1alpha1.ModeEnforce:
		q.sign("A pod says that it runs Taintkeeper in mode %s.", p.Mode)
		return Controller{State: NotRunning}
	}
	q.leaseSigns(v1alpha1.ElectionLease, p.Lease)
	switch {
	case (p.Held || p.Lease == nil) && q.isRecent(acted()):
		return Controller{State: Running}
	case p.Held:
		return Controller{Why: fmt.Sprintf("Lease %s/%s does not say what %s runs: upgrade Taintkeeper", p.Lease.Namespace, p.Lease.Name, holder(p.Lease))}
	case p.State == Running:
		return Controller{Why: "nothing shows whether it runs the controller " + controller}
	}
	return p.Controller
}

func runs(does bool) State {
	if does {
		return Running
	}
	return NotRunning
}

// leaseSigns says who holds the Lease of a program.
func (q *question) leaseSigns(name string, lease *coordinationv1.Lease) {
	switch {
	case lease == nil && !q.Signs.LeasesKnown:
	case lease == nil:
		q.sign("Lease %s does not exist.", name)
	case holder(lease) == "":
		q.sign("Nobody holds Lease %s/%s.", lease.Namespace, lease.Name)
	case !state.IsRenewed(lease, q.answer.At):
		q.sign("Lease %s/%s was last renewed at %s, by %s.", lease.Namespace, lease.Name, Instant(lease.Spec.RenewTime.Time), holder(lease))
	default:
		q.sign("Lease %s/%s is held by %s.", lease.Namespace, lease.Name, holder(lease))
	}
}

// builtIn reports whether a controller of kube-controller-manager runs, according to its Lease, its command lines, and
// when it last acted. If its Lease shows that it is dead, its flags and its earlier actions do not count.
func (q *question) builtIn(controller builtin.Controller, acted func() time.Time) Controller {
	told := Unknown
	for _, pod := range q.managers {
		is := "disabled"
		told = max(told, NotRunning)
		if controller.RunsWith(builtin.CommandLine(pod)) {
			told, is = Running, "enabled"
		}
		q.sign("Pod %s/%s runs %s with this task %s.", pod.Namespace, pod.Name, builtin.Program, is)
	}
	name, _ := builtin.Election(q.managers)
	lease := q.answer.BuiltInLease
	q.leaseSigns(name, lease)
	if lease != nil && !state.IsHeld(lease, q.answer.At) {
		return Controller{State: NotRunning}
	}
	if told == Unknown {
		if at := acted(); q.isRecent(at) {
			return Controller{State: Running, LastSeen: at}
		}
	}
	return Controller{State: told}
}

// evicted returns when a program last wrote the event of an eviction, or zero.
func (q *question) evicted(program string) time.Time {
	trace := q.Signs.EvictionsBy(program)
	if trace.Count > 0 {
		q.sign("%s wrote %s about evictions, %s %s.", program, sentence.Counted(trace.Count, "event"),
			sentence.Agree(trace.Count, "at", "the last at"), Instant(trace.Last))
	}
	return trace.Last
}

// wrote returns when a program last wrote some fields of a node, or zero.
func (q *question) wrote(program string, fields ...string) time.Time {
	var last time.Time
	var name string
	for _, node := range q.Nodes {
		if at := builtin.LastWrite(node.ManagedFields, program, fields...); at.After(last) {
			last, name = at, node.Name
		}
	}
	if name != "" {
		q.sign("%s last wrote the taints or conditions of a node at %s: node %s.", program, Instant(last), name)
	}
	return last
}

// isRecent reports whether a program acted recently enough to count as running.
func (q *question) isRecent(at time.Time) bool {
	return !at.IsZero() && q.answer.At.Sub(at) < builtin.Recent
}

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// Instant formats an instant for people.
func Instant(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// ClockOf says what an eviction clock shows at an instant.
func ClockOf(account *corev1.ServiceAccount, at time.Time) *cliv1alpha1.EvictionClockStatus {
	clock := &cliv1alpha1.EvictionClockStatus{
		State: cliv1alpha1.ClockNotSet, ServiceAccount: account.Namespace + "/" + account.Name,
	}
	renewed, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.EvictionClockAnnotation])
	if err != nil {
		return clock
	}
	clock.State, clock.Renewed = cliv1alpha1.ClockStale, new(metav1.NewTime(renewed))
	if at.Sub(renewed).Abs() <= v1alpha1.EvictionClockValidFor {
		clock.State = cliv1alpha1.ClockFresh
	}
	return clock
}

// BacklogOf returns what the built-in must still do at an instant, according to an eviction clock. It is nil if that
// is nothing.
func BacklogOf(account *corev1.ServiceAccount, at time.Time) *cliv1alpha1.BuiltInBacklog {
	until, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.BacklogUntilAnnotation])
	if err != nil || !until.After(at) {
		return nil
	}
	backlog := &cliv1alpha1.BuiltInBacklog{Until: metav1.NewTime(until)}
	spared := strings.Fields(account.Annotations[v1alpha1.BacklogSparedAnnotation])
	if slices.Equal(spared, []string{"*"}) {
		backlog.AllSpared = true
	} else {
		backlog.SparedNodes = spared
	}
	return backlog
}

// SparedBy says which nodes a backlog spares.
func SparedBy(backlog *cliv1alpha1.BuiltInBacklog) string {
	switch {
	case backlog.AllSpared:
		return "all nodes are spared"
	case len(backlog.SparedNodes) == 0:
		return "no node is spared"
	}
	return "spared nodes: " + sentence.Enumerate(backlog.SparedNodes)
}

// whyNot says why Taintkeeper does not evict, or why that is not known, as the beginning of a sentence. It is empty if
// Taintkeeper evicts.
func (a *Answer) whyNot() string {
	p, evicts := &a.Process, &a.Eviction.Taintkeeper
	switch {
	case evicts.State == Running:
		return ""
	case p.Mode == cliv1alpha1.ModeShadow:
		return "Taintkeeper runs in shadow mode"
	case p.Mode == cliv1alpha1.ModeDryRun:
		return "Taintkeeper runs in dry-run mode"
	case p.State == Running && evicts.State == NotRunning:
		return "Taintkeeper runs without the eviction controller"
	case p.State == Running:
		return "It is not known whether Taintkeeper evicts (" + evicts.Why + ")"
	case p.State == Unknown && p.Why != "":
		return "It is not known whether Taintkeeper is running (" + p.Why + ")"
	case p.State == Unknown:
		return "It is not known whether Taintkeeper is running"
	case p.Lease == nil:
		return "Taintkeeper is not running, or runs without leader election"
	case holder(p.Lease) == "":
		return fmt.Sprintf("Taintkeeper is not running (no replica holds Lease %s/%s)", p.Lease.Namespace, p.Lease.Name)
	}
	ago := duration.HumanDuration(max(a.At.Sub(p.Lease.Spec.RenewTime.Time), 0))
	return fmt.Sprintf("Taintkeeper is not running (Lease %s/%s was last renewed %s ago)", p.Lease.Namespace, p.Lease.Name, ago)
}

// NotEvicting says that Taintkeeper does not evict, or that this is not known, and what that means for policies if
// there are any. It is empty if Taintkeeper evicts.
func (a *Answer) NotEvicting(policies int) string {
	const hold = "EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."
	switch why := a.whyNot(); {
	case why == "":
		return ""
	case policies == 0:
		return why + "."
	case a.Eviction.Taintkeeper.State != Unknown:
		return why + ", so " + hold
	case a.Process.State == Running:
		return why + ". If it does not, " + hold
	default:
		return why + ". If it is not, " + hold
	}
}

// Evictor says by whose rule commands decide in a cluster with or without policies. If Taintkeeper does not evict, it
// says what that means for due pods, too. If that is not known, it says only what it means for policies.
func (a *Answer) Evictor(policies int) state.Evictor {
	is := state.Evictor{Who: a.Eviction.Who(), Idle: a.NotEvicting(policies)}
	if lease := a.BuiltInLease; is.IsBuiltIn() && lease != nil && lease.Spec.AcquireTime != nil {
		is.Began = lease.Spec.AcquireTime.Time
	}
	switch {
	case is.Idle == "":
	case a.Eviction.Taintkeeper.State == Unknown:
		if policies == 0 {
			is.Idle = ""
		}
	case is.IsBuiltIn():
		is.Idle += " " + builtin.Program + " evicts due pods, by its own rule."
	default:
		is.Idle += " Due pods leave only if the built-in controller evicts them."
	}
	return is
}
