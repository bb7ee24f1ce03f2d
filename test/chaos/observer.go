// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// observer watches nodes, pods and the Lease at the API server itself, and keeps every version that it sees. What a break of
// its watches hides is filled in from the audit log. Safe for concurrent use.
type observer struct {
	client kubernetes.Interface
	ledger *ledger
	now    func() time.Time

	mu    sync.Mutex
	pods  map[types.UID]*chronicle[podFacts]
	nodes map[string]*chronicle[[]corev1.Taint]
}

func newObserver(client kubernetes.Interface, ledger *ledger) *observer {
	return &observer{
		client: client, ledger: ledger, now: time.Now,
		pods:  map[types.UID]*chronicle[podFacts]{},
		nodes: map[string]*chronicle[[]corev1.Taint]{},
	}
}

// callTimeout bounds one call of this program itself: an API server without etcd answers late.
const callTimeout = 5 * time.Second

// run observes until the context ends. Errors of list and watch are the outages that it has to survive.
func (o *observer) run(ctx context.Context) {
	var group sync.WaitGroup
	pods, nodes, leases := o.client.CoreV1().Pods(metav1.NamespaceAll), o.client.CoreV1().Nodes(), o.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	group.Go(func() {
		follow(ctx, func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			o.listed(list.Items)
			return list.ResourceVersion, nil
		}, pods.Watch, o.notePod)
	})
	group.Go(func() {
		follow(ctx, func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			list, err := nodes.List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			for i := range list.Items {
				o.noteNode(watch.Modified, &list.Items[i])
			}
			return list.ResourceVersion, nil
		}, nodes.Watch, o.noteNode)
	})
	group.Go(func() { o.followLease(ctx, leases.Get) })
	group.Wait()
}

// follow lists, and watches from there on; a watch that ends is resumed where it ended, as far as the API server can.
func follow[O runtime.Object](ctx context.Context, list func(context.Context) (string, error),
	open func(context.Context, metav1.ListOptions) (watch.Interface, error), note func(watch.EventType, O),
) {
	const again = 100 * time.Millisecond
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			var err error
			if from, err = list(ctx); err != nil {
				pause(ctx, again)
				continue
			}
		}
		w, err := open(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			from = ""
			pause(ctx, again)
			continue
		}
		from = read(w, from, note)
	}
}

// read notes the events of a watch to its end. It returns the version from which to watch on, empty if there is none.
func read[O runtime.Object](w watch.Interface, from string, note func(watch.EventType, O)) string {
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return ""
		}
		object, ok := event.Object.(O)
		if !ok {
			return ""
		}
		if meta, ok := event.Object.(metav1.Object); ok {
			from = meta.GetResourceVersion()
		}
		if event.Type != watch.Bookmark {
			note(event.Type, object)
		}
	}
	return from
}

func (o *observer) notePod(event watch.EventType, pod *corev1.Pod) {
	seen := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.pod(pod.UID, pod.Namespace+"/"+pod.Name)
	if event == watch.Deleted {
		known.gone = seen
		return
	}
	o.see(known.at(number(pod.ResourceVersion)), factsOfPod(pod), seen)
}

// pod returns the chronicle of a pod. The caller holds the lock.
func (o *observer) pod(uid types.UID, name string) *chronicle[podFacts] {
	if o.pods[uid] == nil {
		o.pods[uid] = &chronicle[podFacts]{name: name, versions: map[uint64]*version[podFacts]{}}
	}
	return o.pods[uid]
}

func (o *observer) see(v *version[podFacts], facts podFacts, seen time.Time) {
	v.facts = facts
	if v.seen.IsZero() {
		v.seen = seen
	}
}

// listed notes all pods there are: those that are known and not among them are gone.
func (o *observer) listed(pods []corev1.Pod) {
	present := map[types.UID]bool{}
	for i := range pods {
		present[pods[i].UID] = true
		o.notePod(watch.Modified, &pods[i])
	}
	seen := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, known := range o.pods {
		if !present[uid] && known.gone.IsZero() {
			known.gone = seen
		}
	}
}

func (o *observer) noteNode(_ watch.EventType, node *corev1.Node) {
	seen := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.node(node.Name).at(number(node.ResourceVersion))
	v.facts = node.Spec.Taints
	if v.seen.IsZero() {
		v.seen = seen
	}
}

// node returns the chronicle of a node. The caller holds the lock.
func (o *observer) node(name string) *chronicle[[]corev1.Taint] {
	if o.nodes[name] == nil {
		o.nodes[name] = &chronicle[[]corev1.Taint]{name: name, versions: map[uint64]*version[[]corev1.Taint]{}}
	}
	return o.nodes[name]
}

type leaseGetter func(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error)

// followLease notes who leads. While the API server cannot be asked, the last answer stands.
func (o *observer) followLease(ctx context.Context, get leaseGetter) {
	const every = 100 * time.Millisecond
	for ctx.Err() == nil {
		if holder, err := holder(ctx, get); err == nil {
			o.ledger.holds(holder, time.Now())
		}
		pause(ctx, every)
	}
}

func holder(ctx context.Context, get leaseGetter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := get(ctx, "taintkeeper", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// present returns the names of the pods that were not seen to leave, by UID.
func (o *observer) present() map[types.UID]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := map[types.UID]string{}
	for uid, known := range o.pods {
		if known.gone.IsZero() {
			names[uid] = known.name
		}
	}
	return names
}

// unguarded counts the pods that were not seen to leave and that the webhook is not asked about.
func (o *observer) unguarded() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, known := range o.pods {
		if known.gone.IsZero() && !anyVersion(known, func(facts podFacts) bool { return facts.guarded }) {
			n++
		}
	}
	return n
}
