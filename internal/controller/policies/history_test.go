// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	// seenWithin is how long it takes at most until a process has seen a change: its watch can bring nothing for a while.
	seenWithin = 5 * sec
	// quiet is how long nothing happens at the end, so that all pods that may leave do so: the slowest pace is 1 in 20
	// s.
	quiet = 8 * time.Minute
)

// history is a random one, of a cluster and its policies. It knows what the API server has stored at each instant, and
// asks the model what may happen to pods.
type history struct {
	*world

	what   string
	faults bool // the process is killed, answers are lost, and the watch of pods brings nothing for a while
	random *rand.Rand
	at     []moment // in order

	mu   sync.Mutex
	left map[string]time.Time // pods that the Evictor has deleted, or that left through the Eviction API
	asks map[string]bool      // those that left through the Eviction API
	gone map[string]time.Time // pods that are gone
	lost map[string]bool      // pods with a delete that was carried out and not answered

	blind  time.Time   // until then the watch of pods brings nothing
	starts []time.Time // of later processes
}

func newHistory(w *world) *history {
	return &history{
		world: w, left: map[string]time.Time{}, asks: map[string]bool{}, gone: map[string]time.Time{}, lost: map[string]bool{},
		at: []moment{{
			at: time.Now(), labels: map[string]map[string]string{}, taints: map[string][]oracle.Taint{},
			unready: map[string]time.Time{}, budgets: map[string]policyv1.PodDisruptionBudget{},
			namespaces: map[string]corev1.Namespace{"default": {}, "other": {}}, pods: map[string]corev1.Pod{},
			elsewhere: map[string]corev1.Pod{}, tolerates: map[string]time.Time{},
		}},
	}
}

// moment is what is stored from an instant on.
type moment struct {
	at         time.Time
	labels     map[string]map[string]string // of nodes
	taints     map[string][]oracle.Taint
	namespaces map[string]corev1.Namespace
	pods       map[string]corev1.Pod                   // that have ever been there, by name
	elsewhere  map[string]corev1.Pod                   // those that have replaced them
	tolerates  map[string]time.Time                    // since when a pod has had its tolerations
	unready    map[string]time.Time                    // since when nodes are not ready
	budgets    map[string]policyv1.PodDisruptionBudget // by name
	policies   []v1alpha1.EvictionPolicy
}

func (m *moment) clone() moment {
	return moment{
		time.Now(), maps.Clone(m.labels), maps.Clone(m.taints), maps.Clone(m.namespaces), maps.Clone(m.pods),
		maps.Clone(m.elsewhere), maps.Clone(m.tolerates),
		maps.Clone(m.unready), maps.Clone(m.budgets), slices.Clone(m.policies),
	}
}

// change changes what is stored from now on. The change itself follows.
func (h *history) change(change func(m *moment)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = append(h.at, h.at[len(h.at)-1].clone())
	change(&h.at[len(h.at)-1])
}

// newest returns what is stored now. It must not be changed.
func (h *history) newest() *moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &h.at[len(h.at)-1]
}

// since returns the moments that a process may have seen last at an instant.
func (h *history) since(now time.Time) []moment { return h.within(now, seenWithin) }

// within returns the moments that were the newest at some point in a period that ends at an instant.
func (h *history) within(now time.Time, d time.Duration) []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := 0
	for i := range h.at {
		if !h.at[i].at.After(now.Add(-d)) {
			first = i
		}
	}
	last := slices.IndexFunc(h.at, func(m moment) bool { return m.at.After(now) })
	if last < 0 {
		last = len(h.at)
	}
	return h.at[first:last]
}

// dues returns when a pod is due because of the taints of its node. A process that sees each change at once does not
// see that before the taint and the tolerations are there.
func (m *moment) dues(pod *corev1.Pod) (dues []oracle.DueBy) {
	is := oracle.Pod{Tolerations: pod.Spec.Tolerations, Bound: oracle.At(pod.CreationTimestamp.Time)}
	for _, taint := range m.taints[pod.Spec.NodeName] {
		if due := (oracle.Rule{}).Due(is, []oracle.Taint{taint}); due.From.Before(oracle.Never) {
			seen := oracle.Later(taint.Seen.From, m.tolerates[pod.Name])
			dues = append(dues, oracle.DueBy{Taint: taint.Taint, At: due.From, Seen: seen})
		}
	}
	return dues
}

// model is what the model is asked about a pod.
func (m *moment) model(name string, open map[string]bool) oracle.Policies {
	pod := m.pods[name]
	namespace := m.namespaces[pod.Namespace]
	return oracle.Policies{
		List: m.policies, Open: open, Pod: pod.Labels, Namespace: namespace.Labels, Node: m.labels[pod.Spec.NodeName],
		NamespaceEnds: namespace.DeletionTimestamp != nil, Finished: finished(&pod),
		Dues: m.dues(&pod),
	}
}

