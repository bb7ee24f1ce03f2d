// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Config configures a Follower.
type Config struct {
	// Client reads, watches and writes EvictionPolicies, and watches the metadata of namespaces.
	Client client.WithWatch
	// Core watches PodDisruptionBudgets and reads pods.
	Core kubernetes.Interface
	// Nodes and Pods are the nodes and the bound pods; whoever made the caches runs them.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Labels are the keys of labels that the client of Pods decodes.
	Labels *podwire.Labels
	// Rule says when pods are due; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process.
	Clock *timeline.Clock
	// HeldBinding is the name of the ValidatingAdmissionPolicyBinding that keeps the built-in controller from evicting
	// pods of policies with ifDown: Hold; empty where the built-in does not run.
	HeldBinding string
	// DryRun writes no status.
	DryRun bool
	// Logger defaults to one that discards.
	Logger logr.Logger
}

func (c *Config) complete() error {
	if c.Client == nil || c.Core == nil || c.Nodes == nil || c.Pods == nil || c.Labels == nil || c.Clock == nil {
		return errors.New("a Follower needs a Client, a Core client, Nodes, Pods, Labels and a Clock")
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

// lookAtMost is how often breakers are looked at, at most, while nobody asks.
const lookAtMost = 100 * time.Millisecond

var resource = custom.Resource[*v1alpha1.EvictionPolicy]{
	Kind: "EvictionPolicy", Object: &v1alpha1.EvictionPolicy{},
	List:    func() client.ObjectList { return &v1alpha1.EvictionPolicyList{} },
	Without: "so no policy objects to evictions; to have policies, apply config/crd.yaml",
	Must:    true,
}

// Follower follows the policies. It is safe for concurrent use.
type Follower struct {
	config     Config
	watch      *custom.Watch[*v1alpha1.EvictionPolicy]
	namespaces *namespaces
	parts      stage.Parts
	demand     *demand
	paces      *paces
	budgets    *budgets
	unready    *unready
	known      chan struct{} // is closed when the policies are known, or there is no such resource
	turned     chan struct{} // holds one element if a condition of a policy may have turned

	mu          sync.Mutex
	policies    []followed // replaced, never modified
	labels      kept
	labelled    atomic.Bool // the records of pods have all labels that are wanted
	subscribers []func(node string)

	counting sync.Mutex
	counts   map[string]count // by policy
}

// followed is a policy that is followed.
type followed struct {
	*policy.Policy

	uid      types.UID
	flaw     error     // what of it cannot be read
	tripped  time.Time // the breaker, by the status as it was when the policy was first seen
	labelled bool      // the records of pods have all labels by which it selects
}

// New assembles a Follower. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Follower, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	f := &Follower{config: config, known: make(chan struct{}), turned: make(chan struct{}, 1), counts: map[string]count{}}
	f.namespaces = newNamespaces(config.Client, f.tellAll)
	f.demand = newDemand(f.config.Clock.Now)
	f.demand.dues, f.demand.of = f.dues, f.selected
	f.demand.known = func() bool { return config.Nodes.HasSynced() && config.Pods.HasSynced() }
	f.paces = newPaces(f.config.Clock.Now)
	f.budgets = newBudgets(config.Core, f.paces, f.labelled.Load, f.keepLabels)
	f.unready = newUnready(config.Core, f.config.Clock)
	var err error
	if f.watch, err = custom.New(config.Client, resource, config.Logger, f.set); err != nil {
		return nil, fmt.Errorf("prepare the watch of policies: %w", err)
	}
	config.Pods.Subscribe(f.podChanged)
	config.Nodes.Subscribe(f.nodeChanged)
	f.parts.InEveryReplica(f.follow, f.awaitKnown, f.namespaces.run, f.watchBreakers, f.callWaiting, f.budgets.run,
		func(ctx context.Context) error { return f.unready.run(ctx, f.tell) })
	if config.DryRun {
		return f, nil
	}
	f.parts.InLeader(manager.RunnableFunc((&reporter{
		f: f, written: map[types.UID]report{}, down: down{client: config.Core, binding: config.HeldBinding},
	}).run))
	return f, nil
}

// Run runs the Follower alone, without a manager or an election, until the context ends.
func (f *Follower) Run(ctx context.Context) error { return f.parts.Run(ctx) }

// AddTo adds the Follower to a manager. It follows in every replica, so that a new leader knows the policies.
func (f *Follower) AddTo(mgr manager.Manager) error { return f.parts.AddTo(mgr) }

// HasSynced reports whether the policies are known.
func (f *Follower) HasSynced() bool {
	select {
	case <-f.known:
		return true
	default:
		return false
	}
}

// Name implements cache.DoneChecker.
func (f *Follower) Name() string { return "eviction policies" }

// Done implements cache.DoneChecker: the channel is closed when the policies are known.
func (f *Follower) Done() <-chan struct{} { return f.known }

// follow watches the policies. A right that is missing must not read as "there are no policies".
func (f *Follower) follow(ctx context.Context) error {
	if err := f.watch.Run(ctx); err != nil {
		return fmt.Errorf("evictions cannot go on without the right to list EvictionPolicies; apply config/rbac.yaml, or the chart of this version: %w", err)
	}
	return nil
}

func (f *Follower) awaitKnown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-f.watch.Absent():
	case <-f.watch.Checker().Done():
	}
	close(f.known)
	<-ctx.Done()
	return nil
}

