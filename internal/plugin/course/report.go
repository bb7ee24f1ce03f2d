// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// notSimulated is what no simulation takes into account.
var notSimulated = []string{
	"Autoscalers and the descheduler: no nodes are added or removed, and no pod is moved.",
	"Rollouts, scaling and other changes of workloads while the simulation runs.",
	"The readiness of applications: a pod is ready after the start delay, and a deleted pod uses all of its grace period if its kubelet is alive.",
	"Pods that stop because of a dependency, such as a database in a silent zone.",
	"Load: calls to the API server take no time.",
	"Random choices: which of the nodes that become silent together is tainted first, and which of equally good nodes gets a pod.",
}

// tellNode returns the report on a node.
func (s *simulation) tellNode(n *node) *cliv1alpha1.SimulatedNode {
	if n.told == nil {
		n.told = &cliv1alpha1.SimulatedNode{Name: n.Name, Zone: zoneOf(n.Node), Before: state.FormatAll(n.Spec.Taints)}
	}
	return n.told
}

// tellPod returns the report on a pod.
func (s *simulation) tellPod(p *pod) *cliv1alpha1.SimulatedPod {
	if p.told == nil {
		p.told = &cliv1alpha1.SimulatedPod{Namespace: p.Namespace, Name: p.Name, Owner: p.owner, Node: p.Spec.NodeName}
		if p.first {
			p.told.UID = p.UID
		}
		s.told = append(s.told, p.told)
	}
	return p.told
}

// nameOf names the workload of a pod, or the pod if it has none.
func (s *simulation) nameOf(p *pod) string {
	if p.owner == nil {
		return "pod " + p.Namespace + "/" + p.Name
	}
	return workloadKey{p.Namespace, *p.owner}.String()
}

// String names the workload.
func (k workloadKey) String() string { return k.owner.Kind + " " + k.namespace + "/" + k.owner.Name }

// report returns the report.
func (s *simulation) report() *cliv1alpha1.SimulationReport {
	is := s.cluster.Location
	r := &cliv1alpha1.SimulationReport{
		TypeMeta: cliv1alpha1.Type("SimulationReport"),
		At:       metav1.NewMicroTime(s.start), Until: s.offset(s.end),
		Context: is.Context, Cluster: is.Cluster, Server: is.Server,
		EvictedBy: s.cluster.By(),
		Nodes:     []cliv1alpha1.SimulatedNode{}, Pods: []cliv1alpha1.SimulatedPod{},
		NotSimulated: notSimulated,
	}
	s.reportNodes(r)
	s.reportPods(r)
	s.reportWorkloads(r)
	s.reportBudgets(r)
	r.Story = s.story.tell(s.start)
	r.Notes = append(s.cluster.Notes(), s.notes...)
	return r
}

func (s *simulation) reportNodes(r *cliv1alpha1.SimulationReport) {
	for _, name := range s.names {
		n := s.nodes[name]
		s.tellHeld(n)
		if n.told == nil {
			continue
		}
		r.Nodes = append(r.Nodes, *n.told)
		r.Summary.Unreachable += count(n.told.UnreachableAt != nil)
		r.Summary.Tainted += count(slices.ContainsFunc(n.told.Steps, func(step cliv1alpha1.SimulatedTaints) bool {
			return slices.ContainsFunc(step.Taints, func(taint string) bool { return strings.HasSuffix(taint, ":NoExecute") })
		}))
	}
}

// tellHeld reports why node health does not taint a node now, if it does not.
func (s *simulation) tellHeld(n *node) {
	if held := s.play.Held(n.Name); held != nil {
		s.tellNode(n).Held = held.String()
	}
}

func (s *simulation) reportPods(r *cliv1alpha1.SimulationReport) {
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			switch {
			case p.stage == bound && p.held != nil:
				s.tellPod(p).HeldBy = p.held.String()
				r.Summary.Held++
			case p.stage == terminating && p.told != nil && p.told.Successor == "":
				p.told.NoSuccessor = cmp.Or(p.told.NoSuccessor, s.makers.WhyWait(p.Pod))
			}
		}
	}
	s.tellBlocked()
	for _, p := range s.waiting {
		r.Summary.Nowhere += count(p.told != nil && p.told.WaitsSince != nil)
	}
	r.Summary.Unattached = s.tellUnattached()
	for _, told := range s.told {
		r.Pods = append(r.Pods, *told)
		r.Summary.Left += count(told.LeavesAt != nil)
		r.Summary.Preempted += count(told.PreemptedBy != "")
		r.Summary.PodsLost += count(told.Lost)
		r.Summary.LocalData += count(told.LocalData)
	}
}

