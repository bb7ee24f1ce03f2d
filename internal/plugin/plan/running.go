// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
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
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Running says whether Taintkeeper is running, according to its Lease and its pods.
type Running struct {
	// Mode is empty if it does not run, or if the mode is not known.
	Mode cliv1alpha1.Mode
	// Known is false if Taintkeeper may run although nothing that was read shows it.
	Known bool
	// Lease is the one that its replicas use to elect a leader, or nil if none was found. Held says that a leader renews
	// it.
	Lease *coordinationv1.Lease
	Held  bool
	// Replicas are its pods that are not over.
	Replicas []*corev1.Pod
	// Flags are the flags of the leader, or of another replica if the leader's pod was not found. They are nil without
	// replicas. Version is what the leader's Lease says, or else the label of the pod with the flags.
	Flags   []string
	Version string
}

// Running says whether Taintkeeper is running at an instant.
func (c *Cluster) Running(at time.Time) Running {
	r := Running{Known: c.Signs.LeasesKnown}
	r.Lease = c.NewestLease(Taintkeeper)
	r.Held = r.holder() != "" && IsRenewed(r.Lease, at)
	leader, _, _ := strings.Cut(r.holder(), "_")
	for _, pod := range c.Pods {
		words := WordsOf(pod, Taintkeeper)
		if words == nil {
			continue
		}
		r.Replicas = append(r.Replicas, pod)
		if r.Flags == nil || pod.Name == leader {
			r.Flags, r.Version = words[1:], pod.Labels[v1alpha1.VersionLabel]
		}
		if mode := modeWithoutLease(words); mode != "" && IsReady(pod) {
			r.Mode, r.Known = mode, true
		}
	}
	if r.Held {
		r.Version = cmp.Or(r.Lease.Labels[v1alpha1.VersionLabel], r.Version)
	}
	if r.Held || c.Signs.hasFreshEvictionClock(at) {
		r.Mode, r.Known = cliv1alpha1.ModeEnforce, true
	}
	return r
}

// hasFreshEvictionClock reports whether an eviction clock is fresh. Only a replica that can evict renews it.
func (s *Signs) hasFreshEvictionClock(at time.Time) bool {
	return slices.ContainsFunc(s.EvictionClocks, func(account *corev1.ServiceAccount) bool {
		return EvictionClockOf(account, at).State == cliv1alpha1.ClockFresh
	})
}

// evictionClockValidFor is how long a renewal of the eviction clock keeps the built-in from evicting, according to
// config/coexistence.yaml.
const evictionClockValidFor = 30 * time.Second