// modelAt is the model with the facts that change with time.
func (m *moment) modelAt(name string, open map[string]bool, now time.Time) oracle.Policies {
	is, pod := m.model(name, open), m.pods[name]
	ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	c := pod.Status.Conditions[ready]
	since, unready := m.unready[pod.Spec.NodeName]
	is.Unready = unready && !since.Add(30*sec).After(now) ||
		c.Status == corev1.ConditionFalse && !c.LastTransitionTime.Add(30*sec).After(now)
	is.Refused = len(m.budgetsOf(&pod)) > 1
	return is
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// budgetsOf returns the budgets that the Eviction API asks about a pod.
func (m *moment) budgetsOf(pod *corev1.Pod) (of []policyv1.PodDisruptionBudget) {
	if finished(pod) {
		return nil
	}
	for _, b := range m.budgets {
		if b.Namespace == pod.Namespace && labels.Set(b.Spec.Selector.MatchLabels).AsSelector().Matches(labels.Set(pod.Labels)) {
			of = append(of, b)
		}
	}
	return of
}

// allows reports whether nothing but an EvictionPolicy can keep a pod about which the Eviction API is asked.
func (m *moment) allows(name string) bool {
	pod := m.pods[name]
	return !slices.ContainsFunc(m.budgetsOf(&pod), func(b policyv1.PodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 0 })
}

// counted reports whether a policy is about some of the taints that make a pod due, and whether it is about all of
// them.
func (m *moment) counted(name string, p *v1alpha1.EvictionPolicy, now time.Time) (some, only bool) {
	bare := *p.DeepCopy()
	bare.Spec.Action, bare.Spec.Paused, bare.Spec.Breaker, bare.Spec.Deadline, bare.Spec.DryRun = v1alpha1.ActionHold, nil, nil, nil, false
	alone := m.model(name, nil)
	alone.List = []v1alpha1.EvictionPolicy{bare}
	only = true
	for _, due := range alone.Dues {
		one := alone
		one.Dues = []oracle.DueBy{due}
		if due.At.After(now) {
			continue
		}
		held := one.May(now) == oracle.Stay
		some, only = some || held, only && held
	}
	return some, some && only
}

// open returns the policies whose breakers are certainly open at an instant: too many pods are due, whatever the process
// has seen last.
func (h *history) open(now time.Time) map[string]bool {
	open := map[string]bool{}
	seen := h.since(now)
	for _, p := range seen[len(seen)-1].policies {
		if p.Spec.Breaker == nil {
			continue
		}
		open[p.Name] = !slices.ContainsFunc(seen, func(m moment) bool {
			i := slices.IndexFunc(m.policies, func(is v1alpha1.EvictionPolicy) bool { return is.Name == p.Name && is.Generation == p.Generation })
			return i < 0 || h.demand(&m, &p, now, latest) <= h.maxDue(seen, &p, now)
		})
	}
	return open
}

// maxDue is how many pods may be due at once for the breaker of a policy, at most.
func (h *history) maxDue(seen []moment, p *v1alpha1.EvictionPolicy, now time.Time) int {
	most := p.Spec.Breaker.MaxDue
	if most.Type == intstr.Int {
		return most.IntValue()
	}
	selected := 0
	for _, m := range seen {
		selected = max(selected, h.selected(&m, p, now))
	}
	share, err := intstr.GetScaledValueFromIntOrPercent(&most, selected, false)
	h.Must(nil, err)
	return max(share, 1)
}

// selected counts the pods that a policy selects and that a process may still know.
func (h *history) selected(m *moment, p *v1alpha1.EvictionPolicy, now time.Time) (count int) {
	some := oracle.DueBy{Taint: corev1.Taint{Key: "x"}}
	bare := *p.DeepCopy()
	bare.Spec.Taints, bare.Spec.Breaker.ResumedAt = nil, nil
	for name := range m.pods {
		h.mu.Lock()
		at, gone := h.gone[name]
		h.mu.Unlock()
		if (!gone || at.After(now.Add(-seenWithin))) && m.counts(name, &bare, some) {
			count++
		}
	}
	for name := range m.elsewhere {
		there := moment{pods: m.elsewhere, namespaces: m.namespaces, labels: m.labels}
		if there.counts(name, &bare, some) {
			count++
		}
	}
	return count
}

// mayBeOpen returns the policies whose breakers can be open at an instant.
func (h *history) mayBeOpen(now time.Time) map[string]bool {
	open := h.open(now)
	for _, m := range h.since(now) {
		for _, p := range m.policies {
			open[p.Name] = open[p.Name] || p.Spec.Breaker != nil && h.demand(&m, &p, now, earliest) > max(p.Spec.Breaker.MaxDue.IntValue(), 1)
		}
	}
	return open
}

// demand counts the pods that would leave if no policy had a breaker, because of taints to which a policy applies. Of
// the pods of a budget, it counts no more than the budget allows.
func (h *history) demand(m *moment, p *v1alpha1.EvictionPolicy, now time.Time, released bound) (count int) {
	now = now.Add(-seenWithin) // what is so for a while, the process has seen
	asking := map[string]int{}
	for name := range m.pods {
		h.mu.Lock()
		at, gone := h.gone[name]
		h.mu.Unlock()
		if gone && !at.After(now.Add(seenWithin)) {
			continue
		}
		is, pod := h.modelAt(m, name, nil, now, released, !released), m.pods[name]
		is.Dues = slices.DeleteFunc(is.Dues, func(due oracle.DueBy) bool { return !m.counts(name, p, due) })
		is.List = slices.Clone(m.policies)
		for i := range is.List {
			is.List[i].Spec.Breaker = nil
			is.List[i].Spec.DryRun = is.List[i].Spec.DryRun && is.List[i].Name != p.Name
		}
		of := m.budgetsOf(&pod)
		switch may := is.May(now); {
		case may == oracle.AskFirst && len(of) == 1:
			asking[of[0].Name]++
		case may != oracle.Stay:
			count++
		}
	}
	for name, pods := range asking {
		count += min(pods, int(m.budgets[name].Status.DisruptionsAllowed))
	}
	return count
}

// counts reports whether the breaker of a policy counts a pod because of a taint, if the pod would leave.
func (m *moment) counts(name string, p *v1alpha1.EvictionPolicy, due oracle.DueBy) bool {
	resumed := p.Spec.Breaker.ResumedAt
	return m.about(name, p, due) && (resumed == nil || !oracle.Later(due.At, due.Seen).Before(resumed.Time))
}

// about reports whether a policy selects a pod and applies to a taint because of which it is due.
func (m *moment) about(name string, p *v1alpha1.EvictionPolicy, due oracle.DueBy) bool {
	one := m.model(name, nil)
	one.List = []v1alpha1.EvictionPolicy{{Spec: spec{
		Action: v1alpha1.ActionHold, Taints: p.Spec.Taints, NamespaceSelector: p.Spec.NamespaceSelector,
		PodSelector: p.Spec.PodSelector, NodeSelector: p.Spec.NodeSelector,
	}}}
	one.Dues, one.NamespaceEnds = []oracle.DueBy{due}, false
	return one.May(due.At) == oracle.Stay
}

// bound is which of the instants is meant that a process may take for the end of the last halt of a pod, or at which it
// may first have seen the pod as due.
type bound bool

const (
	earliest bound = false
	latest   bound = true
)

// surelySeen is for how long a pause must have kept a pod that is due until every process has noticed it.
const surelySeen = seenWithin + 3*sec

// modelAt is the model of a moment at an instant, with the halts of the pod, and since when it has been seen as due.
func (h *history) modelAt(
	m *moment, name string, open map[string]bool, now time.Time, released, seen bound,
) oracle.Policies {
	is := m.modelAt(name, open, now)
	for i := range is.Dues {
		if released == latest {
			is.Dues[i].Released = h.releasedAtTheLatest(name, is.Dues[i], now)
		} else {
			is.Dues[i].Released = h.released(name, is.Dues[i].Taint.Key, now)
		}
		if seen == earliest {
			is.Dues[i].Seen = h.seen(m, name, is.Dues[i], now)
		}
	}
	return is
}

// seen returns the earliest instant from which the process that runs may have seen, without a gap, that a pod is due
// because of a taint. It can miss a short gap, which a change of the pod makes, but not one without the taint.
func (h *history) seen(last *moment, name string, due oracle.DueBy, now time.Time) (since time.Time) {
	var until time.Time
	sees := func(from, to time.Time) {
		if from.Sub(until) > seenWithin {
			since = from
		}
		until = to
	}
	h.eachMoment(last.at, func(m *moment, to time.Time) {
		pod := m.pods[name]
		dues := m.dues(&pod)
		i := slices.IndexFunc(dues, func(by oracle.DueBy) bool { return by.Taint.Key == due.Taint.Key })
		if i < 0 {
			until = time.Time{}
		} else if from := oracle.Later(m.at, dues[i].At); from.Before(to) {
			sees(from, to)
		}
	})
	sees(oracle.Later(last.at, due.At), now)
	for _, start := range h.starts {
		if !start.After(now) {
			since = oracle.Later(since, start)
		}
	}
	return since
}

// mayAt says what a pod may do at an instant, if a process sees this moment.
func (h *history) mayAt(m *moment, name string, open map[string]bool, now time.Time, released bound) oracle.Leave {
	is := h.modelAt(m, name, open, now, released, released)
	return is.May(now)
}

// released returns when a pause last ended that every process has noticed; zero if there was none since the process
// started. Nobody knows for sure when breakers are open.
func (h *history) released(name, taint string, now time.Time) (at time.Time) {
	var since time.Time
	h.eachMoment(now, func(m *moment, to time.Time) {
		if slices.ContainsFunc(h.starts, m.at.Equal) {
			at, since = time.Time{}, time.Time{}
		}
		pod, there := m.pods[name]
		dues := m.dues(&pod)
		i := slices.IndexFunc(dues, func(due oracle.DueBy) bool { return due.Taint.Key == taint && due.At.Before(to) })
		paused := there && i >= 0 && slices.ContainsFunc(m.policies, func(p v1alpha1.EvictionPolicy) bool {
			return p.Spec.Paused != nil && !p.Spec.DryRun && m.about(name, &p, dues[i])
		})
		switch {
		case !paused:
			since = time.Time{}
		case since.IsZero():
			since = oracle.Later(m.at, dues[i].At)
		}
		if paused && to.Sub(since) >= surelySeen {
			at = to
		}
	})
	return at
}

// releasedAtTheLatest returns the latest instant at which a process may date the end of the last halt: a breaker
// can have been open at any time, and a new process knows only that some pods of a policy were halted.
func (h *history) releasedAtTheLatest(name string, due oracle.DueBy, now time.Time) (at time.Time) {
	h.eachMoment(now, func(m *moment, to time.Time) {
		_, there := m.pods[name]
		if there && slices.ContainsFunc(m.policies, func(p v1alpha1.EvictionPolicy) bool {
			return (p.Spec.Paused != nil || p.Spec.Breaker != nil) && !p.Spec.DryRun && m.about(name, &p, due)
		}) {
			at = to.Add(seenWithin)
		}
	})
	for _, start := range h.starts {
		at = oracle.Later(at, start.Add(seenWithin))
	}
	if at.After(now) {
		return now
	}
	return at
}

// eachMoment calls a function with the moments up to an instant, and when each ended.
func (h *history) eachMoment(now time.Time, do func(m *moment, to time.Time)) {
	all := h.within(now, now.Sub(h.Start))
	for i := range all {
		to := now
		if i+1 < len(all) {
			to = all[i+1].at
		}
		do(&all[i], to)
	}
}

// may says what a pod may do at an instant, according to anything that a process may have seen last.
func (h *history) may(name string, open map[string]bool, now time.Time, released bound) (most oracle.Leave) {
	for _, m := range h.since(now) {
		if _, there := m.pods[name]; there {
			most = max(most, h.mayAt(&m, name, open, now, released))
		}
	}
	return most
}

// before may delay a call.
func (h *history) before(ctx context.Context, q bubble.Request) error {
	h.mu.Lock()
	if _, left := h.left[q.Name]; leaves(q) && left && !h.lost[q.Name] {
		h.T.Errorf("pod %s leaves again: %s", q.Name, q.Verb)
	}
	slow := h.faults && q.Resource == "pods" && q.Verb != "evict" && h.random.IntN(8) == 0
	took := time.Duration(h.random.IntN(2000)) * time.Millisecond
	h.mu.Unlock()
	if slow {
		return bubble.Takes(ctx, took)
	}
	return nil
}

// leaves reports whether a call makes a pod leave.
func leaves(q bubble.Request) bool { return q.Verb == "delete" || q.Verb == "evict" }

// after notes which pods leave. It may delay the answer of the Eviction API, and lose answers.
func (h *history) after(ctx context.Context, q bubble.Request) error {
	if !leaves(q) {
		return nil
	}
	if q.Verb == "evict" {
		h.change(h.noteBudgets)
	}
	h.mu.Lock()
	h.left[q.Name], h.gone[q.Name], h.asks[q.Name] = time.Now(), time.Now(), q.Verb == "evict"
	slow := h.faults && q.Verb == "evict" && h.random.IntN(8) == 0
	took := time.Duration(h.random.IntN(2000)) * time.Millisecond
	lost := h.faults && h.random.IntN(6) == 0
	h.lost[q.Name] = lost
	h.mu.Unlock()
	if slow {
		if err := bubble.Takes(ctx, took); err != nil {
			return err
		}
	}
	if lost {
		return errors.New("the answer is lost")
	}
	return nil
}

// noteBudgets notes the budgets as they are stored.
func (h *history) noteBudgets(m *moment) {
	all, err := h.API.List(budgetsResource, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), "")
	h.Must(nil, err)
	clear(m.budgets)
	for _, b := range all.(*policyv1.PodDisruptionBudgetList).Items {
		m.budgets[b.Name] = b
	}
}