// tellBlocked says why pods do not exist yet that StatefulSets create in order.
func (s *simulation) tellBlocked() {
	for _, all := range s.sets.blocked {
		for _, p := range all {
			if of := s.sets.waitsFor(p); of != nil && p.of != nil {
				s.noSuccessor(p.of, placement.NoSuccessor(fmt.Sprintf("Its StatefulSet creates its pods in order, and %s is not ready.", of.base())))
			}
		}
	}
}

func (s *simulation) reportWorkloads(r *cliv1alpha1.SimulationReport) {
	for key, c := range s.workloads {
		first, lowest := c.first(), c.lowest()
		if lowest.Ready >= first {
			continue
		}
		r.Workloads = append(r.Workloads, cliv1alpha1.SimulatedWorkload{
			Owner: key.owner, Namespace: key.namespace, Replicas: first, Lowest: lowest.Ready, AtEnd: c.number,
			LowestAt: lowest.At, LowestFor: c.below(lowest.Ready+1, r.Until), Steps: c.points[1:], Unknown: c.unknown,
		})
		r.Summary.WorkloadsLost += count(lowest.Ready == 0)
		s.tellBelow(key, c, first)
	}
	slices.SortFunc(r.Workloads, func(a, b cliv1alpha1.SimulatedWorkload) int {
		return cmp.Or(cmp.Compare(a.Lowest, b.Lowest), cmp.Compare(b.LowestFor.Duration, a.LowestFor.Duration),
			cmp.Compare(b.Replicas, a.Replicas),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// tellBelow reports when a workload has no ready replica, and for how long.
func (s *simulation) tellBelow(key workloadKey, c *counter, first int) {
	for i, p := range c.points {
		if p.Ready > 0 {
			continue
		}
		length, lasts := "until the end", c.until(i, s.offset(s.end))-p.At.Duration
		switch {
		case i+1 < len(c.points) && c.atMost:
			length = "for at most " + sentence.Span(lasts)
		case i+1 < len(c.points):
			length = "for " + sentence.Span(lasts)
		case c.unknown:
			length = "for an unknown time"
		}
		detail := fmt.Sprintf("%s has 0 of %s, %s", key, sentence.Counted(first, "replica"), length)
		s.story.add(s.start.Add(p.At.Duration), below, "", detail, "").lasts = lasts
	}
}

func (s *simulation) reportBudgets(r *cliv1alpha1.SimulationReport) {
	for _, b := range s.allowed {
		lowest := b.lowest()
		if b.first() < b.desired || lowest.Ready >= b.desired {
			continue
		}
		r.Budgets = append(r.Budgets, cliv1alpha1.SimulatedBudget{
			Namespace: b.Namespace, Name: b.Name, Desired: b.desired, Lowest: lowest.Ready,
			LowestAt: lowest.At, OverrunFor: b.below(b.desired, r.Until),
		})
	}
	r.Summary.BudgetsOverrun = len(r.Budgets)
	slices.SortFunc(r.Budgets, func(a, b cliv1alpha1.SimulatedBudget) int {
		return cmp.Or(cmp.Compare(b.OverrunFor.Duration, a.OverrunFor.Duration),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// topic is the subject of a line of the story. Lines of one instant are in this order.
type topic int

const (
	silent topic = iota
	back
	taintsSet
	serverIsDown
	unreachable
	tainted
	tripped
	left
	preempted
	jobFailed
	withoutRoom // of one workload, from here on
	withoutVolume
	below
)

// ofWorkloads reports whether each line is about one workload.
func (t topic) ofWorkloads() bool { return t >= withoutRoom }

// stories are the topics of steps.
var stories = map[stepKind]topic{falls: silent, comesBack: back, retaints: taintsSet}

// together is how far apart events in the same line can be.
const together = time.Minute

const (
	// nodesPerLine is how many nodes a line names.
	nodesPerLine = 3
	// mostAlike is how many workloads are listed if the same happens to them at the same instant.
	mostAlike = 5
)

// story groups events into lines.
type story struct {
	lines []*line
	open  map[lineKey]*line
}

// lineKey is what all events in one line have in common.
type lineKey struct {
	topic        topic
	zone, detail string
}

type line struct {
	lineKey

	from, to time.Time
	number   int
	lasts    time.Duration // how long a workload has no ready replicas
	names    []string      // a few more than are listed
	known    map[string]bool
}

// add records that something happened to a node, or to a pod on it, and returns the line for it.
func (s *story) add(at time.Time, topic topic, zone, detail, name string) *line {
	key := lineKey{topic, zone, detail}
	is := s.open[key]
	if is == nil || at.Sub(is.to) > together {
		is = &line{lineKey: key, from: at, known: map[string]bool{}}
		if s.open == nil {
			s.open = map[lineKey]*line{}
		}
		s.open[key] = is
		s.lines = append(s.lines, is)
	}
	is.to = at
	is.number++
	if !is.known[name] {
		is.known[name] = true
		is.names = append(is.names, name)
	}
	return is
}

// tell returns the lines in chronological order. For the same instant, the worst workloads come first: by how long they
// have no ready replica, or by how many pods have no room. The others are counted.
func (s *story) tell(start time.Time) []cliv1alpha1.SimulationEvent {
	slices.SortStableFunc(s.lines, (*line).compare)
	events := make([]cliv1alpha1.SimulationEvent, 0, len(s.lines))
	for i := 0; i < len(s.lines); {
		first, alike := s.lines[i], 1
		for first.topic.ofWorkloads() && i+alike < len(s.lines) &&
			s.lines[i+alike].topic == first.topic && s.lines[i+alike].from.Equal(first.from) {
			alike++
		}
		told := alike
		if alike > mostAlike+1 { // one more would only add a line
			told = mostAlike
		}
		at := metav1.Duration{Duration: first.from.Sub(start)}
		for _, is := range s.lines[i : i+told] {
			event := cliv1alpha1.SimulationEvent{At: at, Message: is.message()}
			if is.to.After(is.from) {
				event.Ends = &metav1.Duration{Duration: is.to.Sub(start)}
			}
			events = append(events, event)
		}
		if more := alike - told; more > 0 {
			text := fmt.Sprintf("the same happens to %d more workloads", more)
			events = append(events, cliv1alpha1.SimulationEvent{At: at, Message: text})
		}
		i += alike
	}
	return events
}

func (is *line) compare(other *line) int {
	order := cmp.Or(is.from.Compare(other.from), cmp.Compare(is.topic, other.topic))
	if order != 0 || is.topic == taintsSet {
		return order // steps at the same time stay in their order
	}
	order = cmp.Compare(is.zone, other.zone)
	if is.topic.ofWorkloads() {
		order = cmp.Or(cmp.Compare(other.lasts, is.lasts), cmp.Compare(other.number, is.number))
	}
	return cmp.Or(order, cmp.Compare(is.detail, other.detail))
}

// message is the text of the line.
func (is *line) message() string {
	switch is.topic {
	case silent:
		return is.nodes("falls silent", "fall silent")
	case back:
		return is.nodes("is back", "are back")
	case taintsSet:
		return is.where() + ": " + is.detail
	case serverIsDown:
		return "the API server is down for " + is.detail
	case unreachable:
		return is.nodes("is unreachable", "are unreachable")
	case tainted:
		return is.nodes("is tainted NoExecute by node health", "are tainted NoExecute by node health")
	case left:
		return fmt.Sprintf("%s %s because of %s", is.pods("leaves", "leave"), is.where(), is.detail)
	case preempted:
		return fmt.Sprintf("%s %s, preempted by %s", is.pods("leaves", "leave"), is.where(), is.detail)
	case jobFailed:
		return is.detail + " fails, and its other pods are deleted"
	case withoutRoom:
		return is.pods("finds no room", "find no room") + ": " + is.detail
	case withoutVolume:
		return is.pods("waits for a volume", "wait for volumes") + " still attached to " + is.detail
	}
	return is.detail
}

// does describes what an edit does to the taints of nodes.
func does(edit taints.Edit) string {
	var parts []string
	for _, taint := range edit.Add {
		parts = append(parts, "taint "+taints.Format(taint)+" set")
	}
	for _, removal := range edit.Remove {
		parts = append(parts, "taint "+strings.TrimSuffix(removal.String(), "-")+" removed")
	}
	return strings.Join(parts, ", ")
}

// pods says what one or several pods do.
func (is *line) pods(one, many string) string {
	return sentence.Do(is.number, "pod", one, many)
}

// nodes says what one or several nodes do.
func (is *line) nodes(one, many string) string {
	return is.where() + " " + sentence.Agree(len(is.names), one, many)
}

// where names the nodes of a line, or counts them.
func (is *line) where() string { return nameNodes(is.names, is.zone) }

// nameNodes names nodes, or counts them if there are many.
func nameNodes(names []string, zone string) string {
	if len(names) <= nodesPerLine {
		return sentence.Agree(len(names), "node ", "nodes ") + sentence.Enumerate(names)
	}
	where := sentence.Counted(len(names), "node")
	if zone != "" {
		where += " of zone " + zone
	}
	return where
}
