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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	rig "github.com/taintkeeper/taintkeeper/test/rig/observer"
)

// observer watches nodes, pods and the Lease at the API server itself, and keeps every version that it sees. Versions
// that it misses while a watch is broken come from the audit log. It is safe for concurrent use.
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

// run observes until the context ends.
func (o *observer) run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { rig.Follow(ctx, o.client.CoreV1().Pods(metav1.NamespaceAll), podNotes{o}) })
	group.Go(func() { rig.Follow(ctx, o.client.CoreV1().Nodes(), nodeNotes{o}) })
	group.Go(func() { o.followLease(ctx, o.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get) })
	group.Wait()
}

// podNotes and nodeNotes record pods and nodes.
type (
	podNotes  struct{ *observer }
	nodeNotes struct{ *observer }
)

func (o podNotes) Listed(all []*corev1.Pod)                       { o.listed(all) }
func (o podNotes) Changed(event watch.EventType, pod *corev1.Pod) { o.notePod(event, pod) }

func (o nodeNotes) Listed(all []*corev1.Node) {
	for _, node := range all {
		o.noteNode(node)
	}
}

func (o nodeNotes) Changed(_ watch.EventType, node *corev1.Node) { o.noteNode(node) }

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

// listed notes all existing pods. Known pods that are not among them are gone.
func (o *observer) listed(pods []*corev1.Pod) {
	present := map[types.UID]bool{}
	for _, pod := range pods {
		present[pod.UID] = true
		o.notePod(watch.Modified, pod)
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

func (o *observer) noteNode(node *corev1.Node) {
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

// followLease notes which replica leads. While the API server is down, the last answer remains valid.
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