// reads may delay a read of a due pod, or make it fail.
func (h *history) reads(ctx context.Context, q bubble.Request) error {
	h.mu.Lock()
	fails := h.faults && h.random.IntN(8) == 0
	h.mu.Unlock()
	if fails {
		return errRefused
	}
	return h.before(ctx, q)
}

func (h *history) start() {
	h.core = &bubble.Slow{Clientset: h.Client, Before: h.reads}
	h.run(func(c *eviction.Config) {
		c.Client, c.EventClient = &bubble.Slow{Clientset: h.Client, Before: h.before, After: h.after}, h.Client
	})
}

// event is something that happens. Its random parts were chosen beforehand.
type event func(h *history)

// someEvent returns a random event.
func someEvent(r *rand.Rand, number int) event {
	node, seconds := pick(r, "n", "m", "l"), int64(r.IntN(4)*5)
	switch r.IntN(17) {
	case 0, 1, 2:
		key, old := pick(r, "x", "x", "x", "y", corev1.TaintNodeOutOfService), pick(r, 0, 0, time.Duration(r.IntN(100))*sec)
		return func(h *history) { h.toggle(node, key, old) }
	case 3:
		value := pick(r, "1", "2")
		return func(h *history) { h.label(node, value) }
	case 4:
		pod := fmt.Sprint("late", number)
		labels, namespace, done := someLabels(r), pick(r, "default", "other"), r.IntN(4) == 0
		return func(h *history) { h.comes(pod, namespace, node, labels, seconds, done) }
	case 5, 6:
		pod, labels := fmt.Sprint("p", r.IntN(podsAtFirst)), someLabels(r)
		kind := r.IntN(3)
		return func(h *history) { h.changes(pod, kind, labels, seconds) }
	case 7:
		pod := fmt.Sprint("p", r.IntN(podsAtFirst))
		return func(h *history) { h.goes(pod) }
	case 8:
		labels, ends := someLabels(r), r.IntN(4) == 0
		return func(h *history) { h.namespace("other", labels, ends) }
	case 9:
		fault, lasts := r.IntN(2), time.Duration(1+r.IntN(3))*sec
		return func(h *history) { h.fault(fault, lasts) }
	case 10, 11:
		pod, ready := fmt.Sprint("p", r.IntN(podsAtFirst)), r.IntN(2) == 0
		return func(h *history) { h.ready(pod, ready) }
	case 12:
		ready := r.IntN(3) > 0
		return func(h *history) { h.nodeReady(node, ready) }
	case 13, 14:
		namespace, selector, allowed, removed := pick(r, "default", "other"), someLabels(r), int32(r.IntN(4)), r.IntN(4) == 0
		name := fmt.Sprint(namespace, r.IntN(2))
		return func(h *history) { h.budget(namespace, name, selector, allowed, removed) }
	}
	name, spec := pick(r, "a", "b", "c"), someSpec(r)
	removed, resumed := r.IntN(3) == 0, r.IntN(3) == 0
	return func(h *history) { h.policy(name, spec, removed, resumed) }
}

