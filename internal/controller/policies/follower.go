// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies follows the EvictionPolicies of a cluster, and decides whether due pods may leave.
//
// The rule is in package policy. This package passes it what it needs: the policies, the labels of pods, namespaces
// and nodes, and what happened before. All of that is looked up again for each answer, so an answer is never older than
// the caches. Anything that is not known yet makes an answer stricter: a pod leaves later, never sooner.
//
//	follower.go     the policies, and who is told when answers may change
//	engine.go       the policy.Engine, which answers, behind one lock and one wake-up; what changes its answers
//	selects.go      which policies select a pod, how many pods a policy selects, and the labels that this needs
//	facts.go        what is read of due pods and of nodes: budgets, and since when they have not been ready
//	watches.go      PodDisruptionBudgets, the right to ask the Eviction API, and namespaces
//	status.go       what is written to a policy's status: its pods, and what ifDown does
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
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Config configures a Follower.
type Config struct {
	// Client reads, watches and writes EvictionPolicies, and watches the metadata of namespaces.
	Client client.WithWatch
	// Core watches PodDisruptionBudgets and reads pods, with all their labels.
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
	// Limiter bounds the rate at which due pods are read; nil means no limit.
	Limiter *rate.Limiter
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
	namespaces lazyInformer
	budgets    lazyInformer
	forbidden  atomic.Bool // no permission to ask the Eviction API
	parts      stage.Parts
	facts      *facts
	known      chan struct{} // closed when the policies are known, or the resource is not installed
	changed    chan struct{} // signals that the engine has something to do
	statusDue  chan struct{} // signals that a condition of a policy may have changed

	mu          sync.Mutex
	engine      *policy.Engine
	policies    []followed // replaced, never modified
	read        bool       // whether these are all policies
	labels      kept
	counts      counts
	unready     unreadyNodes
	subscribers []func(node string)
}

// followed is a policy and what is known about it.
type followed struct {
	*policy.Policy

	uid        types.UID
	generation int64
	flaw       error        // the part that cannot be read
	resumed    string       // the breaker, as the spec says
	halted     *metav1.Time // its Halted as the status has it; nil if it does not
	labeled    bool         // whether the records of pods have all labels by which it selects
}

// New assembles a Follower. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Follower, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	f := &Follower{
		config: config, known: make(chan struct{}), changed: make(chan struct{}, 1), statusDue: make(chan struct{}, 1),
		unready: unreadyNodes{},
	}
	f.engine = policy.NewEngine(cluster{f}, gatherFor)
	f.facts = newFacts(f)
	f.namespaces = f.newNamespaces()
	f.budgets = f.newBudgets()
	f.watch = custom.New(config.Client, resource, config.Logger, f.setPolicies)
	config.Pods.Subscribe(f.podChanged)
	config.Nodes.Subscribe(f.nodeChanged)
	f.parts.InEveryReplica(f.inEveryReplica()...)
	if config.DryRun {
		return f, nil
	}
	f.parts.InLeader(manager.RunnableFunc((&reporter{
		f: f, written: map[types.UID]report{}, down: down{client: config.Core, binding: config.HeldBinding},
	}).writeStatuses))
	return f, nil
}

// inEveryReplica returns what follows the cluster, so that a new leader knows the policies.
func (f *Follower) inEveryReplica() []func(context.Context) error {
	return []func(context.Context) error{
		f.watchPolicies, f.namespaces.runWhenNeeded, f.budgets.runWhenNeeded, f.checkEvictionRight, f.facts.readPods,
		f.advanceEngine,
	}
}

// Run runs the Follower alone, without a manager or an election, until the context ends.
func (f *Follower) Run(ctx context.Context) error { return f.parts.Run(ctx) }

// AddTo adds the Follower to a manager.
func (f *Follower) AddTo(mgr manager.Manager) error { return f.parts.AddTo(mgr) }

// HasSynced reports whether the policies are known.
func (f *Follower) HasSynced() bool { return cache.IsDone(f) }

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

// watchPolicies watches the policies. A missing permission must not look like "there are no policies".
func (f *Follower) watchPolicies(ctx context.Context) error {
	if err := f.watch.Run(ctx); err != nil {
		return fmt.Errorf("no evictions without permission to list EvictionPolicies; apply config/rbac.yaml, or the chart of this version: %w", err)
	}
	return nil
}

