// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

const (
	// asksPerBudget is how many pods of one budget the Eviction API is asked about at the same time. It evicts 15 to 33
	// pods of one budget a second, however many ask (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go sleeps
	// when another has changed the budget).
	asksPerBudget = 2
	// probeEvery is how often the Eviction API is asked about a budget that allows nothing by what the watch shows.
	probeEvery = 5 * time.Minute
	// checkRightEvery is how often it is asked whether the Eviction API may be asked.
	checkRightEvery = time.Minute
)

// budgets follows the PodDisruptionBudgets, from the first policy on that asks the Eviction API. Pods of a budget wait
// in a line, so a budget that allows nothing costs no calls, and one pod is asked about when it allows one. It is safe
// for concurrent use.
type budgets struct {
	now      func() time.Time
	labelled func() bool // the records of pods have the labels by which budgets select
	informer cache.SharedIndexInformer
	needed   chan struct{} // is closed when somebody needs to know
	once     sync.Once
	changed  chan struct{} // holds one element if somebody waits, or a budget has changed
	selected func()        // is told when budgets select other pods, or may be asked about or not
	client   kubernetes.Interface

	mu        sync.Mutex
	known     map[string][]*budget // by namespace
	forbidden bool                 // to ask the Eviction API
}

// budget is a PodDisruptionBudget.
type budget struct {
	*policy.Line

	name     string // NAMESPACE/NAME
	selector labels.Selector
	allowed  int
	asked    time.Time // when a pod was asked about last, or since when the budget is known
}

// newBudgets returns a follower of budgets that calls a function when they select other pods.
func newBudgets(client kubernetes.Interface, now func() time.Time, labelled func() bool, selected func()) *budgets {
	b := &budgets{
		client: client, selected: selected, now: now, labelled: labelled,
		needed: make(chan struct{}), changed: make(chan struct{}, 1), known: map[string][]*budget{},
	}
	b.informer = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimBudget)).
		Policy().V1().PodDisruptionBudgets().Informer()
	change := func(before, after *policyv1.PodDisruptionBudget) {
		if b.take(before, after) {
			selected()
		}
		b.wake()
	}
	_, _ = b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // which cannot fail before it runs
		AddFunc: func(after any) { change(nil, after.(*policyv1.PodDisruptionBudget)) },
		UpdateFunc: func(before, after any) {
			change(before.(*policyv1.PodDisruptionBudget), after.(*policyv1.PodDisruptionBudget))
		},
		DeleteFunc: func(before any) {
			if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
				before = gone.Obj
			}
			change(before.(*policyv1.PodDisruptionBudget), nil)
		},
	})
	return b
}

// trimBudget drops what nobody reads of a budget.
func trimBudget(object any) (any, error) {
	if is, ok := object.(*policyv1.PodDisruptionBudget); ok {
		is.ManagedFields, is.Annotations, is.Labels, is.Status.DisruptedPods, is.Status.Conditions = nil, nil, nil, nil, nil
	}
	return object, nil
}

// need says that the budgets have to be known.
func (b *budgets) need() { b.once.Do(func() { close(b.needed) }) }

func (b *budgets) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.needed:
	}
	var parts stage.Parts
	parts.InEveryReplica(
		func(ctx context.Context) error { b.informer.RunWithContext(ctx); return nil },
		func(ctx context.Context) error {
			if cache.WaitFor(ctx, "", b.informer.HasSyncedChecker()) {
				b.selected()
			}
			<-ctx.Done()
			return nil
		},
		b.checkRight,
	)
	return parts.Run(ctx)
}

// checkRight asks now and then whether the Eviction API may be asked.
func (b *budgets) checkRight(ctx context.Context) error {
	for ctx.Err() == nil {
		question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "eviction"},
		}}
		answer, err := b.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
		b.mu.Lock()
		was := b.forbidden
		if err == nil { // otherwise what was known last counts
			b.forbidden = !answer.Status.Allowed
		}
		turned := b.forbidden != was
		b.mu.Unlock()
		if turned {
			b.selected()
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkRightEvery):
		}
	}
	return nil
}