const podsAtFirst = 8

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func someLabels(r *rand.Rand) map[string]string {
	if r.IntN(4) == 0 {
		return nil
	}
	return map[string]string{"a": pick(r, "1", "2")}
}

func someSelector(r *rand.Rand) *v1alpha1.Selector {
	if r.IntN(3) > 0 {
		return nil
	}
	return matching("a", pick(r, "1", "2"))
}

// someSpec returns a random policy.
func someSpec(r *rand.Rand) spec {
	spec := spec{
		NamespaceSelector: someSelector(r), PodSelector: someSelector(r), NodeSelector: someSelector(r),
		Action: pick(r, v1alpha1.ActionDelete, v1alpha1.ActionHold, v1alpha1.ActionEvict),
		DryRun: r.IntN(8) == 0,
	}
	for range max(r.IntN(5)-2, 0) {
		spec.Taints = append(spec.Taints, v1alpha1.EvictionPolicyTaint{Key: pick(r, "x", "y"), Value: pick(r, nil, nil, new(""))})
	}
	if spec.Action != v1alpha1.ActionDelete && r.IntN(4) > 0 {
		spec.Deadline = &metav1.Duration{Duration: time.Duration(1+r.IntN(60)) * sec}
	}
	if spec.Action == v1alpha1.ActionEvict && r.IntN(3) == 0 {
		spec.Unready = v1alpha1.UnreadyAsk
	}
	if r.IntN(8) == 0 {
		spec.Paused = new("looking at it")
	}
	if r.IntN(4) == 0 {
		spec.Finished = v1alpha1.FinishedKeep
	}
	if r.IntN(3) == 0 {
		spec.Breaker = &v1alpha1.EvictionBreaker{
			MaxDue: pick(r, intstr.FromInt32(int32(1+r.IntN(5))), intstr.FromString(pick(r, "20%", "50%", "80%"))),
			Settle: pick(r, nil, new(metav1.Duration), &metav1.Duration{Duration: 4 * sec}, &metav1.Duration{Duration: 8 * sec}),
		}
	}
	if r.IntN(2) == 0 {
		spec.Pace = &v1alpha1.EvictionPace{
			Pods: int32(1 + r.IntN(2)), Per: metav1.Duration{Duration: time.Duration(5+r.IntN(16)) * sec},
			Scope: pick(r, v1alpha1.ScopeCluster, v1alpha1.ScopeNode, v1alpha1.ScopeZone),
		}
	}
	return spec
}

