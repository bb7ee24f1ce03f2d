// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Nodes and Pods are the nodes and the bound pods. The caller runs the caches.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Labels are the keys of the labels that the client of Pods decodes.
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

var resource = custom.Resource[*v1alpha1.EvictionPolicy]{
	Kind: "EvictionPolicy", Object: &v1alpha1.EvictionPolicy{},
	List:     func() client.ObjectList { return &v1alpha1.EvictionPolicyList{} },
	Without:  "so no EvictionPolicy holds pods; to use policies, apply config/crd.yaml",
	Required: true,
}

// Follower follows the policies. It is safe for concurrent use.
type Follower struct {
	config     Config
	watch      *custom.Watch[*v1alpha1.EvictionPolicy]
	namespaces *namespaces
	parts      stage.Parts
	demand     *demand
	line       *line
	budgets    *budgets
	unready    *unready
	sights     sights
	known      chan struct{} // closed when the policies are known, or the resource is not installed
	statusDue  chan struct{} // signals that a condition of a policy may have changed

	mu          sync.Mutex
	policies    []followed // replaced, never modified
	edition     int        // how often they were replaced
	read        bool       // whether these are all policies
	labels      kept
	labeled     atomic.Bool // whether the records of pods have all wanted labels
	subscribers []func(node string)

	counting sync.Mutex
	counts   counts
}

// followed is a policy and what is known about it.
type followed struct {
	*policy.Policy

	uid     types.UID
	flaw    error        // the part that cannot be read
	tripped time.Time    // the breaker, from the status when the policy was first seen
	halted  *metav1.Time // its Halted as the status has it; nil if it does not
	labeled bool         // whether the records of pods have all labels by which it selects
}

// New assembles a Follower. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Follower, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	f := &Follower{config: config, known: make(chan struct{}), statusDue: make(chan struct{}, 1)}
	f.sights.of = map[string]map[cause]*sight{}
	f.namespaces = newNamespaces(config.Client, f.tellAll)
	f.demand = newDemand(f.config.Clock.Now)
	f.demand.on, f.demand.tainted, f.demand.edition, f.demand.of = f.demandOn, f.tainted, f.editionOf, f.selectedAtLeast
	f.demand.known = func() bool { return config.Nodes.HasSynced() && config.Pods.HasSynced() }
	f.line = newLine(f.config.Clock.Now)
	f.demand.allowed = f.line.allowed
	f.budgets = newBudgets(config.Core, f.line, f.labeled.Load, f.keepLabels, f.tell)
	f.unready = newUnready(config.Core, f.config.Clock, config.Pods.Get)
	f.watch = custom.New(config.Client, resource, config.Logger, f.set)
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

// Known reports whether all policies are known now.
func (f *Follower) Known() bool { return f.watch.Known() }

// Ready returns an error while the policies cannot be watched.
func (f *Follower) Ready() error {
	if f.Known() {
		return nil
	}
	return errors.New("the EvictionPolicies cannot be listed and watched, so no pod is evicted; the log says why")
}

// Name implements cache.DoneChecker.
func (f *Follower) Name() string { return "eviction policies" }

// Done implements cache.DoneChecker: the channel is closed when the policies are known.
func (f *Follower) Done() <-chan struct{} { return f.known }

// follow watches the policies. A missing permission must not look like "there are no policies".
func (f *Follower) follow(ctx context.Context) error {
	if err := f.watch.Run(ctx); err != nil {
		return fmt.Errorf("no evictions without the right to list EvictionPolicies; apply config/rbac.yaml, or the chart of this version: %w", err)
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

// set replaces all policies. Known reports whether these are all.
func (f *Follower) set(objects []*v1alpha1.EvictionPolicy, known bool) {
	if len(objects) > 0 {
		f.namespaces.need()
	}
	all := make([]followed, 0, len(objects))
	for _, object := range objects {
		p, err := policy.New(object)
		if err != nil {
			f.config.Logger.Error(err, "Part of an EvictionPolicy cannot be read, so it holds too many pods; correct it", "policy", object.Name)
		}
		is := followed{Policy: p, uid: object.UID, flaw: err, tripped: tripped(object)}
		is.Halted, is.halted = f.haltedBefore(object)
		all = append(all, is)
	}
	if slices.ContainsFunc(all, followed.Asks) {
		f.budgets.need()
	}
	f.mu.Lock()
	f.replace(all)
	f.read = known
	f.mu.Unlock()
	f.demand.follow(all)
	f.line.follow(all, f.watch.Listed() && f.config.Pods.HasSynced())
	f.keepLabels()
}

// keepLabels makes the records of pods keep the labels by which policies and budgets select.
func (f *Follower) keepLabels() {
	f.mu.Lock()
	keys := keysOf(f.policies)
	if slices.ContainsFunc(f.policies, followed.Asks) {
		keys = append(keys, f.budgets.keys()...)
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	changed, list := f.labels.want(keys)
	f.markLabeled()
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

// listed notes that a list of all pods has brought the labels that were wanted when it was requested.
func (f *Follower) listed(number int) {
	f.mu.Lock()
	news := f.labels.listed(number)
	f.markLabeled()
	f.mu.Unlock()
	if news {
		f.tellAll()
	}
}

// markLabeled notes which labels the records of pods have. The caller holds the lock.
func (f *Follower) markLabeled() {
	f.replace(f.labels.mark(f.policies))
	f.labeled.Store(f.labels.complete())
}

// Subscribe calls a function with the name of each node about whose pods the answers may have changed. The function
// must return at once.
func (f *Follower) Subscribe(changed func(node string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, changed)
}

// tell notifies subscribers that the answers about the pods of some nodes may have changed.
func (f *Follower) tell(nodes ...string) {
	f.demand.markStale(nodes...)
	f.mu.Lock()
	subscribers := f.subscribers
	f.mu.Unlock()
	for _, node := range nodes {
		for _, changed := range subscribers {
			changed(node)
		}
	}
	f.conditionMayChange()
}

// conditionMayChange wakes the writer of statuses, because a condition may have changed.
func (f *Follower) conditionMayChange() {
	select {
	case f.statusDue <- struct{}{}:
	default:
	}
}

func (f *Follower) tellAll() {
	f.counting.Lock()
	f.counts = counts{}
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
	all, _ := f.allRead()
	return all
}

// allRead also reports whether these are all policies.
func (f *Follower) allRead() (all []followed, read bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.policies, f.read
}

// replace replaces the policies. The caller holds the lock.
func (f *Follower) replace(all []followed) {
	f.policies = all
	f.edition++
}

func (f *Follower) editionOf() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.edition
}

// haltedBefore returns when the last halt of a policy's pods ended that this process has not seen itself, according to
// the status when the policy was first seen. A halt that had not ended then ended now, at the earliest.
func (f *Follower) haltedBefore(object *v1alpha1.EvictionPolicy) (at time.Time, status *metav1.Time) {
	for _, p := range f.all() {
		if p.Name == object.Name && p.uid == object.UID {
			return p.Halted, p.halted
		}
	}
	now, until := f.config.Clock.Now(), object.Status.HaltedUntil
	switch {
	case object.Status.Halted > 0:
		return now, nil
	case until == nil:
		return time.Time{}, nil
	}
	least, _ := f.config.Clock.Ahead()
	return timeline.Earlier(until.Add(-least), now), until
}

// tripped returns since when the breaker of a policy has been open, according to its status; zero if it is not.
func tripped(object *v1alpha1.EvictionPolicy) time.Time {
	c := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionTripped)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
