// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// keeperUser is the user of the replicas.
const keeperUser = localcluster.TaintkeeperUser

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
		pods: map[types.UID]*chronicle[podFacts]{}, nodes: map[string]*chronicle[[]corev1.Taint]{},
	}
}

// chronicle is everything that is known about one object, by the number of its version.
type chronicle[F any] struct {
	name     string // of a pod with its namespace
	versions map[uint64]*version[F]
	gone     time.Time // when it was seen as gone
}

// version is one version of an object: its content, and when it was written and seen.
type version[F any] struct {
	number  uint64
	facts   F
	seen    time.Time // by the observer's watch; zero if only the audit log has it
	written span      // by the audit log; zero if only the watch has it
	writer  string    // who wrote it, by the audit log
}

// chronicleOf returns the chronicle of an object. The caller holds the observer's lock.
func chronicleOf[K comparable, F any](all map[K]*chronicle[F], key K, name string) *chronicle[F] {
	if all[key] == nil {
		all[key] = &chronicle[F]{name: name, versions: map[uint64]*version[F]{}}
	}
	return all[key]
}

// at returns a version by its resourceVersion, which is a number because etcd counts its revisions.
func (c *chronicle[F]) at(resourceVersion string) *version[F] {
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		number = 0
	}
	if c.versions[number] == nil {
		c.versions[number] = &version[F]{number: number}
	}
	return c.versions[number]
}

// inOrder returns the versions of an object from the first to the last.
func (c *chronicle[F]) inOrder() []*version[F] {
	all := make([]*version[F], 0, len(c.versions))
	for _, v := range c.versions {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *version[F]) int { return cmp.Compare(a.number, b.number) })
	return all
}

// see notes what the watch brings of a version.
func (v *version[F]) see(facts F, seen time.Time) {
	v.facts = facts
	if v.seen.IsZero() {
		v.seen = seen
	}
}

// attest notes what the audit log says about a version. A change that changed nothing has the earlier version.
func (v *version[F]) attest(e auditlog.Event) {
	if v.writer == "" {
		v.written, v.writer = oracle.Between(e.Received, e.Answered), e.User
	}
}

// podFacts are what the rule needs to know about a pod.
type podFacts struct {
	node        string
	tolerations []corev1.Toleration
	recorded    time.Time // its binding, to the second
	mirror      bool
	terminating bool // or gone
	guarded     bool // the webhook reviews it
}

func factsOfPod(pod *corev1.Pod) podFacts {
	facts := podFacts{
		node:        pod.Spec.NodeName,
		tolerations: pod.Spec.Tolerations,
		recorded:    pod.CreationTimestamp.Time,
		terminating: pod.DeletionTimestamp != nil,
	}
	_, facts.mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	_, facts.guarded = pod.Labels[guarded]
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			facts.recorded = condition.LastTransitionTime.Time
		}
	}
	return facts
}