// toggle taints a node, or takes the taint away. A taint that is old has a timeAdded that another client has written.
func (h *history) toggle(node, key string, old time.Duration) {
	was := h.newest().taints[node]
	next := oracle.Version{At: oracle.At(time.Now())}
	for _, taint := range was {
		if taint.Key != key {
			next.Taints = append(next.Taints, taint.Taint)
		}
	}
	added := []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}
	if old > 0 {
		added[0].TimeAdded = &metav1.Time{Time: time.Now().Add(-old).Truncate(sec)}
	}
	if len(next.Taints) < len(was) {
		added = nil
	}
	next.Taints = append(next.Taints, added...)
	h.change(func(m *moment) { m.taints[node] = oracle.Next(was, next) })
	h.ChangeNode(node, func(object *corev1.Node) {
		others := slices.DeleteFunc(object.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
		object.Spec.Taints = slices.Concat(others, added)
	})
}

func (h *history) label(node, value string) {
	h.ChangeNode(node, func(object *corev1.Node) {
		object.Labels["a"] = value
		h.change(func(m *moment) { m.labels[node] = object.Labels })
	})
}

func (h *history) comes(name, namespace, node string, labels map[string]string, seconds int64, done bool) {
	h.AddPod(name, node, func(pod *corev1.Pod) {
		pod.Namespace, pod.Labels = namespace, labels
		ready4ever(pod)
		scene.Tolerating("x", seconds)(pod)
		if done {
			pod.Status.Phase = corev1.PodSucceeded
		}
		model := *pod.DeepCopy()
		model.CreationTimestamp = metav1.Now()
		h.change(func(m *moment) { m.pods[name], m.tolerates[name] = model, time.Now() })
	})
}

func (h *history) changes(name string, kind int, labels map[string]string, seconds int64) {
	pod := h.there(name)
	if pod == nil {
		return
	}
	switch kind {
	case 0:
		pod.Labels = labels
	case 1:
		pod.Status.Phase = corev1.PodSucceeded
	case 2:
		pod.Spec.Tolerations = nil
		scene.Tolerating("x", seconds)(pod)
	}
	h.update(pod)
}

// goes lets another client delete a pod, and replace one that is gone, on a node without taints.
func (h *history) goes(name string) {
	was := h.at[0].pods[name]
	if live := h.there(name); live != nil {
		h.DeletePod(was.Namespace, name)
		h.mu.Lock()
		h.gone[name] = time.Now()
		h.mu.Unlock()
	}
	if _, err := h.Client.CoreV1().Pods(was.Namespace).Get(h.T.Context(), name, metav1.GetOptions{}); err == nil {
		return
	}
	h.AddPod(name, "safe", ready4ever, func(pod *corev1.Pod) {
		pod.Namespace, pod.UID, pod.Labels = was.Namespace, "replacement-of-"+pod.UID, was.Labels
		h.change(func(m *moment) { m.elsewhere[name] = *pod })
	})
}