// set takes in all policies.
func (f *Follower) set(objects []*v1alpha1.EvictionPolicy) {
	if len(objects) > 0 {
		f.namespaces.need()
	}
	all := make([]followed, 0, len(objects))
	for _, object := range objects {
		p, err := policy.New(object)
		if err != nil {
			f.config.Logger.Error(err, "An EvictionPolicy holds too many pods, because a part of it cannot be read; correct it", "policy", object.Name)
		}
		all = append(all, followed{Policy: p, uid: object.UID, flaw: err, tripped: tripped(object)})
	}
	if slices.ContainsFunc(all, followed.Asks) {
		f.budgets.need()
	}
	f.mu.Lock()
	f.policies = all
	f.mu.Unlock()
	f.demand.follow(all)
	f.paces.follow(all)
	f.keepLabels()
}

// keepLabels makes the records of pods have the labels by which policies and budgets select.
func (f *Follower) keepLabels() {
	f.mu.Lock()
	keys := keysOf(f.policies)
	if slices.ContainsFunc(f.policies, followed.Asks) {
		keys = append(keys, f.budgets.keys()...)
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	changed, list := f.labels.want(keys)
	f.policies = f.labels.mark(f.policies)
	f.labelled.Store(f.labels.complete())
	if changed {
		f.config.Labels.Keep(keys)
		f.config.Pods.KeepLabels(keys)
	}
	if number := f.labels.lists; list {
		f.config.Pods.Relist(func() { go f.listed(number) })
	}
	f.mu.Unlock()
	f.tellAll()
}

// listed takes in that a list of all pods has brought the labels that were wanted when it was asked for.
func (f *Follower) listed(number int) {
	f.mu.Lock()
	news := f.labels.listed(number)
	f.policies = f.labels.mark(f.policies)
	f.labelled.Store(f.labels.complete())
	f.mu.Unlock()
	if news {
		f.tellAll()
	}
}

// Subscribe calls a function with the name of each node about whose pods the answers may be others now.
func (f *Follower) Subscribe(changed func(node string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, changed)
}

// tell says that the answers about the pods of some nodes may be others now.
func (f *Follower) tell(nodes ...string) {
	f.demand.spoil(nodes...)
	f.mu.Lock()
	subscribers := f.subscribers
	f.mu.Unlock()
	for _, node := range nodes {
		for _, changed := range subscribers {
			changed(node)
		}
	}
	f.turn()
}

// turn says that a condition may have turned.
func (f *Follower) turn() {
	select {
	case f.turned <- struct{}{}:
	default:
	}
}

func (f *Follower) tellAll() {
	f.counting.Lock()
	clear(f.counts)
	f.counting.Unlock()
	f.tell(f.tainted()...)
}

// tainted returns the nodes with NoExecute taints.
func (f *Follower) tainted() (nodes []string) {
	for _, node := range f.config.Nodes.All() {
		if len(node.NoExecute) > 0 {
			nodes = append(nodes, node.Name)
		}
	}
	return nodes
}

// all returns the policies. They must not be modified.
func (f *Follower) all() []followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.policies
}

