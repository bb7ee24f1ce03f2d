// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// This file has the names and texts by which programs recognize each other's work in the cluster: the controller writes
// them; the plugin, the admission policies of the chart and other replicas match on them. Each text has its parser.

// Leases.
const (
	// NodeHealthLease is the Lease in kube-node-lease that Taintkeeper renews next to the kubelets' while it monitors node
	// health. It belongs to no node.
	NodeHealthLease = "taintkeeper.dev"
	// NodeHealthDryRunLease is the Lease that a dry run renews instead, so that it does not disturb a process that acts.
	NodeHealthDryRunLease = "dry-run.taintkeeper.dev"
	// ElectionLease is the default name of the Lease with which replicas elect a leader. Whatever its name, it has the
	// label [NameLabel].
	ElectionLease = "taintkeeper"
)

// Labels of Taintkeeper's pods, and of its Lease for leader election.
const (
	// NameLabel has the value [Name].
	NameLabel = "app.kubernetes.io/name"
	// VersionLabel says which version runs.
	VersionLabel = "app.kubernetes.io/version"
	// ModeLabel says in which mode it runs. The Lease has it from the leader, which enforces; pods have it from the
	// chart, because a dry run and shadow mode change nothing, not even a Lease.
	ModeLabel = "taintkeeper.dev/mode"

	// Name is the value of NameLabel.
	Name = "taintkeeper"
	// These are the values of ModeLabel.
	LabelEnforce = "enforce"
	LabelShadow  = "shadow"
	LabelDryRun  = "dry-run"

	// leaderLabel says who wrote the following labels of the Lease: the part of the holder's identity that is unique.
	leaderLabel       = "taintkeeper.dev/leader"
	controllersLabel  = "taintkeeper.dev/controllers"
	coexistLabel      = "taintkeeper.dev/coexist"
	monitorGraceLabel = "taintkeeper.dev/node-monitor-grace-period"
	// betweenControllers separates them. The value of a label cannot have a comma.
	betweenControllers = "."
)

// SelectTaintkeeper selects Taintkeeper's pods and its Lease.
func SelectTaintkeeper() labels.Selector { return labels.SelectorFromSet(labels.Set{NameLabel: Name}) }

// Leader is what the leader says about itself in labels of its Lease.
//
// +kubebuilder:object:generate=false
type Leader struct {
	// Version is empty if it is not the valid value of a label.
	Version string
	// Controllers are those that run, by the names of the flag --controllers.
	Controllers []string
	// Coexists is set if the leader renews the eviction clock.
	Coexists bool
	// MonitorGrace is how long a node may be silent. It is zero without node health.
	MonitorGrace time.Duration
}

// Runs reports whether the leader runs a controller.
func (l *Leader) Runs(controller string) bool { return slices.Contains(l.Controllers, controller) }

// Labels returns the labels of a Lease that a leader with this identity holds.
func (l *Leader) Labels(identity string) map[string]string {
	return map[string]string{
		NameLabel: Name, VersionLabel: l.Version, ModeLabel: LabelEnforce,
		leaderLabel:       uniquePart(identity),
		controllersLabel:  strings.Join(l.Controllers, betweenControllers),
		coexistLabel:      strconv.FormatBool(l.Coexists),
		monitorGraceLabel: l.MonitorGrace.String(),
	}
}

// LeaderOf returns what the holder of a Lease says about itself. It is nil if nobody holds the Lease, or if the labels
// are not the holder's: an older version says nothing, and keeps the labels of the leader before it.
func LeaderOf(lease *coordinationv1.Lease) *Leader {
	holder := lease.Spec.HolderIdentity
	if holder == nil || *holder == "" || lease.Labels[leaderLabel] != uniquePart(*holder) {
		return nil
	}
	leader := &Leader{
		Version:     lease.Labels[VersionLabel],
		Controllers: strings.Split(lease.Labels[controllersLabel], betweenControllers),
		Coexists:    lease.Labels[coexistLabel] == strconv.FormatBool(true),
	}
	leader.MonitorGrace, _ = time.ParseDuration(lease.Labels[monitorGraceLabel]) // zero if it cannot be read
	return leader
}

// LabelsOfLeader are the labels that [LeaderOf] reads.
func LabelsOfLeader() []string {
	return []string{NameLabel, VersionLabel, ModeLabel, leaderLabel, controllersLabel, coexistLabel, monitorGraceLabel}
}

