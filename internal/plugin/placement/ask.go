// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// farSighted are the filters whose answer for a node depends on more than that node and the pod.
var farSighted = []string{
	names.InterPodAffinity, names.PodTopologySpread,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
}

// byOthers are the filters whose answer for a node changes when pods on other nodes are placed or leave.
var byOthers = []string{names.InterPodAffinity, names.PodTopologySpread}

// podsPerQuestion is how many pods a far-sighted filter counts in the time that one node takes to answer.
const podsPerQuestion = 10

// group is pods that look the same to the scheduler.
type group struct {
	shape *shape
	// last is the last answer, or nil. changes is how many changes there had been before it.
	last    *answer
	changes int
	// again are the nodes that would take these pods but whose taints would make them leave again. It is nil until known.
	again map[string]verdict.Verdict
}

// stillRefuses reports whether no node took such a pod, and nothing has changed since then.
func (g *group) stillRefuses(changes int) bool {
	return g.last != nil && len(g.last.fits) == 0 && g.changes == changes
}

// shape is pods that look the same to the filters that examine only one node, even if they belong to different
// workloads.
type shape struct {
	// left is how many of them have not been asked about yet.
	left int
	// known is what nodes say about them, or nil if they have not been asked. dryRuns is what preemption would do there,
	// by their priority.
	known   *known
	dryRuns map[int32]*dryRuns
}

// isRemembered reports whether another pod can use what nodes say.
func (s *shape) isRemembered() bool { return s.known != nil || s.left > 1 }

// known is what nodes say about the pods of a shape.
type known struct {
	changes int                 // how many changes of nodes it takes into account
	said    []*fwk.Status       // by index of the node; nil if the node takes the pod
	numbers map[*fwk.Status]int // how many nodes say the same
	answer  *answer             // the sum of all answers, or nil
	scores  []int64             // by index of the node, from its own properties; may be unscored
}

// unscored is the score of a node that has not been scored.
const unscored = -1

func newKnown(nodes int) *known {
	return &known{
		said: make([]*fwk.Status, nodes), numbers: map[*fwk.Status]int{nil: nodes}, scores: noScores(nodes),
	}
}

func noScores(nodes int) []int64 { return slices.Repeat([]int64{unscored}, nodes) }

// hear records what a node says after a change.
func (k *known) hear(place int, said *fwk.Status) {
	if k.scores[place] = unscored; k.said[place] == said {
		return
	}
	k.numbers[k.said[place]]--
	k.numbers[said]++
	k.said[place], k.answer = said, nil
}

// sumUp returns the answer of all nodes. Callers must not change it, because later questions may get the same one.
func (k *known) sumUp(nodes []fwk.NodeInfo) *answer {
	if k.answer != nil {
		return k.answer
	}
	k.answer = newAnswer(nodes, len(nodes))
	k.answer.fits = make([]int, 0, k.numbers[nil])
	for place, said := range k.said {
		switch {
		case said == nil:
			k.answer.fits = append(k.answer.fits, place)
		case k.numbers[nil] == 0 && said.Code() == fwk.Unschedulable:
			k.answer.resolvable = append(k.answer.resolvable, place)
		}
	}
	for said, number := range k.numbers {
		if said != nil && number > 0 {
			k.answer.refuse(said, number)
		}
	}
	return k.answer
}

// answer is what all nodes say about a pod.
type answer struct {
	nodes   []fwk.NodeInfo // all there are
	fits    []int          // the indexes of those that take the pod
	reasons map[string]int // why the others do not take it, and how many give that reason
	asked   int            // how many nodes are asked
	// resolvable are the indexes of nodes that may take the pod if others leave them, if no node takes it now.
	resolvable []int
	// others is true if some node does not take the pod because of pods elsewhere.
	others bool
}

func newAnswer(nodes []fwk.NodeInfo, asked int) *answer {
	return &answer{nodes: nodes, reasons: map[string]int{}, asked: asked}
}

func (a *answer) name(place int) string { return a.nodes[place].Node().Name }

func (a *answer) refuse(status *fwk.Status, nodes int) {
	for _, reason := range status.Reasons() {
		a.reasons[reason] += nodes
	}
	a.others = a.others || slices.Contains(byOthers, status.Plugin())
}