// EvictionClockOf says what an eviction clock shows at an instant.
func EvictionClockOf(account *corev1.ServiceAccount, at time.Time) *cliv1alpha1.EvictionClockStatus {
	clock := &cliv1alpha1.EvictionClockStatus{
		State: cliv1alpha1.ClockNotSet, ServiceAccount: account.Namespace + "/" + account.Name,
	}
	renewed, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.EvictionClockAnnotation])
	if err != nil {
		return clock
	}
	clock.State, clock.Renewed = cliv1alpha1.ClockStale, new(metav1.NewTime(renewed))
	if at.Sub(renewed).Abs() <= evictionClockValidFor {
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

// modeWithoutLease returns the mode of a replica that takes no part in leader election. It is empty if it takes part.
func modeWithoutLease(words []string) cliv1alpha1.Mode {
	switch {
	case IsOn("--shadow", words):
		return cliv1alpha1.ModeShadow
	case IsOn("--dry-run", words):
		return cliv1alpha1.ModeDryRun
	case slices.Contains(words, "--leader-elect=false"):
		return cliv1alpha1.ModeEnforce
	}
	return ""
}

// holder returns the identity of the replica that holds the Lease.
func (r *Running) holder() string {
	if r.Lease == nil {
		return ""
	}
	return ptr.Deref(r.Lease.Spec.HolderIdentity, "")
}

// rules is the controller of NodeTaintRules. It is on by default, and shadow mode does not run it.
const rules = "node-taint-rule"

// Controllers returns the controllers that run, or nil if no pod shows them.
func (r *Running) Controllers() []string {
	if r.Flags == nil {
		return nil
	}
	var running []string
	for _, name := range []string{"eviction", "node-health", rules} {
		if SwitchedOn(Taintkeeper, r.Flags, name) && (name != rules || !IsOn("--shadow", r.Flags)) {
			running = append(running, name)
		}
	}
	return running
}

// defaults are the controllers that each program runs without --controllers.
var defaults = map[string]string{Taintkeeper: "eviction,node-taint-rule", ControllerManager: "*"}

// SwitchedOn reports whether a program with these flags runs a controller, which may have several names. If the list
// names it twice, the first counts.
func SwitchedOn(program string, flags []string, names ...string) bool {
	list := strings.Split(ValueOf("--controllers", flags, defaults[program]), ",")
	for _, item := range list {
		if name := strings.TrimPrefix(item, "-"); slices.Contains(names, name) {
			return name == item
		}
	}
	return slices.Contains(list, "*")
}

// Evicts reports whether Taintkeeper evicts, as far as is known.
func (r *Running) Evicts() bool {
	return r.Mode == cliv1alpha1.ModeEnforce && (r.Flags == nil || slices.Contains(r.Controllers(), "eviction"))
}

// WhyNot says why Taintkeeper does not evict, as the beginning of a sentence. It is empty if Taintkeeper evicts.
func (r *Running) WhyNot(at time.Time) string {
	switch {
	case r.Evicts():
		return ""
	case r.Mode == cliv1alpha1.ModeShadow:
		return "Taintkeeper runs in shadow mode"
	case r.Mode == cliv1alpha1.ModeDryRun:
		return "Taintkeeper runs in dry-run mode"
	case r.Mode == cliv1alpha1.ModeEnforce:
		return "Taintkeeper runs without the eviction controller"
	case !r.Known:
		return "It is not known whether Taintkeeper is running"
	case r.Lease == nil:
		return "Taintkeeper is not running, or runs without leader election"
	case r.holder() == "":
		return fmt.Sprintf("Taintkeeper is not running (no replica holds Lease %s/%s)", r.Lease.Namespace, r.Lease.Name)
	}
	ago := duration.HumanDuration(max(at.Sub(r.Lease.Spec.RenewTime.Time), 0))
	return fmt.Sprintf("Taintkeeper is not running (Lease %s/%s was last renewed %s ago)", r.Lease.Namespace, r.Lease.Name, ago)
}

// NoHolds says that policies hold no pods because Taintkeeper does not evict. It is empty if Taintkeeper evicts.
func (r *Running) NoHolds(at time.Time) string {
	const exception = "except those with ifDown: Hold, if the admission policy taintkeeper-held is in force"
	switch why := r.WhyNot(at); {
	case why == "":
		return ""
	case !r.Known:
		return why + ". If it is not, EvictionPolicies hold no pod, " + exception + "."
	default:
		return why + ", so EvictionPolicies hold no pod, " + exception + "."
	}
}

// IdleAt says that Taintkeeper does not evict, and what that means for due pods. It is empty if Taintkeeper evicts. If
// that is not known, it says only what it means for policies.
func (c *Cluster) IdleAt(running Running, at time.Time) string {
	if running.Evicts() || !running.Known && len(c.Policies) == 0 {
		return ""
	}
	says := running.WhyNot(at) + "."
	if len(c.Policies) > 0 {
		says = running.NoHolds(at)
	}
	if running.Known {
		says += " Due pods leave only if the built-in controller evicts them."
	}
	return says
}

// Notes say what a reader must know about a cluster: what is missing, and that Taintkeeper does not evict.
func (c *Cluster) Notes() []string {
	if c.Idle == "" {
		return c.Missing
	}
	return append(slices.Clone(c.Missing), c.Idle)
}

// WordsOf returns the command and the flags of a pod that runs a program and is not over. It is nil for other pods.
func WordsOf(pod *corev1.Pod, program string) []string {
	if IsOver(pod) {
		return nil
	}
	for i := range pod.Spec.Containers {
		if words := pod.Spec.Containers[i].Command; len(words) > 0 && words[0] == program { // a slim pod
			return words
		}
	}
	return nil
}

// NewestLease returns the Lease that the replicas of a program use to elect a leader. If there are several, it returns
// the one that was renewed last, and nil if there is none.
func (c *Cluster) NewestLease(program string) *coordinationv1.Lease {
	return c.Signs.NewestLease(c.Election(program))
}

// NewestLease returns the most recently renewed Lease with a name, in one namespace or in any. It is nil if there is
// none.
func (s *Signs) NewestLease(name, namespace string) *coordinationv1.Lease {
	var newest *coordinationv1.Lease
	for _, lease := range s.Leases {
		is := lease.Name == name && (namespace == "" || lease.Namespace == namespace) && lease.Spec.RenewTime != nil
		if is && (newest == nil || newest.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
			newest = lease
		}
	}
	return newest
}

// IsRenewed reports whether a Lease is being renewed. The clocks of its holder and of this machine may differ a little,
// so it allows twice the duration.
func IsRenewed(lease *coordinationv1.Lease, at time.Time) bool {
	const usual = 15
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, usual)) * time.Second
	return at.Sub(lease.Spec.RenewTime.Time) < 2*lasts
}

// slimLease keeps the holder of a Lease, since when it holds it, and its version.
func slimLease(lease *coordinationv1.Lease) *coordinationv1.Lease {
	slim := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       lease.Spec.HolderIdentity,
			LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds,
			AcquireTime:          lease.Spec.AcquireTime, RenewTime: lease.Spec.RenewTime,
		},
	}
	if version, ok := lease.Labels[v1alpha1.VersionLabel]; ok {
		slim.Labels = map[string]string{v1alpha1.VersionLabel: version}
	}
	return slim
}

// AddFailure adds an event. Only the most recent failure is kept.
func (s *Signs) AddFailure(event *corev1.Event) {
	if !slices.Contains(v1alpha1.FailureEvents(), event.Reason) {
		return
	}
	at := lastSeen(event)
	if s.Failure != nil && !at.After(s.Failure.At.Time) {
		return
	}
	about := event.InvolvedObject
	object := about.Kind + " " + about.Name
	if about.Namespace != "" {
		object = fmt.Sprintf("%s %s/%s", about.Kind, about.Namespace, about.Name)
	}
	s.Failure = &cliv1alpha1.LastError{
		At: metav1.NewMicroTime(at), Object: object, Reason: event.Reason, Message: event.Message,
	}
}

// lastSeen returns when an event was last written.
func lastSeen(event *corev1.Event) time.Time {
	at := event.LastTimestamp.Time
	if event.EventTime.After(at) {
		at = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