func (b *budgets) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// take takes in a change of a budget, and reports whether it selects other pods now.
func (b *budgets) take(before, after *policyv1.PodDisruptionBudget) (other bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after == nil {
		b.known[before.Namespace] = slices.DeleteFunc(b.known[before.Namespace], func(old *budget) bool {
			return old.name == key(before)
		})
		return true
	}
	i := slices.IndexFunc(b.known[after.Namespace], func(old *budget) bool { return old.name == key(after) })
	if i < 0 {
		i = len(b.known[after.Namespace])
		b.known[after.Namespace] = append(b.known[after.Namespace], &budget{
			Line: policy.NewLine(), name: key(after), asked: b.now(),
		})
	}
	is := b.known[after.Namespace][i]
	is.allowed = allowed(after)
	if before != nil && equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(after.Spec.Selector)
	if err != nil { // the API server refuses such a budget
		selector = labels.Nothing()
	}
	is.selector = selector
	return true
}

func key(object *policyv1.PodDisruptionBudget) string { return object.Namespace + "/" + object.Name }

// allowed is how many disruptions a budget allows now. While its status lags behind its spec the Eviction API refuses
// all.
func allowed(object *policyv1.PodDisruptionBudget) int {
	if object.Status.ObservedGeneration < object.Generation {
		return 0
	}
	return int(object.Status.DisruptionsAllowed)
}

// keys returns the keys by which budgets select pods.
func (b *budgets) keys() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.known {
		for _, is := range of {
			requirements, _ := is.selector.Requirements()
			for _, r := range requirements {
				keys = append(keys, r.Key())
			}
		}
	}
	return keys
}

// of returns the budgets of a pod. The caller holds the lock.
func (b *budgets) of(pod *podcache.Pod) (of []*budget) {
	for _, is := range b.known[pod.Namespace] {
		if is.selector.Matches(pod.Labels()) {
			of = append(of, is)
		}
	}
	return of
}

// object returns what objects to asking the Eviction API about a pod, whatever its budget allows now.
func (b *budgets) object(pod *podcache.Pod) policy.Budgets {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forbidden {
		return policy.Budgets{Objects: policy.NotPermitted}
	}
	if !b.informer.HasSynced() || !b.labelled() {
		return policy.Budgets{Objects: policy.Budget, Name: "the budgets are being read"}
	}
	of := b.of(pod)
	if len(of) < 2 {
		return policy.Budgets{}
	}
	var names []string
	for _, is := range of {
		names = append(names, is.name)
	}
	slices.Sort(names)
	return policy.Budgets{Objects: policy.SeveralBudgets, Name: strings.Join(names, ", ")}
}

// stand lets a pod stand in the line of its budget, and returns what objects to asking about it now.
func (b *budgets) stand(pod policy.Waiting, record *podcache.Pod) policy.Budgets {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of(record)
	if len(of) != 1 {
		return policy.Budgets{}
	}
	is := of[0]
	is.Stand(pod)
	is.Call(is.places(b.now()), b.now())
	b.wake()
	if is.Has(pod.UID) {
		return policy.Budgets{Name: is.name}
	}
	return policy.Budgets{Objects: policy.Budget, Name: is.name}
}

// waits returns what objects to asking about a pod now, which stands where it stands.
func (b *budgets) waits(pod *podcache.Pod) policy.Budgets {
	if objects := b.object(pod); objects.Objects != "" {
		return objects
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.of(pod); len(of) == 1 && of[0].Waits(pod.UID) {
		return policy.Budgets{Objects: policy.Budget, Name: of[0].name}
	}
	return policy.Budgets{}
}

// places is how many pods may be asked about at the same time.
func (is *budget) places(now time.Time) int {
	if is.allowed == 0 && now.Sub(is.asked) >= probeEvery {
		return 1
	}
	return min(is.allowed, asksPerBudget)
}

// begin says that the Eviction API is asked about a pod. It reports false if the pod has lost its place.
func (b *budgets) begin(pod *podcache.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of(pod)
	switch {
	case len(of) == 0:
		return true
	case len(of) > 1 || !of[0].Has(pod.UID):
		return false
	}
	of[0].Begin(pod.UID, pod.Node)
	of[0].asked = b.now()
	return true
}

// back takes a pod out of the lines of its namespace.
func (b *budgets) back(pod *podcache.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, is := range b.known[pod.Namespace] {
		is.Back(pod.UID)
	}
	b.wake()
}

// call gives the places that budgets have to those that wait, and returns the nodes of these and when to call again;
// zero means not before somebody waits.
func (b *budgets) call() (nodes []string, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, of := range b.known {
		for _, is := range of {
			for _, pod := range is.Call(is.places(now), now) {
				nodes = append(nodes, pod.Node)
			}
			if is.Empty() {
				continue
			}
			again = timeline.Next(again, is.Expires())
			if is.allowed == 0 {
				again = timeline.Next(again, is.asked.Add(probeEvery))
			}
		}
	}
	return nodes, again
}