// setPolicies replaces all policies. Known reports whether these are all.
func (f *Follower) setPolicies(objects []*v1alpha1.EvictionPolicy, known bool) {
	if len(objects) > 0 {
		f.namespaces.need()
	}
	all, before := make([]followed, 0, len(objects)), f.all()
	compiled := make([]*policy.Policy, 0, len(objects))
	for _, object := range objects {
		var was *followed
		same := func(p followed) bool { return p.Name == object.Name && p.uid == object.UID }
		if i := slices.IndexFunc(before, same); i >= 0 {
			was = &before[i]
		}
		is := f.followed(object, was)
		if is.Asks() {
			f.budgets.need()
		}
		all, compiled = append(all, is), append(compiled, is.Policy)
	}
	seen := f.watch.Listed() && f.config.Pods.HasSynced()
	f.with(func(e *policy.Engine, now time.Time) {
		f.policies, f.read = all, known
		e.Follow(compiled, now, seen)
	})
	f.keepLabels()
	if known && !f.HasSynced() {
		close(f.known)
	}
}

// keepLabels makes the records of pods keep the labels by which policies select.
func (f *Follower) keepLabels() {
	f.with(func(e *policy.Engine, _ time.Time) {
		keys := keysOf(f.policies)
		changed, list := f.labels.want(keys)
		f.markLabeled(e)
		if changed {
			f.config.Labels.Keep(keys)
			f.config.Pods.KeepLabels(keys)
		}
		if number := f.labels.lists; list {
			f.config.Pods.Relist(func() { go f.listed(number) })
		}
	})
	f.notifyAll()
}

// listed notes that a list of all pods has brought the labels that were wanted when it was requested.
func (f *Follower) listed(number int) {
	news := false
	f.with(func(e *policy.Engine, _ time.Time) {
		news = f.labels.listed(number)
		f.markLabeled(e)
	})
	if news {
		f.notifyAll()
	}
}

// markLabeled notes which labels the records of pods have. The caller holds the lock.
func (f *Follower) markLabeled(e *policy.Engine) {
	f.policies = f.labels.mark(f.policies)
	e.MarkAllStale()
}

// Subscribe calls a function with the name of each node about whose pods the answers may have changed. The function
// must return at once.
func (f *Follower) Subscribe(changed func(node string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, changed)
}

// notify tells subscribers that the answers about the pods of some nodes may have changed.
func (f *Follower) notify(nodes ...string) {
	var subscribers []func(string)
	f.with(func(e *policy.Engine, _ time.Time) {
		e.MarkStale(nodes...)
		subscribers = f.subscribers
	})
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

// notifyAll is notify about all nodes, after a change that can also change how many pods policies select.
func (f *Follower) notifyAll() {
	f.mu.Lock()
	f.counts = counts{}
	f.mu.Unlock()
	f.notify(cluster{f}.Tainted()...)
}

// all returns the policies. They must not be modified.
func (f *Follower) all() []followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.policies
}

// followed returns the version of a policy that an object has. was is the version before; nil if this process sees the
// policy for the first time. Then its status says what happened before, and instants that are in the future according
// to it are now. Otherwise a user resumed its breaker when this process saw that resumedAt changed, because the clock
// that set it may be wrong.
func (f *Follower) followed(object *v1alpha1.EvictionPolicy, was *followed) followed {
	if was != nil && was.generation == object.Generation {
		return *was // what is counted for it stays
	}
	p, err := policy.New(object)
	if err != nil {
		f.config.Logger.Error(err, "Part of an EvictionPolicy cannot be read, so it holds too many pods; correct it", "policy", object.Name)
	}
	is, now := followed{Policy: p, uid: object.UID, generation: object.Generation, flaw: err}, f.config.Clock.Now()
	if b := object.Spec.Breaker; b != nil && b.ResumedAt != nil {
		is.resumed = b.ResumedAt.String()
		switch {
		case was == nil:
			p.Breaker().ResumeAt(instant.Earlier(p.Breaker().ResumedAt(), now))
		case was.resumed == is.resumed:
			p.Breaker().ResumeAt(was.Breaker().ResumedAt())
		default:
			p.Breaker().ResumeAt(now)
		}
	}
	switch until := object.Status.HaltedUntil; {
	case was != nil:
		is.Halted, is.halted = was.Halted, was.halted
	case object.Status.Halted > 0: // the halt ended now, at the earliest
		is.Halted = now
	case until != nil:
		least, _ := f.config.Clock.Ahead()
		is.Halted, is.halted = instant.Earlier(until.Add(-least), now), until
	}
	return is
}
