// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pendingcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// settle is how long changes are gathered before they are told: a storm is weighed ten times a second, not at every
// event.
const settle = 100 * time.Millisecond

// update is what a follower tells: what is pending, and what has changed since the update before.
type update struct {
	list    *cliv1alpha1.PendingList
	changes []cliv1alpha1.PendingChange
}

// follower watches nodes and pods, reads policies now and then, and tells what is pending. It goes on over broken
// watches: what was last seen counts until there is news.
type follower struct {
	server    string
	clients   kubernetes.Interface
	policies  *source.Reader
	clock     clock.PassiveClock
	namespace string
	selects   func(*corev1.Node) bool
	narrow    func(*metav1.ListOptions)
	breaks    *breaks

	mu      sync.Mutex
	known   plan.Countdowns
	missing []string // what could not be read of policies, and has been noted
	changed chan struct{}
	failed  chan error
}

func (o *options) runWatch(ctx context.Context) error {
	config, err := o.source.RESTConfig()
	if err != nil {
		return err
	}
	timeout := config.Timeout
	config = source.ForReading(config)
	config.Timeout = 0 // it would end watches, too
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if timeout == 0 {
		timeout = source.Patience
	}
	if err := o.probe(ctx, config.Host, clients, timeout); err != nil {
		return err
	}
	if output.IsTerminal(o.source.Env.Out) && (o.output.Format == output.Table || o.output.Format == output.Wide) {
		program := o.newProgram(ctx)
		f, err := o.connect(config, func(sentence string) { program.Send(trouble(sentence)) })
		if err != nil {
			return err
		}
		return runScreen(ctx, program, f)
	}
	f, err := o.connect(config, o.note)
	if err != nil {
		return err
	}
	return o.runLines(ctx, f)
}

// note tells something on stderr.
func (o *options) note(sentence string) { o.output.Notes([]string{sentence}) }

// connect returns a follower of a cluster, which notes its broken watches.
func (o *options) connect(config *rest.Config, note func(sentence string)) (*follower, error) {
	breaks := newBreaks(o.source.Env.Clock, note)
	policies, err := source.Connect(config, output.NoProgress())
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Wrap(breaks.noticing)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return o.follower(config.Host, clients, policies, breaks), nil
}

func (o *options) follower(
	server string, clients kubernetes.Interface, policies *source.Reader, breaks *breaks,
) *follower {
	return &follower{
		server: server, clients: clients, policies: policies, clock: o.source.Env.Clock,
		namespace: o.namespace, selects: o.nodes.Selects, narrow: o.narrow, breaks: breaks,
		known:   plan.Countdowns{Owner: (&plan.Cluster{}).Owner},
		changed: make(chan struct{}, 1), failed: make(chan error, 1),
	}
}

// probe asks for one object of each kind, so that a cluster that does not answer or refuses is told at once.
func (o *options) probe(
	ctx context.Context, server string, clients kubernetes.Interface, timeout time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	one := metav1.ListOptions{Limit: 1}
	if _, err := clients.CoreV1().Nodes().List(ctx, one); err != nil {
		return source.Probed(ctx, server, "list", "nodes", err)
	}
	if _, err := clients.CoreV1().Pods(o.namespace).List(ctx, one); err != nil {
		return source.Probed(ctx, server, "list", "pods", err)
	}
	return nil
}

// follow tells what is pending, at first and after every change, until the context ends.
func (f *follower) follow(ctx context.Context, tell func(update)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	synced, err := f.watch(ctx, &running)
	if err != nil {
		return err
	}
	read := make(chan struct{}, 1)
	running.Go(func() {
		f.policies.FollowPolicies(ctx, f.namespace, func(cluster *plan.Cluster, err error) {
			f.setPolicies(cluster, err)
			select {
			case read <- struct{}{}:
			default:
			}
		})
	})
	if err := f.await(ctx, synced); err != nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-read:
	case <-ctx.Done():
		return nil
	}
	before := &cliv1alpha1.PendingList{}
	for {
		next := f.pending(before)
		tell(next)
		before = next.list
		if err := f.wait(ctx, before); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// await waits until both watches have brought what there is, or one of them may not be watched.
func (f *follower) await(ctx context.Context, synced []cache.DoneChecker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcome := make(chan error, 1)
	go func() {
		select {
		case err := <-f.failed:
			outcome <- err
			cancel()
		case <-ctx.Done():
			outcome <- nil
		}
	}()
	cache.WaitFor(ctx, "", synced...)
	cancel()
	return <-outcome
}

func (f *follower) pending(before *cliv1alpha1.PendingList) update {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.known.Pending(f.clock.Now())
	return update{list, plan.ChangesSince(before, list, f.known.Has)}
}

// wait returns after a change, or when the next pod is due.
func (f *follower) wait(ctx context.Context, list *cliv1alpha1.PendingList) error {
	due := time.NewTimer(untilNext(list, f.clock.Now()))
	defer due.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.failed:
		return err
	case <-due.C:
		return nil
	case <-f.changed:
	}
	select {
	case <-ctx.Done():
	case <-time.After(settle):
	}
	return nil
}