// uniquePart returns the UUID in an identity of client-go's leader election, HOSTNAME_UUID.
func uniquePart(identity string) string { return identity[strings.LastIndex(identity, "_")+1:] }

// EvictionClockValidFor is how long a renewal of the eviction clock keeps the built-in from evicting, as
// config/coexistence.yaml has it.
const EvictionClockValidFor = 30 * time.Second

// The eviction clock, which the admission policies of config/coexistence.yaml read.
const (
	// EvictionClock is the name of the ServiceAccount that carries the eviction clock. Nothing runs as it.
	EvictionClock = "taintkeeper-eviction-clock"
	// EvictionClockAnnotation is the instant of the last renewal on the API server's clock, in RFC 3339.
	EvictionClockAnnotation = "taintkeeper.dev/renewed"
	// BacklogUntilAnnotation is the instant until which the built-in may not mark some pods even if the clock is stale.
	// Like BacklogSinceAnnotation, it is on the API server's clock, in RFC 3339.
	BacklogUntilAnnotation = "taintkeeper.dev/backlog-until"
	// BacklogSinceAnnotation is the earliest time at which such a pod was created, if its name can be reused.
	BacklogSinceAnnotation = "taintkeeper.dev/backlog-since"
	// BacklogSparedAnnotation has the nodes on which the built-in may mark no pod at all, separated by spaces; "*" means
	// all nodes.
	BacklogSparedAnnotation = "taintkeeper.dev/backlog-spared"
	// HoldingAdmissionPolicy begins the name of the admission policies that warn of the end of a policy that holds pods.
	HoldingAdmissionPolicy = "taintkeeper-holding"
)

// The condition DisruptionTarget that a taint-based eviction sets on its pod.
const (
	// TaintEvictionReason is the condition's reason, as upstream's taint-eviction-controller writes it.
	TaintEvictionReason = "DeletionByTaintManager"
	// markPrefix begins the condition's message when Taintkeeper sets it. It distinguishes our mark from upstream's, which
	// the admission policy of config/coexistence.yaml refuses while Taintkeeper is alive.
	markPrefix = "Taintkeeper:"
	// MarkMessage is the message while the pod is being evicted. Upstream's begins with "Taint manager:" and is the same
	// otherwise (pkg/controller/tainteviction/taint_eviction.go).
	MarkMessage = markPrefix + " deleting due to NoExecute taint"
	// UnmarkMessage is the message, with status False, of a pod that the built-in marked although it need not leave now.
	UnmarkMessage = markPrefix + " marked by kube-controller-manager, but does not have to leave now"

	dueButStays = markPrefix + " due to leave because of a NoExecute taint; "
)

// StaysMessage is the message, with status False, of a pod that is due to leave, but stays for a reason.
func StaysMessage(why string) string { return dueButStays + why }

// RefusedMessage is the message, with status False, of a pod whose delete is refused.
func RefusedMessage(refuser string) string {
	return StaysMessage("the deletion is refused (" + refuser + ")")
}

// WhyItStays returns the reason in [StaysMessage], and "" for a pod without such a condition.
func WhyItStays(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionFalse && c.Reason == TaintEvictionReason {
			if why, ok := strings.CutPrefix(c.Message, dueButStays); ok {
				return why
			}
		}
	}
	return ""
}

// Marker says who has marked a pod for a taint-based eviction.
type Marker int

// The markers of a pod.
const (
	NotMarked Marker = iota
	MarkedByTaintkeeper
	MarkedByBuiltIn
)

// MarkerOf returns who set a condition of a pod, if it marks the pod for a taint-based eviction.
func MarkerOf(c *corev1.PodCondition) Marker {
	switch {
	case c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || c.Reason != TaintEvictionReason:
		return NotMarked
	case strings.HasPrefix(c.Message, markPrefix):
		return MarkedByTaintkeeper
	}
	return MarkedByBuiltIn
}