// podChanged sees the changes that policies can see. When a pod is due, others follow.
func (f *Follower) podChanged(change podcache.Change) {
	before, after := change.Before, change.After
	if len(f.all()) == 0 {
		return
	}
	for _, pod := range []*podcache.Pod{before, after} {
		if pod != nil && f.isTainted(pod.Node) {
			f.demand.spoil(pod.Node)
		}
	}
	f.pace(change)
	if before != nil && (after == nil || after.Flags.Has(podcache.Ready)) {
		f.unready.forget(before.UID)
	}
	if before != nil && after != nil && f.isTainted(after.Node) && seesOther(before, after) {
		f.tell(after.Node)
	}
}

// seesOther reports whether policies see another pod than before.
func seesOther(before, after *podcache.Pod) bool {
	const seen = podcache.Finished | podcache.Ready
	return !podcache.SameLabels(before, after) || (before.Flags^after.Flags)&seen != 0
}

// pace counts a pod that starts to leave a tainted node, whoever deleted it.
func (f *Follower) pace(change podcache.Change) {
	before, after := change.Before, change.After
	leaves := before != nil && !before.Flags.Has(podcache.Terminating) &&
		(after == nil || after.Flags.Has(podcache.Terminating))
	switch node, ok := f.config.Nodes.Get(cmp.Or(before, after).Node); {
	case leaves && ok && len(node.NoExecute) > 0:
		f.paces.left(f.pacers(before, node), node, before.UID)
	case leaves:
		f.paces.gone(before.UID)
	}
}

func (f *Follower) isTainted(node string) bool {
	record, ok := f.config.Nodes.Get(node)
	return ok && len(record.NoExecute) > 0
}

// nodeChanged sees the changes that policies can see.
func (f *Follower) nodeChanged(change nodecache.Change) {
	before, after := change.Before, change.After
	switch {
	case len(f.all()) == 0:
	case before == nil:
		f.demand.spoil(after.Name)
	case !before.SameTaints(after):
		f.demand.spoil(before.Name)
	case after == nil || len(after.NoExecute) == 0:
	case !labels.Equals(before.Labels, after.Labels) || ready(before) != ready(after):
		f.tell(after.Name)
	}
}

// watchBreakers tells of breakers that open and close.
func (f *Follower) watchBreakers(ctx context.Context) error {
	for {
		turned, again := f.demand.look()
		if len(turned) > 0 {
			f.config.Logger.Info("Breakers have tripped or closed", "policies", turned)
			f.tellAll()
		}
		wait := time.Hour // nothing that changes with time alone
		if !again.IsZero() {
			wait = again.Sub(f.config.Clock.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(wait, lookAtMost)):
		case <-f.demand.changed:
		}
		select { // what comes together is counted together
		case <-ctx.Done():
			return nil
		case <-time.After(lookAtMost):
		}
	}
}

// Says returns what the policies say of a pod that is due because of some of these taints of its node. Again is the
// next instant at which that can change by itself; zero if there is none.
func (f *Follower) Says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) policy.Said {
	return f.says(pod, node, taints).Said
}

// Look returns what the policies say of the pods of a node that are due. Those that lack places in paces or budgets
// wait for them in line until the next look, and no others of the node do.
func (f *Follower) Look(name string, node *nodecache.Node, due []*podcache.Pod) []policy.Said {
	said, waiting := make([]policy.Said, len(due)), map[types.UID]needs{}
	for i, pod := range due {
		d := f.says(pod, node, node.NoExecute)
		if said[i] = d.Said; !d.needs.none() {
			waiting[pod.UID] = d.needs
		}
	}
	f.paces.set(name, node, waiting)
	return said
}

func (f *Follower) says(pod *podcache.Pod, node *nodecache.Node, taints []verdict.Taint) (d decision) {
	all := f.all()
	if len(all) == 0 {
		return d
	}
	is, selecting := f.selecting(all, pod, node)
	if len(selecting) == 0 {
		return d
	}
	d = f.decide(asked{pod: pod, node: node, is: is, selecting: selecting, causes: f.causes(pod, taints)})
	if d.Stays() {
		f.turn()
	}
	return d
}