// untilNext is how long it is until the next pod is due, or not held any more. The clock may be set, so that it is
// asked again once in a while.
func untilNext(list *cliv1alpha1.PendingList, now time.Time) time.Duration {
	next := time.Minute
	soon := func(instant time.Time) {
		if instant.After(list.At.Time) {
			next = min(next, max(instant.Sub(now), 0))
		}
	}
	for i := range list.Pods {
		pod := &list.Pods[i]
		soon(pod.Due.Time)
		if pod.Answer.Stays() && pod.Answer.LeavesAt != nil {
			soon(pod.Answer.LeavesAt.Time)
		}
	}
	return next
}

// watch begins to watch both kinds.
func (f *follower) watch(ctx context.Context, running *sync.WaitGroup) ([]cache.DoneChecker, error) {
	nodes := coreinformers.NewNodeInformer(f.clients, 0, nil)
	pods := coreinformers.NewFilteredPodInformer(f.clients, f.namespace, 0, nil, f.narrow)
	var synced []cache.DoneChecker
	for _, kind := range []struct {
		name     string
		informer cache.SharedIndexInformer
		slim     cache.TransformFunc
		handler  cache.ResourceEventHandler
	}{
		{"nodes", nodes, slimmed(plan.SlimNode), f.nodeHandler()},
		{"pods", pods, slimmed(plan.SlimPod), f.podHandler()},
	} {
		if err := kind.informer.SetTransform(kind.slim); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.name, err)
		}
		if err := kind.informer.SetWatchErrorHandlerWithContext(f.broken(kind.name)); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.name, err)
		}
		handled, err := kind.informer.AddEventHandler(kind.handler)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.name, err)
		}
		synced = append(synced, handled.HasSyncedChecker())
		running.Go(func() { kind.informer.RunWithContext(ctx) })
	}
	return synced, nil
}

// slimmed keeps what is needed of an object.
func slimmed[T any](slim func(*T) *T) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(*T); ok {
			return slim(typed), nil
		}
		return object, nil
	}
}

// broken tells that a watch is broken. It is begun again by itself, unless there is no right to it.
func (f *follower) broken(kind string) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return // a watch that ends and begins again
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			select {
			case f.failed <- source.Failed(ctx, f.server, "watch", kind, err):
			default:
			}
			return
		}
		f.breaks.tell(kind, err)
	}
}

// setPolicies takes what was read of policies. If there were none and are none, nothing is told again.
func (f *follower) setPolicies(cluster *plan.Cluster, err error) {
	set := cluster.PoliciesOf()
	f.mu.Lock()
	before, noted := f.known.Policies, f.missing
	if err == nil {
		f.known.Policies, f.missing = set, cluster.Missing
	}
	f.mu.Unlock()
	switch {
	case err != nil && before != nil:
		f.breaks.tell(source.EvictionPolicies.Resource, err)
	case err == nil:
		for _, sentence := range cluster.Missing {
			if !slices.Contains(noted, sentence) {
				f.breaks.note(sentence)
			}
		}
		if before != nil || set != nil {
			f.observe(func(time.Time) {})
		}
	}
}

// observe takes news and says that there are some.
func (f *follower) observe(take func(at time.Time)) {
	f.mu.Lock()
	take(f.clock.Now())
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *follower) nodeHandler() cache.ResourceEventHandler {
	set := func(node *corev1.Node) {
		f.observe(func(at time.Time) {
			if f.selects(node) {
				f.known.SetNode(node, at)
				return
			}
			f.known.DeleteNode(node.Name)
		})
	}
	return handlerOf(set, func(node *corev1.Node) {
		f.observe(func(time.Time) { f.known.DeleteNode(node.Name) })
	})
}

func (f *follower) podHandler() cache.ResourceEventHandler {
	set := func(pod *corev1.Pod) {
		f.observe(func(at time.Time) { f.known.SetPod(pod, at) })
	}
	return handlerOf(set, func(pod *corev1.Pod) {
		f.observe(func(time.Time) { f.known.DeletePod(pod.UID) })
	})
}

// handlerOf calls set for what is there and gone for what is not. Over a break of the watch an object can be gone and
// another of its name be there: that is one event, and both happen.
func handlerOf[T any, P interface {
	*T
	GetUID() types.UID
}](set, gone func(P)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if typed, ok := object.(P); ok {
				set(typed)
			}
		},
		UpdateFunc: func(before, object any) {
			old, isOld := before.(P)
			typed, ok := object.(P)
			if !ok {
				return
			}
			if isOld && old.GetUID() != typed.GetUID() {
				gone(old)
			}
			set(typed)
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if typed, ok := object.(P); ok {
				gone(typed)
			}
		},
	}
}