func (f podFacts) same(other podFacts) bool {
	return f.node == other.node && f.recorded.Equal(other.recorded) &&
		f.mirror == other.mirror && f.terminating == other.terminating &&
		slices.EqualFunc(f.tolerations, other.tolerations, func(a, b corev1.Toleration) bool {
			return a.MatchToleration(&b) && ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
		})
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

// Listed notes all existing pods. Known pods that are not among them are gone.
func (o podNotes) Listed(pods []*corev1.Pod) {
	present := map[types.UID]bool{}
	for _, pod := range pods {
		present[pod.UID] = true
		o.Changed(watch.Modified, pod)
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

// Changed notes a version of a pod.
func (o podNotes) Changed(event watch.EventType, pod *corev1.Pod) {
	seen := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	known := chronicleOf(o.pods, pod.UID, pod.Namespace+"/"+pod.Name)
	if event == watch.Deleted {
		known.gone = seen
		return
	}
	known.at(pod.ResourceVersion).see(factsOfPod(pod), seen)
}

// Listed notes all nodes.
func (o nodeNotes) Listed(all []*corev1.Node) {
	for _, node := range all {
		o.Changed(watch.Modified, node)
	}
}

// Changed notes a version of a node. No node is deleted here.
func (o nodeNotes) Changed(_ watch.EventType, node *corev1.Node) {
	seen := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	chronicleOf(o.nodes, node.Name, node.Name).at(node.ResourceVersion).see(node.Spec.Taints, seen)
}

type leaseGetter func(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error)

// followLease notes which replica leads. While the API server is down, the last answer remains valid.
func (o *observer) followLease(ctx context.Context, get leaseGetter) {
	const every = 100 * time.Millisecond
	for ctx.Err() == nil {
		_ = once(ctx, func(ctx context.Context) error { // an error is an outage
			lease, err := get(ctx, "taintkeeper", metav1.GetOptions{})
			if err == nil {
				o.ledger.holds(ptr.Deref(lease.Spec.HolderIdentity, ""), time.Now())
			}
			return err
		})
		pause(ctx, every)
	}
}

// present returns the names of the pods that were not seen to leave, in order, so that the seed alone decides which of
// them is picked, and how many of them the webhook is not asked about.
func (o *observer) present() (names []string, unguarded int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.pods {
		name, ours := strings.CutPrefix(known.name, namespace+"/")
		if !known.gone.IsZero() || !ours {
			continue
		}
		names = append(names, name)
		if !slices.ContainsFunc(known.inOrder(), func(v *version[podFacts]) bool { return v.facts.guarded }) {
			unguarded++
		}
	}
	slices.Sort(names)
	return names, unguarded
}

// deletion is a DELETE of a pod that the API server accepted.
type deletion struct {
	span // from its receipt to its answer

	user string
}

// audited is what only the audit log knows.
type audited struct {
	deletions map[types.UID][]deletion
	foreign   []foreignCall
	clock     auditlog.EvictionClock
	unknown   []auditlog.UnknownStep // of replicas
	marked    map[types.UID]bool     // the pods that have a mark of the built-in now
}

// foreignCall is a call by which the built-in evicts and that the API server accepted: it marks a pod, or deletes one.
type foreignCall struct {
	span // from its receipt to its answer

	kind callKind
	uid  types.UID
	name string // of the pod, with its namespace
}

// readAudit adds to the chronicles what the audit log has: who wrote which version and when, and versions that the
// watch missed. It returns the rest. A change that was under way when the API server was killed is missing.
func (o *observer) readAudit(path string) (audited, error) {
	found := audited{deletions: map[types.UID][]deletion{}, marked: map[types.UID]bool{}}
	calls, err := auditlog.New(path).Events()
	if err != nil {
		return found, err
	}
	if found.unknown, err = auditlog.Unknown(calls, auditlog.Event.ByTaintkeeper); err != nil {
		return found, err
	}
	changes := auditlog.Choose(calls, auditlog.Accepted)
	if found.clock, err = auditlog.EvictionClockOf(changes); err != nil {
		return found, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	bindings := map[types.UID]auditlog.Event{}
	for _, e := range changes {
		switch {
		case slices.Contains([]string{"get", "list", "watch"}, e.Verb): // for the replicas, the log has reads, too
		case e.Resource == "nodes" && e.Verb != "delete":
			err = o.auditNode(e)
		case e.Resource == "pods/binding":
			bindings[e.UID] = e
		case strings.HasPrefix(e.Resource, "pods"):
			err = o.auditPod(e, &found)
		}
		if err != nil {
			return found, fmt.Errorf("parse the audit log entry about %s: %w", e.Name, err)
		}
	}
	for uid, e := range bindings {
		o.auditBinding(uid, e)
	}
	return found, nil
}

func (o *observer) auditNode(e auditlog.Event) error {
	var node corev1.Node
	if err := json.Unmarshal(e.Response, &node); err != nil {
		return err
	}
	v := chronicleOf(o.nodes, node.Name, node.Name).at(node.ResourceVersion)
	v.facts = node.Spec.Taints
	v.attest(e)
	return nil
}

func (o *observer) auditPod(e auditlog.Event, found *audited) error {
	var pod corev1.Pod
	if err := json.Unmarshal(e.Response, &pod); err != nil {
		return err
	}
	found.noteForeign(e, &pod)
	if e.Verb == "delete" {
		deleted := deletion{span: oracle.Between(e.Received, e.Answered), user: e.User}
		found.deletions[pod.UID] = append(found.deletions[pod.UID], deleted)
		if ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0 {
			return nil // it was gone at once; the answer is its last version
		}
	}
	v := chronicleOf(o.pods, pod.UID, pod.Namespace+"/"+pod.Name).at(pod.ResourceVersion)
	known := v.writer != "" || !v.seen.IsZero()
	if known && !v.facts.terminating && e.Verb == "delete" {
		// Of two simultaneous DELETEs, the second changes nothing: its answer has the previous version, with a
		// deletionTimestamp.
		return nil
	}
	v.facts = factsOfPod(&pod)
	v.attest(e)
	return nil
}

// auditBinding notes when the first version with a node was written. The answer to a binding does not have the pod.
func (o *observer) auditBinding(uid types.UID, e auditlog.Event) {
	known := o.pods[uid]
	if known == nil {
		return
	}
	for _, v := range known.inOrder() {
		if v.facts.node != "" {
			v.attest(e)
			return
		}
	}
}

// noteForeign notes a change of a pod if the built-in made it: a DELETE, or a patch that brings a mark. Of the
// built-in's controllers that use this name, only the one that evicts changes pods here. A late patch may bring a mark
// that is already there, so there is nothing left in it to refuse.
func (a *audited) noteForeign(e auditlog.Event, pod *corev1.Pod) {
	c := foreignCall{span: oracle.Between(e.Received, e.Answered), uid: pod.UID, name: pod.Namespace + "/" + pod.Name}
	marks := !a.marked[pod.UID]
	a.marked[pod.UID] = slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && strings.HasPrefix(c.Message, "Taint manager:")
	})
	switch {
	case !e.ByBuiltIn():
		return
	case e.Verb == "delete" && e.Resource == "pods":
		c.kind = deletePod
	case e.Verb == "patch" && e.Resource == "pods/status" && marks:
		c.kind = patchPod
	default:
		return
	}
	a.foreign = append(a.foreign, c)
}