// turnsUnready sees whether a pod counts as unready, and returns when it does if it does not yet.
func (f *Follower) turnsUnready(pod *podcache.Pod, is *policy.Pod) (at time.Time) {
	if pod.Flags.Has(podcache.Ready) {
		return time.Time{}
	}
	since := f.unready.of(pod)
	if since.IsZero() || is.Unready {
		return time.Time{}
	}
	if at = since.Add(policy.UnreadyFor); at.After(f.config.Clock.Now()) {
		return at
	}
	is.Unready = true
	return time.Time{}
}

// asked is a pod about which the policies are asked.
type asked struct {
	pod       *podcache.Pod
	node      *nodecache.Node
	is        *policy.Pod
	selecting []*policy.Policy
	causes    []policy.Cause
}

// decision is what the policies say of a pod.
type decision struct {
	policy.Said

	needs needs                             // whether the pod has these places or not
	state func(*policy.Policy) policy.State // what the policies remember of this pod
}

// decide asks the policies. Places are scarce, so a pod needs those of its budget and of paces only if nothing else
// objects: as long as another policy holds it they would be of no use.
func (f *Follower) decide(a asked) (d decision) {
	var turns time.Time // when the pod counts as unready
	if slices.ContainsFunc(a.selecting, (*policy.Policy).Asks) {
		turns = f.turnsUnready(a.pod, a.is)
	}
	now := f.config.Clock.Now()
	a.is.Budgets = f.budgets.object(a.pod)
	d.state = f.state
	d.Answer, d.Again = policy.Decide(a.selecting, a.is, a.causes, now, d.state)
	d.Again = timeline.Next(d.Again, turns)
	if d.Stays() {
		return d
	}
	d.needs = f.needs(a, now)
	if !f.paces.has(d.needs, a.node, a.pod.UID) {
		a.is.Budgets, d.state = f.paces.lacks(d.needs), f.waits
		d.Answer, _ = policy.Decide(a.selecting, a.is, a.causes, now, d.state)
	}
	return d
}

// waits returns what policies remember when a pod waits for a place.
func (f *Follower) waits(p *policy.Policy) policy.State {
	state := f.state(p)
	if p.Pace() != nil {
		state.Room = func() time.Time { return policy.Later }
	}
	return state
}

// needs are the places that a pod needs to leave.
type needs struct {
	paces  []*policy.Policy
	budget *budget // nil if it needs none
	due    time.Time
}

func (n needs) none() bool { return len(n.paces) == 0 && n.budget == nil }

// needs returns the places that a pod needs, and since when it is due; none if a taint lets it go that needs none, or
// none does.
func (f *Follower) needs(a asked, now time.Time) (all needs) {
	for i, cause := range a.causes {
		if cause.Due.After(now) {
			continue
		}
		answer, _ := policy.Decide(a.selecting, a.is, a.causes[i:i+1], now, f.state)
		if answer.Stays() {
			continue
		}
		paced := policy.Pacing(a.selecting, a.is, cause.Taint)
		var budget *budget
		if answer.Step == policy.Ask {
			budget = f.budgets.one(a.pod)
		}
		if len(paced) == 0 && budget == nil {
			return needs{}
		}
		for _, p := range paced {
			if !slices.Contains(all.paces, p) {
				all.paces = append(all.paces, p)
			}
		}
		all.budget = cmp.Or(all.budget, budget)
		all.due = timeline.Next(all.due, cause.Due)
	}
	return all
}

// Begin says that the eviction of a pod begins, by a delete or by asking the Eviction API, and takes its places until
// End. It reports false if the pod may not leave that way now.
func (f *Follower) Begin(pod *podcache.Pod, node *nodecache.Node, asks bool) bool {
	d := f.says(pod, node, node.NoExecute)
	if d.Stays() || asks != (d.Step == policy.Ask) {
		return false
	}
	takes := needs{paces: f.pacers(pod, node)}
	if asks {
		takes.budget = d.needs.budget
	}
	return f.paces.begin(d.needs, takes, node, pod.UID)
}

// End says that an eviction that began has ended, and whether it is known that the pod stays.
func (f *Follower) End(node string, pod types.UID, stays bool) { f.paces.ended(node, pod, stays) }

// pacers returns the policies that count a pod if it leaves a node.
func (f *Follower) pacers(pod *podcache.Pod, node *nodecache.Node) []*policy.Policy {
	_, selecting := f.selecting(f.all(), pod, node)
	return slices.DeleteFunc(selecting, func(p *policy.Policy) bool {
		return !slices.ContainsFunc(node.NoExecute, func(t verdict.Taint) bool { return p.Applies(&t.Taint) })
	})
}