// Reasons of events that programs select or read.
const (
	// EventEviction is upstream's, for the beginning and the cancellation of an eviction.
	EventEviction          = "TaintManagerEviction"
	EventEvictionRefused   = "EvictionRefused"
	EventEvictionHeld      = "EvictionHeld"
	EventKeptAlive         = "TolerationAdded"
	EventUnmarkedEviction  = "DisruptionTargetNotSet"
	EventNodeTaintHeld     = "NoExecuteTaintHeld"
	EventSilenceUnknown    = "SilenceUnknown"
	EventSilenceKnown      = "SilenceKnown"
	EventUnknownHolder     = "LeaseHolderUnknown"
	EventBuiltInEarly      = "BuiltInEvictedEarly"
	EventBuiltInLate       = "BuiltInEvictedLate"
	EventBuiltInNever      = "BuiltInDidNotEvict"
	EventBuiltInUnfounded  = "BuiltInEvictedWithoutCause"
	EventBuiltInTwice      = "BuiltInEvictedTwice"
	EventSourceOfEvictions = "taint-eviction-controller" // upstream's
)

// FailureEvents are the reasons of events that Taintkeeper writes when something fails.
func FailureEvents() []string {
	return []string{EventEvictionRefused, EventUnmarkedEviction, EventSilenceUnknown, EventUnknownHolder}
}

// Texts of events.
const (
	// MarkingText and NAMESPACE/NAME are upstream's text when an eviction begins.
	MarkingText = "Marking for deletion Pod "
	// CancellingText and NAMESPACE/NAME are upstream's text when a pod stays.
	CancellingText = "Cancelling deletion of Pod "
	// DryRunSuffix ends the texts of events about what a dry run did not do.
	DryRunSuffix = " (dry run)"
)

// IsCancellingText reports whether a text says that a pod stays.
func IsCancellingText(text string) bool { return strings.HasPrefix(text, CancellingText) }

// IsDryRunText reports whether a dry run wrote a text.
func IsDryRunText(text string) bool { return strings.HasSuffix(text, DryRunSuffix) }

// shadowAdvice ends the text of an event of shadow mode.
const shadowAdvice = " For an hour, further differences of this kind on this node are only in Taintkeeper's log and in" +
	" ConfigMap " + ShadowConfigMap + "."

// ShadowText is the text of an event of shadow mode about a difference, which is a sentence.
func ShadowText(difference string) string { return difference + shadowAdvice }

// EventAction is what the field action of an event about an eviction says: Evict or Cancel, followed by due=INSTANT
// and taint=TAINT if they are known. The field related of the event is the node.
//
// +kubebuilder:object:generate=false
type EventAction struct {
	// Cancels is set if the pod stays. The taint is gone then.
	Cancels bool
	// Due is when the pod must start to leave, to the millisecond, on the clock of Taintkeeper's machine.
	Due time.Time
	// Taint is the taint that decides, as kubectl writes it: KEY=VALUE:EFFECT. A taint that is too long is cut, and then
	// ends in "...", as no taint does.
	Taint string
}

const (
	actionEvict  = "Evict"
	actionCancel = "Cancel"
	actionDue    = " due="
	actionTaint  = " taint="
	actionCut    = "..."
	// actionLimit is how many bytes the API of events allows (k8s.io/kubernetes/pkg/apis/core/validation/events.go).
	actionLimit = 128
	// actionTime has no instants after the year 9999, which is as good as never.
	actionTime = "2006-01-02T15:04:05.000Z"
	lastYear   = 9999
)

// String returns the text that [ParseEventAction] reads.
func (a EventAction) String() string {
	text := actionEvict
	if a.Cancels {
		text = actionCancel
	}
	if due := a.Due.UTC(); !due.IsZero() && due.Year() <= lastYear {
		text += actionDue + due.Format(actionTime)
	}
	if a.Taint != "" {
		text += actionTaint + a.Taint
	}
	if len(text) > actionLimit {
		text = text[:actionLimit-len(actionCut)] + actionCut
	}
	return text
}

// ParseEventAction reads the action of an event. It reports false if the event is of another kind or program.
func ParseEventAction(text string) (a EventAction, ok bool) {
	text, a.Taint, _ = strings.Cut(text, actionTaint)
	text, due, hasDue := strings.Cut(text, actionDue)
	if hasDue {
		var err error
		if a.Due, err = time.Parse(actionTime, due); err != nil {
			return EventAction{}, false
		}
	}
	a.Cancels = text == actionCancel
	return a, a.Cancels || text == actionEvict
}
