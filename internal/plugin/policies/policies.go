// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies says whether EvictionPolicies object to the eviction of a pod, from the objects that kubectl reads.
// The rule is in internal/policy; this package finds out what the rule needs to know.
//
// Some of that only Taintkeeper knows. The policy's status says whether a breaker is open, unless Trip finds out that
// it will open. How much room a pace has is not known. If the policy's status says that its pace holds pods, this
// package assumes that it holds exactly those that are already due. If a status says that Taintkeeper may not use the
// Eviction API, no pod is asked about. Of past pauses and open breakers, the status knows only when the last one ended
// that kept any pod of a policy, so a deadline can be over earlier than this package says.
package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Set is the policies of a cluster.
type Set struct {
	// All are the policies, by name.
	All []*policy.Policy
	// Flaws say which policies cannot be read completely, and what they do then.
	Flaws []string

	made       map[string]bool   // policies that the command pause created
	open       map[string]string // why breakers are open, by policy
	full       map[string]bool   // policies whose pace has no room
	mayNotAsk  bool              // Taintkeeper may not use the Eviction API
	namespaces map[string]*corev1.Namespace
	budgets    BudgetsOf
}

// BudgetsOf returns the PodDisruptionBudgets of a pod with these labels.
type BudgetsOf func(namespace string, pod labels.Set) []*policyv1.PodDisruptionBudget

// New compiles policies. As in Taintkeeper before it knows a namespace's labels, every policy selects a namespace that
// is not among the objects.
func New(objects []*v1alpha1.EvictionPolicy, namespaces []*corev1.Namespace, budgets BudgetsOf) *Set {
	s := &Set{
		made: map[string]bool{}, open: map[string]string{}, full: map[string]bool{},
		namespaces: map[string]*corev1.Namespace{}, budgets: budgets,
	}
	for _, object := range objects {
		compiled, err := policy.New(object)
		if err != nil {
			s.Flaws = append(s.Flaws, fmt.Sprintf("EvictionPolicy %s holds too many pods, because part of it cannot be read: %v.", object.Name, err))
		}
		s.All = append(s.All, compiled)
		s.made[object.Name] = MadeByPause(object)
		tripped := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionTripped)
		if compiled.Breaker() != nil && tripped != nil && tripped.Status == "True" {
			s.open[object.Name] = strings.TrimSuffix(tripped.Message, ".")
		}
		holding := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionHolding)
		holds := holding != nil && holding.Status == "True"
		s.full[object.Name] = holds && holding.Reason == string(policy.Paced)
		s.mayNotAsk = s.mayNotAsk || holds && strings.Contains(holding.Message, string(policy.NotPermitted))
	}
	slices.SortFunc(s.All, func(a, b *policy.Policy) int { return strings.Compare(a.Name, b.Name) })
	for _, namespace := range namespaces {
		s.namespaces[namespace.Name] = namespace
	}
	return s
}

// Pod is what policies read of a pod.
type Pod struct {
	Namespace string
	Labels    labels.Set
	Finished  bool
	// IgnoresBudgets is set if the Eviction API evicts the pod whatever its budgets say.
	IgnoresBudgets bool
	// NotReady is since when the pod has not been ready. It is zero if it is ready.
	NotReady time.Time
}

// PodOf returns what policies read of a pod.
func PodOf(pod *corev1.Pod) Pod {
	is := Pod{
		Namespace: pod.Namespace, Labels: pod.Labels,
		Finished:       pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		IgnoresBudgets: policy.IgnoresBudgets(pod.Status.Phase),
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			is.NotReady = since(c.LastTransitionTime)
		}
	}
	return is
}

// since returns an instant that may be missing in a file, which means long ago.
func since(at metav1.Time) time.Time {
	if at.IsZero() {
		return time.Unix(0, 0)
	}
	return at.Time
}

// Node is what policies read of a node.
type Node struct {
	Labels labels.Set
	// NotReady is since when the node has not been ready. It is zero if it is ready.
	NotReady time.Time
}

// NodeOf returns what policies read of a node.
func NodeOf(node *corev1.Node) Node {
	is := Node{Labels: node.Labels}
	if ready := readiness.Condition(node, corev1.NodeReady); ready == nil {
		is.NotReady = since(node.CreationTimestamp)
	} else if ready.Status != corev1.ConditionTrue {
		is.NotReady = since(ready.LastTransitionTime)
	}
	return is
}

// Mismatch returns the selector of a policy that does not match a pod on its node. It is empty if the policy selects
// the pod.
func (s *Set) Mismatch(p *policy.Policy, pod Pod, node Node) string {
	return p.Mismatch(s.facts(pod, node))
}

// Selecting returns the policies that select a pod on its node.
func (s *Set) Selecting(pod Pod, node Node) (selecting []*policy.Policy) {
	is := s.facts(pod, node)
	for _, p := range s.All {
		if p.Mismatch(is) == "" {
			selecting = append(selecting, p)
		}
	}
	return selecting
}