// callWaiting tells of the nodes of pods that wait for places when there is room for them.
func (f *Follower) callWaiting(ctx context.Context) error {
	for {
		nodes, again := f.paces.call()
		f.tell(nodes...)
		wait := time.Hour // nobody waits
		if !again.IsZero() {
			wait = max(again.Sub(f.config.Clock.Now()), time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.paces.changed:
		case <-time.After(wait):
		}
	}
}

// state returns what a policy remembers.
func (f *Follower) state(p *policy.Policy) policy.State { return policy.State{Open: f.demand.open(p)} }

// selecting returns what policies need to know of a pod, and those that select it. What is not known yet selects: then
// a pod leaves later, never sooner.
func (f *Follower) selecting(all []followed, pod *podcache.Pod, node *nodecache.Node) (*policy.Pod, []*policy.Policy) {
	namespace, ends, known := f.namespaces.get(pod.Namespace)
	is := &policy.Pod{
		Labels: pod.Labels(), NamespaceLabels: namespace, NodeLabels: labels.Set(node.Labels),
		NamespaceEnds: ends, Finished: pod.Flags.Has(podcache.Finished),
		Unready: !ready(node),
	}
	var selecting []*policy.Policy
	for _, p := range all {
		if (!known || p.Namespaces.Matches(is.NamespaceLabels)) && (!p.labelled || p.Pods.Matches(is.Labels)) &&
			p.Nodes.Matches(is.NodeLabels) {
			selecting = append(selecting, p.Policy)
		}
	}
	return is, selecting
}

// dues returns when the pods of a node are due that breakers count, by policy.
func (f *Follower) dues(name string) map[string][]time.Time {
	node, ok := f.config.Nodes.Get(name)
	if !ok || len(node.NoExecute) == 0 {
		return nil
	}
	all, dues := f.breakers(), map[string][]time.Time{}
	for _, pod := range f.config.Pods.OnNode(name) {
		if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
			continue
		}
		causes := f.causes(pod, node.NoExecute)
		if len(causes) == 0 {
			continue
		}
		_, selecting := f.selecting(all, pod, node)
		for _, p := range selecting {
			if due, applies := p.Due(causes); applies {
				dues[p.Name] = append(dues[p.Name], due)
			}
		}
	}
	return dues
}

// breakers returns the policies that have a breaker.
func (f *Follower) breakers() []followed {
	return slices.DeleteFunc(slices.Clone(f.all()), func(p followed) bool { return p.Breaker() == nil })
}

// countEvery is how long the number of pods that a policy selects is good for: to count them is a walk over all pods.
const countEvery = time.Minute

// count is how many pods a policy selected at an instant.
type count struct {
	policy *policy.Policy
	pods   int
	at     time.Time
}

// selected returns how many pods a policy selects, on whatever node.
func (f *Follower) selected(p *policy.Policy) int {
	f.counting.Lock()
	defer f.counting.Unlock()
	now := f.config.Clock.Now()
	if c, ok := f.counts[p.Name]; ok && c.policy == p && now.Sub(c.at) < countEvery {
		return c.pods
	}
	c := count{policy: p, at: now}
	all := slices.DeleteFunc(slices.Clone(f.all()), func(other followed) bool { return other.Policy != p })
	for _, pod := range f.config.Pods.All() {
		node, ok := f.config.Nodes.Get(pod.Node)
		if !ok || pod.Flags.Has(podcache.Terminating) {
			continue
		}
		if _, selecting := f.selecting(all, pod, node); len(selecting) > 0 {
			c.pods++
		}
	}
	f.counts[p.Name] = c
	return c.pods
}

// tripped returns since when the breaker of a policy has been open, as its status says; zero if it is not.
func tripped(object *v1alpha1.EvictionPolicy) time.Time {
	c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionTripped)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

func ready(node *nodecache.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (f *Follower) causes(pod *podcache.Pod, taints []verdict.Taint) []policy.Cause {
	var causes []policy.Cause
	for i := range taints {
		if r := f.config.Rule.Judge(pod.Rule(), taints[i]); r.Leaves {
			causes = append(causes, policy.Cause{Taint: &taints[i].Taint, Due: r.Due})
		}
	}
	return causes
}
