// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// farSighted are the filters whose answer for a node follows from more than that node and the pod.
var farSighted = []string{
	names.InterPodAffinity, names.PodTopologySpread,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
}

// byOthers are the filters whose answer for a node changes when pods are placed or leave elsewhere.
var byOthers = []string{names.InterPodAffinity, names.PodTopologySpread}

// podsPerQuestion is how many pods a far-sighted filter counts in the time in which a node answers.
const podsPerQuestion = 10

// group are pods that are equal to the scheduler.
type group struct {
	shape *shape
	// last is the last answer, nil before the first, and changes how many changes there had been before it.
	last    *answer
	changes int
	// again are the nodes that would take these pods and that they would have to leave again, nil before that is known.
	again map[string]verdict.Verdict
}

// stillRefuses reports whether no node took such a pod, and nothing has changed since.
func (g *group) stillRefuses(changes int) bool {
	return g.last != nil && len(g.last.fits) == 0 && g.changes == changes
}

// shape are pods that are equal to the filters that look at one node alone, whatever workload they are of.
type shape struct {
	// left is how many of them are still to be asked for.
	left int
	// known is what the nodes said before, by their place among all nodes. It counts as long as a node has not changed.
	known []heard
}

// heard is what one node said to a pod.
type heard struct {
	generation int64       // of the node when it said so; 0: it was not asked
	status     *fwk.Status // nil: it takes the pod
}

// answer is what all nodes say to a pod.
type answer struct {
	fits    []fwk.NodeInfo
	reasons map[string]int // why others do not take it, and how many of them
	asked   int            // how many nodes there are to ask
	// resolvable: some node would take the pod if others left it.
	resolvable bool
	// others: some node does not take the pod because of pods elsewhere.
	others bool
}

func (a *answer) refuse(status *fwk.Status, nodes int) {
	for _, reason := range status.Reasons() {
		a.reasons[reason] += nodes
	}
	a.resolvable = a.resolvable || status.Code() == fwk.Unschedulable
	a.others = a.others || slices.Contains(byOthers, status.Plugin())
}

// why counts the reasons as the scheduler's events do, the most frequent first.
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
	// only is the node that comes into question for a DaemonSet's pod, empty for any other.
	only string
	// budget is what the question is charged to.
	budget *budget
}

// budget bounds the questions about some pods.
type budget struct {
	asked, limit int
	pods         int // how many pods were asked about
}

func (b *budget) isUsedUp() bool { return b.asked >= b.limit }

// ask runs the filters. The state is for those who choose among the nodes that fit.
func (q question) ask(ctx context.Context) (*answer, fwk.CycleState, error) {
	q.budget.pods++
	state := framework.NewCycleState()
	result, status, _ := q.framework.RunPreFilterPlugins(ctx, state, q.pod)
	indexes := q.candidates(result)
	all := &answer{reasons: map[string]int{}, asked: len(q.nodes)}
	switch {
	case status.IsRejected():
		all.refuse(status, len(q.nodes))
		return all, state, nil
	case !status.IsSuccess():
		return nil, nil, status.AsError()
	}
	if q.only != "" || !result.AllNodes() {
		all.asked = len(indexes)
	}
	for i, said := range q.filter(ctx, state, indexes) {
		switch {
		case said.IsSuccess():
			all.fits = append(all.fits, q.nodes[indexes[i]])
		case said.IsRejected():
			all.refuse(said, 1)
		default:
			return nil, nil, said.AsError()
		}
	}
	return all, state, ctx.Err()
}

// candidates returns the places of the nodes that come into question.
func (q question) candidates(result *fwk.PreFilterResult) []int {
	indexes := make([]int, 0, len(q.nodes))
	for i, node := range q.nodes {
		name := node.Node().Name
		if (q.only == "" || name == q.only) && (result.AllNodes() || result.NodeNames.Has(name)) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// filter returns what nodes say. A node that has not changed since a pod of the same shape asked is not asked again, if
// no filter looks further than the node.
func (q question) filter(ctx context.Context, state fwk.CycleState, indexes []int) []*fwk.Status {
	said := make([]*fwk.Status, len(indexes))
	toAsk := make([]int, 0, len(indexes))
	near := q.nearSighted(state)
	shape := q.group.shape
	if near && shape.known == nil && shape.left > 1 && q.only == "" {
		shape.known = make([]heard, len(q.nodes))
	}
	remember := near && shape.known != nil
	for i, index := range indexes {
		if remember && shape.known[index].generation == q.nodes[index].GetGeneration() {
			said[i] = shape.known[index].status
			continue
		}
		toAsk = append(toAsk, i)
	}
	q.budget.asked += len(toAsk)
	if !state.GetSkipFilterPlugins().HasAll(byOthers...) {
		q.budget.asked += q.pods / podsPerQuestion
	}
	q.framework.Parallelizer().Until(ctx, len(toAsk), func(piece int) {
		i := toAsk[piece]
		index := indexes[i]
		said[i] = q.framework.RunFilterPlugins(ctx, state, q.pod, q.nodes[index])
		if remember {
			shape.known[index] = heard{q.nodes[index].GetGeneration(), q.interned(said[i])}
		}
	}, metrics.Filter)
	return said
}

// interned returns one and the same status for all that say the same, so that what is known of thousands of nodes stays
// small.
func (s *scheduler) interned(status *fwk.Status) *fwk.Status {
	if status.IsSuccess() {
		return nil
	}
	said, _ := s.said.LoadOrStore(status.Code().String()+status.Message(), status)
	return said.(*fwk.Status)
}

func (q question) nearSighted(state fwk.CycleState) bool {
	return state.GetSkipFilterPlugins().HasAll(farSighted...)
}