// Course says what happens to a pod that must leave if nothing but the time changes.
type Course struct {
	// First is the answer when the pod is due, or now if it is already due. Last is the last answer that keeps it.
	First, Last policy.Answer
	// Leaves is when the last policy stops objecting, and zero if that never happens without other changes. Asks says that
	// the Eviction API is asked then.
	Leaves time.Time
	Asks   bool
	// Deletes is when a deadline ends and Taintkeeper deletes the pod without asking, if it is still there; zero if no
	// deadline does that.
	Deletes time.Time
}

// Course returns what the policies that select a pod do with it from an instant on. There is at least one cause.
func (s *Set) Course(
	selecting []*policy.Policy, pod Pod, node Node, causes []policy.Cause, now time.Time,
) Course {
	at := slices.MinFunc(causes, func(a, b policy.Cause) int { return a.Due.Compare(b.Due) }).Due
	if at.Before(now) {
		at = now
	}
	state := func(p *policy.Policy) policy.State { return s.state(p, causes, now, at) }
	causes = slices.Clone(causes)
	var course Course
	overruled := false // a deadline has ended
	for first := true; ; first = false {
		s.noteHalts(selecting, causes, at)
		is := s.FactsAt(pod, node, at)
		is.Budgets = s.object(pod)
		said := policy.Decide(selecting, is, causes, at, state)
		if first {
			course.First = said.Answer
		}
		overruled = overruled || course.Last.EndsByDeadline() && course.Last.Until.Equal(at)
		if !said.Stays() {
			course.Leaves, course.Asks = at, said.Step == policy.Ask
			if course.Deletes = said.Until; overruled && !course.Asks {
				course.Deletes = at
			}
			return course
		}
		course.Last = said.Answer
		if at = instant.Next(said.Again, is.Turns); at.IsZero() {
			return course
		}
	}
}

// state returns the state of a policy at an instant, as far as it is known.
func (s *Set) state(p *policy.Policy, causes []policy.Cause, now, at time.Time) (is policy.State) {
	is.Open = s.open[p.Name]
	if due, _ := p.Due(causes); s.full[p.Name] && at.Equal(now) && due.Before(now) {
		is.Room = func() time.Time { return policy.Later }
	}
	return is
}

// noteHalts notes in the causes whether a pause or an open breaker keeps a pod at an instant.
func (s *Set) noteHalts(selecting []*policy.Policy, causes []policy.Cause, at time.Time) {
	open := func(p *policy.Policy) bool { return s.open[p.Name] != "" }
	for i := range causes {
		if !causes[i].Due.After(at) {
			causes[i].Halt.Note(policy.Halts(selecting, causes[i], at, open), at)
		}
	}
}

// Released returns the causes as they are when all pauses and open breakers end that keep the pod at an instant. Ends
// is when they end.
func (s *Set) Released(selecting []*policy.Policy, causes []policy.Cause, at, ends time.Time) []policy.Cause {
	released := slices.Clone(causes)
	s.noteHalts(selecting, released, at)
	for i := range released {
		released[i].Halt.Note(false, ends)
	}
	return released
}

// FactsAt returns what policies need to know about a pod at an instant, without its budgets.
func (s *Set) FactsAt(pod Pod, node Node, at time.Time) *policy.Pod {
	is := s.facts(pod, node)
	is.NotReadySince(instant.Next(pod.NotReady, node.NotReady), at)
	return is
}

// facts returns what policies need to know about a pod that does not count as unready, without its budgets.
func (s *Set) facts(pod Pod, node Node) *policy.Pod {
	is := &policy.Pod{Labels: pod.Labels, NodeLabels: node.Labels, Finished: pod.Finished}
	if namespace := s.namespaces[pod.Namespace]; namespace != nil {
		is.NamespaceLabels, is.NamespaceEnds = labels.Set(namespace.Labels), namespace.DeletionTimestamp != nil
	}
	return is
}

// object returns what the budgets of a pod say in their current state.
func (s *Set) object(pod Pod) policy.Budgets {
	all := s.budgets(pod.Namespace, pod.Labels)
	if pod.IgnoresBudgets || len(all) == 1 && !pod.NotReady.IsZero() && policy.SparesUnready(all[0]) {
		return s.BudgetsNamed()
	}
	var names []string
	for _, budget := range all {
		names = append(names, budget.Namespace+"/"+budget.Name)
	}
	is := s.BudgetsNamed(names...)
	if len(all) == 1 && is.Objects == "" && policy.Allowed(all[0]) == 0 {
		is.Objects = policy.Budget
	}
	return is
}

// BudgetsNamed returns what budgets with these names say, regardless of what they allow.
func (s *Set) BudgetsNamed(names ...string) policy.Budgets {
	is := policy.BudgetsNamed(names...)
	if s.mayNotAsk {
		is.Objects = policy.NotPermitted
	}
	return is
}