// there returns a pod as it is stored; nil if it is gone.
func (h *history) there(name string) *corev1.Pod {
	h.T.Helper()
	is := h.newest().pods[name]
	live, err := h.Client.CoreV1().Pods(is.Namespace).Get(h.T.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.UID != is.UID {
		return nil
	}
	h.Must(nil, err)
	return live
}

// ready makes a pod ready or not ready. It does nothing while the watch of pods brings nothing: nobody could see that
// the pod was ready in between.
func (h *history) ready(name string, ready bool) {
	pod := h.there(name)
	if pod == nil || isTrue(pod, corev1.PodReady) == ready || time.Now().Before(h.blind) {
		return
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	marks := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	isReady(status, 0)(pod)
	pod.Status.Conditions = append(pod.Status.Conditions, marks...)
	h.update(pod)
}

// update stores another version of a pod.
func (h *history) update(pod *corev1.Pod) {
	model := *pod.DeepCopy()
	h.change(func(m *moment) {
		was := m.pods[pod.Name]
		model.CreationTimestamp = was.CreationTimestamp
		is, before := taints.Lasting(model.Spec.Tolerations), taints.Lasting(was.Spec.Tolerations)
		if !apiequality.Semantic.DeepEqual(is, before) {
			m.tolerates[pod.Name] = time.Now()
		}
		m.pods[pod.Name] = model
	})
	h.Must(h.Client.CoreV1().Pods(pod.Namespace).Update(h.T.Context(), pod, metav1.UpdateOptions{}))
	synctest.Wait()
}

// restartKubelet restarts a kubelet after every fourth event. It ends those pods of its node that have no toleration for
// one of its taints.
func (h *history) restartKubelet(event int) {
	if !h.faults || event%4 != 3 {
		return
	}
	for _, name := range h.RestartKubelet([]string{"n", "m", "l"}[event/4%3]) {
		if h.held(name, time.Now()) {
			h.T.Errorf("%s: after %s a kubelet ends pod %s, which was held for %s: %s", h.what, h.Now(), name, heldWithin, h.why(name, time.Now()))
		}
		h.change(func(m *moment) {
			pod := m.pods[name]
			pod.Status.Phase = corev1.PodFailed
			m.pods[name] = pod
		})
	}
}

func (h *history) nodeReady(name string, ready bool) {
	h.ChangeNode(name, func(object *corev1.Node) {
		for i := range object.Status.Conditions {
			c := &object.Status.Conditions[i]
			if c.Type != corev1.NodeReady || (c.Status == corev1.ConditionTrue) == ready {
				continue
			}
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
			if ready {
				c.Status = corev1.ConditionTrue
			}
			h.change(func(m *moment) {
				if m.unready[name] = time.Now(); ready {
					delete(m.unready, name)
				}
			})
		}
	})
}

// budget creates a budget, removes it, or changes it: which pods it selects, and what it allows.
func (h *history) budget(namespace, name string, selector map[string]string, allowed int32, removed bool) {
	budgets := h.Client.PolicyV1().PodDisruptionBudgets(namespace)
	is := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
	_, there := h.newest().budgets[name]
	h.change(func(m *moment) {
		if m.budgets[name] = is; there && removed {
			delete(m.budgets, name)
		}
	})
	switch {
	case !there:
		h.Must(budgets.Create(h.T.Context(), &is, metav1.CreateOptions{}))
	case removed:
		h.Must(nil, budgets.Delete(h.T.Context(), name, metav1.DeleteOptions{}))
	default:
		h.Must(budgets.Update(h.T.Context(), &is, metav1.UpdateOptions{}))
	}
	synctest.Wait()
}

func (h *history) namespace(name string, labels map[string]string, ends bool) {
	var object corev1.Namespace
	h.Must(nil, h.policies.Get(h.T.Context(), client.ObjectKey{Name: name}, &object))
	if object.DeletionTimestamp == nil {
		object.Labels = labels
		h.change(func(m *moment) { m.namespaces[name] = object })
		h.Must(nil, h.policies.Update(h.T.Context(), &object))
	}
	if ends && object.DeletionTimestamp == nil {
		object.DeletionTimestamp = new(metav1.Now())
		h.change(func(m *moment) { m.namespaces[name] = object })
		h.Must(nil, h.policies.Delete(h.T.Context(), &object))
	}
	synctest.Wait()
}

func (h *history) fault(kind int, lasts time.Duration) {
	switch {
	case !h.faults:
	case kind == 0:
		h.Stop()
		h.Pass(lasts)
		h.change((*moment).forgetResumed)
		h.starts = append(h.starts, time.Now())
		h.start()
	default: // a list that fails would be tried again after as much as a minute
		h.blind = time.Now().Add(lasts)
		h.API.Watches("pods").Hold()
		time.AfterFunc(lasts/2, h.API.Watches("pods").Expire)
	}
}

// forgetResumed is what a process that starts does: it sees all pods as due only from now on.
func (m *moment) forgetResumed() {
	m.policies = slices.Clone(m.policies)
	for i := range m.policies {
		if b := m.policies[i].Spec.Breaker; b != nil {
			m.policies[i].Spec.Breaker = &v1alpha1.EvictionBreaker{MaxDue: b.MaxDue, Settle: b.Settle}
		}
	}
}

func (h *history) policy(name string, spec spec, removed, resumed bool) {
	known := slices.Clone(h.newest().policies)
	i := slices.IndexFunc(known, func(p v1alpha1.EvictionPolicy) bool { return p.Name == name })
	switch {
	case i < 0:
		known = append(known, v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	case removed:
		known = slices.Delete(known, i, i+1)
	default:
		if resumed && known[i].Spec.Breaker != nil {
			spec = *known[i].Spec.DeepCopy()
			spec.Breaker.ResumedAt = &metav1.Time{Time: time.Now()}
		}
		known[i].Spec = *spec.DeepCopy()
		known[i].Generation++
		if b := spec.Breaker; b != nil && b.ResumedAt != nil { // by a clock that is wrong
			b.ResumedAt.Time = b.ResumedAt.Add(time.Duration(known[i].Generation%3-1) * time.Hour).Truncate(sec)
		}
	}
	h.change(func(m *moment) { m.policies = known })
	switch {
	case i < 0:
		h.add(name, spec)
	case removed:
		h.remove(name)
	default:
		h.edit(name, func(is *v1alpha1.EvictionPolicySpec) { *is = spec })
	}
}

// judge checks what was promised.
func (h *history) judge() {
	for name, at := range h.left {
		least := oracle.LeaveFree
		if h.asks[name] {
			least = oracle.AskFirst
		}
		if h.may(name, h.open(at), at, earliest) < least {
			h.T.Errorf("%s: pod %s left at %s, and the model does not let it go: %s", h.what, name, at.Sub(h.Start), h.why(name, at))
		}
	}
	h.judgePaces()
	now := time.Now()
	if stale := h.stale.Load(); stale > 0 {
		h.T.Errorf("%s: the Eviction API was asked %d times about a pod that was replaced", h.what, stale)
	}
	last := h.newest()
	for name := range last.pods {
		if h.there(name) == nil {
			continue
		}
		if may := h.may(name, h.mayBeOpen(now), now, latest); may == oracle.LeaveFree || may == oracle.AskFirst && last.allows(name) {
			h.T.Errorf("%s: pod %s is still there, and the model lets it go: %s", h.what, name, h.why(name, now))
		}
	}
}

const (
	// leavesWithin is how long it takes at most until a pod that nothing holds and no pace limits has left.
	leavesWithin = 25 * sec
	// heldWithin is how long it takes at most until a pod that a policy holds has no mark, and survives its kubelet.
	heldWithin = 10 * sec
)

// look checks that pods that were free for long enough have left, and that no mark stays on those that are held.
func (h *history) look() {
	now := time.Now()
	for name := range h.newest().pods {
		live := h.there(name)
		if live == nil {
			continue
		}
		if h.must(name, now) {
			h.T.Errorf("%s: after %s pod %s is still there, and was free for %s: %s", h.what, h.Now(), name, leavesWithin, h.why(name, now))
		}
		marked := slices.ContainsFunc(live.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
		})
		if marked && h.held(name, now) {
			h.T.Errorf("%s: after %s pod %s is marked, and was held for %s: %s", h.what, h.Now(), name, heldWithin, h.why(name, now))
		}
	}
}

// must reports whether a pod has been free for so long that it must have left: not even a pace, or a breaker that may
// be open, kept it.
func (h *history) must(name string, now time.Time) bool {
	return !slices.ContainsFunc(h.within(now, leavesWithin), func(m moment) bool {
		if _, there := m.pods[name]; !there {
			return true
		}
		open := map[string]bool{}
		m.policies = slices.Clone(m.policies)
		for i := range m.policies {
			p := &m.policies[i]
			open[p.Name] = true
			if p.Spec.Pace != nil {
				p.Spec.Action, p.Spec.Deadline = v1alpha1.ActionHold, nil
			}
		}
		may := h.mayAt(&m, name, open, oracle.Later(m.at, now.Add(-leavesWithin)), latest)
		return may == oracle.Stay || may == oracle.AskFirst && !m.allows(name)
	})
}

// held reports whether a pod was due and held all the time for a while.
func (h *history) held(name string, now time.Time) bool {
	return !slices.ContainsFunc(h.within(now, heldWithin), func(m moment) bool {
		pod, there := m.pods[name]
		due := slices.ContainsFunc(m.dues(&pod), func(by oracle.DueBy) bool { return !by.At.After(now.Add(-heldWithin)) })
		return !there || !due || h.mayAt(&m, name, nil, now, earliest) != oracle.Stay
	})
}

// why tells what a process may have seen of a pod.
func (h *history) why(name string, at time.Time) (text string) {
	for _, m := range h.since(at) {
		is := m.model(name, nil)
		text += fmt.Sprintf("\n%s: labels %v, namespace %v %v, node %v, finished %v, %v", m.at.Sub(h.Start), is.Pod, is.Namespace, is.NamespaceEnds, is.Node, is.Finished, m.pods[name].Status.Conditions)
		for _, b := range m.budgets {
			text += fmt.Sprintf("\n  budget %s of %v allows %d", b.Name, b.Spec.Selector.MatchLabels, b.Status.DisruptionsAllowed)
		}
		for _, due := range is.Dues {
			text += fmt.Sprintf("\n  due by %s at %s, released at %s to %s", due.Taint.Key, due.At.Sub(h.Start),
				h.released(name, due.Taint.Key, at).Sub(h.Start), h.releasedAtTheLatest(name, due, at).Sub(h.Start))
		}
		for _, p := range m.policies {
			text += fmt.Sprintf("\n  %s: %s", p.Name, specOf(&p))
		}
	}
	return text + fmt.Sprintf("\nopen: %v", h.open(at))
}

func specOf(p *v1alpha1.EvictionPolicy) string {
	text, _ := json.Marshal(p.Spec)
	return string(text)
}

// judgePaces checks that in no window more pods left than a pace lets go. It counts those that certainly left because
// of it.
func (h *history) judgePaces() {
	type scope struct {
		policy, where string
		since         time.Time // this pace
	}
	left := map[scope][]time.Time{}
	paces := map[scope]*v1alpha1.EvictionPace{}
	for name, at := range h.left {
		seen := h.since(at)
		last := &seen[len(seen)-1]
		for i := range last.policies {
			pace := last.policies[i].Spec.Pace
			if pace == nil || !h.certain(name, &last.policies[i], seen, at) {
				continue
			}
			in := scope{policy: last.policies[i].Name, since: h.paceSince(&last.policies[i], at)}
			node := last.pods[name].Spec.NodeName
			switch pace.Scope {
			case v1alpha1.ScopeNode:
				in.where = node
			case v1alpha1.ScopeZone:
				in.where = last.labels[node][corev1.LabelTopologyZone]
			}
			left[in], paces[in] = append(left[in], at), pace
		}
	}
	for in, at := range left {
		slices.SortFunc(at, time.Time.Compare)
		for i := int(paces[in].Pods); i < len(at); i++ {
			if from := at[i-int(paces[in].Pods)]; at[i].Sub(from) < paces[in].Per.Duration {
				h.T.Errorf("%s: %d pods left between %s and %s by policy %s %q, at most %d may in %s", h.what, paces[in].Pods+1,
					from.Sub(h.Start), at[i].Sub(h.Start), in.policy, in.where, paces[in].Pods, paces[in].Per.Duration)
			}
		}
	}
}

// certain reports whether a pod left because of a taint to which a policy applies, whatever the process has seen last.
func (h *history) certain(name string, p *v1alpha1.EvictionPolicy, seen []moment, at time.Time) bool {
	for _, m := range seen {
		i := slices.IndexFunc(m.policies, func(is v1alpha1.EvictionPolicy) bool { return is.Name == p.Name })
		if i < 0 || m.policies[i].Spec.DryRun || m.policies[i].Spec.Pace == nil || *m.policies[i].Spec.Pace != *p.Spec.Pace {
			return false
		}
		if _, only := m.counted(name, &m.policies[i], at); !only {
			return false
		}
	}
	return true
}

// paceSince returns since when a policy has had the pace that it has at an instant.
func (h *history) paceSince(p *v1alpha1.EvictionPolicy, at time.Time) (since time.Time) {
	for _, m := range h.within(at, at.Sub(h.Start)) {
		same := slices.ContainsFunc(m.policies, func(is v1alpha1.EvictionPolicy) bool {
			return is.Name == p.Name && is.Spec.Pace != nil && *is.Spec.Pace == *p.Spec.Pace
		})
		switch {
		case !same:
			since = time.Time{}
		case since.IsZero():
			since = m.at
		}
	}
	return since
}

// asksAboutAll adds a policy that asks the Eviction API about all pods, and budgets.
func (h *history) asksAboutAll(r *rand.Rand) {
	ask := evicts(time.Duration(20+r.IntN(100)) * sec)
	ask.Unready = pick(r, v1alpha1.UnreadyDelete, v1alpha1.UnreadyAsk)
	h.policy("ask", ask, false, false)
	for _, namespace := range []string{"default", "other"} {
		h.budget(namespace, namespace+"0", nil, int32(r.IntN(3)), false)
	}
}

// brakesAll adds a policy with a breaker for all pods, which counts shares of them.
func (h *history) brakesAll(r *rand.Rand) {
	h.policy("brake", spec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{
		MaxDue: intstr.FromString(pick(r, "20%", "50%")),
		Settle: &metav1.Duration{Duration: time.Duration(6+r.IntN(5)) * sec},
	}}, false, false)
}

// playHistory plays the history of a seed, and returns how many pods left, and how many of them were asked about.
func playHistory(t *testing.T, seed uint64) (left, asked int) {
	t.Helper()
	play(t, func(w *world) {
		r := rand.New(rand.NewPCG(seed, 16))
		h := newHistory(w)
		h.what, h.faults, h.random = fmt.Sprint("seed ", seed), true, rand.New(rand.NewPCG(seed, 17))
		w.AddNode("l", "b")
		w.AddNode("safe", "b")
		w.Must(nil, w.policies.Create(w.T.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "other", Finalizers: []string{"kubernetes"}},
		}))
		for i := range podsAtFirst {
			namespace, node := pick(r, "default", "other"), pick(r, "n", "m", "l")
			h.comes(fmt.Sprint("p", i), namespace, node, someLabels(r), int64(r.IntN(4)*5), r.IntN(6) == 0)
		}
		for _, node := range []string{"n", "m", "l"} {
			h.label(node, pick(r, "1", "2"))
		}
		h.at = h.at[len(h.at)-1:]
		if seed%2 == 0 {
			h.asksAboutAll(r)
		}
		if seed%4 == 3 {
			h.brakesAll(r)
		}
		h.start()
		for i := range 30 {
			h.Pass(time.Duration(1+r.IntN(8000)) * time.Millisecond)
			someEvent(r, i)(h)
			h.look()
			h.restartKubelet(i)
		}
		for range quiet / (20 * sec) {
			h.Pass(20 * sec)
			h.look()
		}
		h.judge()
		for name := range h.left {
			left++
			if h.asks[name] {
				asked++
			}
		}
	})
	return left, asked
}

func TestPodsLeaveWhenTheModelLetsThemGoAndNotBefore(t *testing.T) {
	left, asked := 0, 0
	seeds := sample.Seeds(t, 120, 64, 885) // a pod that gets other tolerations is due before and after
	for _, seed := range seeds {
		these, about := playHistory(t, seed)
		left, asked = left+these, asked+about
		if t.Failed() {
			return
		}
	}
	if left < len(seeds)*5/2 || asked < len(seeds) {
		t.Errorf("only %d pods left, %d of them after the Eviction API was asked: the histories are too tame", left, asked)
	}
}