// why lists the reasons like the scheduler's events, the most frequent first.
func (a *answer) why() string {
	reasons := slices.SortedFunc(maps.Keys(a.reasons), func(x, y string) int {
		if a.reasons[x] != a.reasons[y] {
			return a.reasons[y] - a.reasons[x]
		}
		return strings.Compare(x, y)
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", a.reasons[reason], reason)
	}
	return strings.Join(reasons, ", ")
}

// question asks nodes whether they take a pod.
type question struct {
	*scheduler

	pod   *corev1.Pod
	group *group
	// only is the only node that a DaemonSet's pod may go to. It is empty for other pods.
	only string
	// budget limits this question and others.
	budget *budget
}

// budget limits the number of questions about some pods.
type budget struct {
	asked, limit int
	pods         int // how many pods were asked about
}

func (b *budget) isUsedUp() bool { return b.asked >= b.limit }

// ask runs the filters. The state is needed to choose among the nodes that fit.
func (q question) ask(ctx context.Context) (*answer, fwk.CycleState, error) {
	q.budget.pods++
	state := framework.NewCycleState()
	result, status, _ := q.framework.RunPreFilterPlugins(ctx, state, q.pod)
	switch {
	case status.IsRejected():
		all := newAnswer(q.nodes, len(q.nodes))
		all.refuse(status, len(q.nodes))
		return all, state, nil
	case !status.IsSuccess():
		return nil, nil, status.AsError()
	}
	var all *answer
	var err error
	if q.only == "" && result.AllNodes() && nearSighted(state) && q.group.shape.isRemembered() {
		all, err = q.askChanged(ctx, state)
	} else {
		all, err = q.askSome(ctx, state, q.candidates(result))
	}
	return all, state, err
}

// askSome asks the given nodes.
func (q question) askSome(ctx context.Context, state fwk.CycleState, places []int) (*answer, error) {
	answers, err := q.filter(ctx, state, places)
	if err != nil {
		return nil, err
	}
	all := newAnswer(q.nodes, len(places))
	for i, said := range answers {
		switch {
		case said.IsSuccess():
			all.fits = append(all.fits, places[i])
			continue
		case said.Code() == fwk.Unschedulable:
			all.resolvable = append(all.resolvable, places[i])
		}
		all.refuse(said, 1)
	}
	return all, nil
}

// candidates returns the indexes of the nodes that may take the pod.
func (q question) candidates(result *fwk.PreFilterResult) []int {
	places := make([]int, 0, len(q.nodes))
	for i, node := range q.nodes {
		name := node.Node().Name
		if (q.only == "" || name == q.only) && (result.AllNodes() || result.NodeNames.Has(name)) {
			places = append(places, i)
		}
	}
	return places
}

// askChanged asks the nodes that have changed since a pod of the same shape was asked about, or all nodes if none was.
func (q question) askChanged(ctx context.Context, state fwk.CycleState) (*answer, error) {
	shape := q.group.shape
	var places []int
	if shape.known != nil {
		places = q.changedSince(shape.known.changes)
	} else {
		shape.known = newKnown(len(q.nodes))
		places = slices.Sorted(maps.Values(q.places))
	}
	answers, err := q.filter(ctx, state, places)
	if err != nil {
		shape.known = nil
		return nil, err
	}
	for i, said := range answers {
		shape.known.hear(places[i], q.interned(said))
	}
	shape.known.changes = len(q.changed)
	return shape.known.sumUp(q.nodes), nil
}

// filter returns what the given nodes say.
func (q question) filter(ctx context.Context, state fwk.CycleState, places []int) ([]*fwk.Status, error) {
	q.budget.asked += len(places)
	if !state.GetSkipFilterPlugins().HasAll(byOthers...) {
		q.budget.asked += q.pods / podsPerQuestion
	}
	answers := make([]*fwk.Status, len(places))
	q.framework.Parallelizer().Until(ctx, len(places), func(i int) {
		answers[i] = q.framework.RunFilterPlugins(ctx, state, q.pod, q.nodes[places[i]])
	}, metrics.Filter)
	for _, said := range answers {
		if !said.IsSuccess() && !said.IsRejected() {
			return nil, said.AsError()
		}
	}
	return answers, ctx.Err()
}

// interned returns one shared status for all equal statuses, so that answers of thousands of nodes need little memory.
func (s *scheduler) interned(status *fwk.Status) *fwk.Status {
	if status.IsSuccess() {
		return nil
	}
	words := status.Code().String() + status.Message()
	if s.said[words] == nil {
		s.said[words] = status
	}
	return s.said[words]
}

func nearSighted(state fwk.CycleState) bool {
	return state.GetSkipFilterPlugins().HasAll(farSighted...)
}

// filled is an informer that never runs: it holds the given objects, and passes them to handlers immediately.
type filled struct {
	cache.SharedIndexInformer
}

// AddEventHandler implements cache.SharedInformer.
func (f filled) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range f.GetIndexer().List() {
		handler.OnAdd(object, true)
	}
	return nil, nil //nolint:nilnil // Nobody waits for a handler that already has all objects.
}

// informersOf returns informers from which plugins read a cluster. They have no client, and must not be started.
func informersOf(cluster *state.Cluster) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	owners := ownersOf(cluster)
	for _, err := range []error{
		fill(factory, &appsv1.ReplicaSet{}, owners.replicaSets),
		fill(factory, &appsv1.StatefulSet{}, owners.statefulSets),
		fill(factory, &corev1.ReplicationController{}, owners.replicationControllers),
	} {
		if err != nil {
			return nil, err
		}
	}
	for _, kind := range state.Kinds {
		if !kind.Scheduling && kind != state.Namespaces {
			continue
		}
		if err := fill(factory, kind.New(), versioned(kind.Objects(cluster))); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

// fill creates the informer for one type, with its objects.
func fill[P runtime.Object](factory informers.SharedInformerFactory, example P, objects []P) error {
	informer := factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return filled{cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers)}
	})
	for _, object := range objects {
		if err := informer.GetIndexer().Add(object); err != nil {
			return fmt.Errorf("fill the scheduler's cache with %T: %w", object, err)
		}
	}
	return nil
}

// versioned gives a resource version to objects without one, which may come from files. The scheduler compares versions
// when it assumes that a volume is bound.
func versioned(objects []runtime.Object) []runtime.Object {
	for i, object := range objects {
		if is, ok := object.(metav1.Object); ok && is.GetResourceVersion() == "" {
			copied := object.DeepCopyObject()
			copied.(metav1.Object).SetResourceVersion("1")
			objects[i] = copied
		}
	}
	return objects
}