// These identify the policies that the command pause creates.
const (
	MadeLabel = "app.kubernetes.io/managed-by"
	MadeBy    = "kubectl-taintkeeper"
)

// MadeByPause reports whether the command pause created a policy, so that resume ends it.
func MadeByPause(object *v1alpha1.EvictionPolicy) bool { return object.Labels[MadeLabel] == MadeBy }

// PaceUsedUp reports whether pods waited for the pace of a policy when its status was written.
func (s *Set) PaceUsedUp(p *policy.Policy) bool { return s.full[p.Name] }

// IsPause reports the same about a policy of the set.
func (s *Set) IsPause(p *policy.Policy) bool { return s.made[p.Name] }

// Candidate is a pod that policies select, and why it must leave, now or later.
type Candidate struct {
	Pod
	Node   Node
	By     []*policy.Policy
	Causes []policy.Cause
}

// steps are the API's values for the steps of policies.
var steps = map[policy.Step]cliv1alpha1.PolicyStep{
	policy.Free: cliv1alpha1.PolicyFree, policy.Ask: cliv1alpha1.PolicyAsk,
	policy.Wait: cliv1alpha1.PolicyWait, policy.Hold: cliv1alpha1.PolicyHold,
}

// AnswerOf says what policies do with a pod.
func AnswerOf(course Course) *cliv1alpha1.PolicyAnswer {
	first := course.First
	answer := &cliv1alpha1.PolicyAnswer{
		Says: steps[first.Step], Policy: first.Policy, Reason: string(first.Why),
		Until: MicroTime(first.Until), LeavesAt: MicroTime(course.Leaves), LastPolicy: course.Last.Policy,
	}
	if first.Policy != "" {
		answer.Message = first.String()
	}
	return answer
}

// PaceOf says how fast a policy releases pods. It is empty if the policy sets no pace.
func PaceOf(p *policy.Policy) string {
	pace := p.Pace()
	if pace == nil {
		return ""
	}
	scope := map[string]string{"Node": "each node", "Zone": "each zone", "Cluster": "the cluster"}[string(pace.Scope)]
	pods := sentence.Counted(pace.Pods, "pod")
	return fmt.Sprintf("at most %s per %s in %s", pods, sentence.Duration(pace.Per), scope)
}

// MicroTime returns an instant, or nil for zero.
func MicroTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewMicroTime(at))
}

// Release is what happens to held pods when pauses and open breakers let them go.
type Release struct {
	// Leave is how many then leave, although some only at a pace. Asked is about how many of these the Eviction API is
	// asked first.
	Leave, Asked int
	// Late is how many a deadline deletes without asking, if they are still there, from First to Last after the release.
	Late        int
	First, Last time.Duration
}

// Add adds the course of a pod from the release on.
func (r *Release) Add(course Course, at time.Time) {
	if !course.Held() {
		r.Leave++
		if course.Asks {
			r.Asked++
		}
	}
	if course.Deletes.IsZero() {
		return
	}
	after := course.Deletes.Sub(at)
	if r.Late++; r.Late == 1 || after < r.First {
		r.First = after
	}
	r.Last = max(r.Last, after)
}

// Deadlines says about how many pods the Eviction API is asked first, and how many of them are deleted anyway, and
// when. It is empty if no policy with a deadline or the action Evict selects one of the pods.
func (r *Release) Deadlines() (text string) {
	switch r.Asked {
	case 0:
	case r.Leave:
		text = " The Eviction API is asked first."
	default:
		text = fmt.Sprintf(" The Eviction API is asked about %d of them first.", r.Asked)
	}
	if r.Late > 0 {
		later := sentence.Span(r.First)
		if last := sentence.Span(r.Last); last != later {
			later += " to " + last
		}
		text += fmt.Sprintf(" %d %s deleted without asking if still there %s later.",
			r.Late, sentence.Agree(r.Late, "is", "are"), later)
	}
	return text
}

// Held reports whether policies keep a pod at first. A pace only delays it, as does the settling of a breaker.
func (c Course) Held() bool {
	return c.First.Stays() && c.First.Why != policy.Paced && c.First.Why != policy.Settling
}

// Halted reports whether it is a pause or an open breaker that keeps a pod at first.
func (c Course) Halted() bool {
	return c.First.Why == policy.Paused || c.First.Why == policy.BreakerOpen
}

// Resumed returns the set without its pauses and breakers.
func (s *Set) Resumed() *Set {
	resumed := *s
	resumed.All, resumed.open = nil, map[string]string{}
	for _, p := range s.All {
		if !s.made[p.Name] {
			resumed.All = append(resumed.All, p.Resumed())
		}
	}
	return &resumed
}

// AfterHalts returns the course of a pod if all pauses and open breakers that keep it at an instant ended then. The set
// is the one before that.
func (s *Set) AfterHalts(resumed *Set, c Candidate, at time.Time) Course {
	return resumed.Course(resumed.Selecting(c.Pod, c.Node), c.Pod, c.Node, s.Released(c.By, c.Causes, at, at), at)
}
