// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// mostPending is how many rows of pods that must leave are listed, soonest first. All pods are counted.
const mostPending = 500

// mostAlone is how many pods have their own rows. If more must leave, pods of one workload share rows, as in the tables
// of commands.
const mostAlone = 30

// cluster is the known state of a cluster, and the sheets for pages.
type cluster struct {
	now func() time.Time // the API server's time

	// Everything except the sheets belongs to the goroutine of the follower.
	live      state.Live
	pending   plan.Pending
	nodes     map[string]*nodeRows
	changed   map[string]bool // the nodes whose rows may have changed
	counted   map[types.UID]bool
	evictions []evictionRow // newest last
	evicted   int
	events    map[types.UID]*nodeEvent
	rules     map[types.UID]ruleRow
	sources   map[string]*currency
	head      headRow

	mu     sync.Mutex
	sheets *sheets
}

// nodeRows are the rows of a node.
type nodeRows struct {
	held string // why node health does not taint it
	// As last rendered: the pods that must leave, and the same pods by workload and instant.
	pending []cliv1alpha1.PendingPod
	groups  []pendingGroup
}

func newCluster(head headRow, now func() time.Time) *cluster {
	return &cluster{
		now: now, pending: plan.Pending{Owner: (&state.Cluster{}).Owner},
		nodes: map[string]*nodeRows{}, changed: map[string]bool{}, counted: map[types.UID]bool{},
		events: map[types.UID]*nodeEvent{}, rules: map[types.UID]ruleRow{}, sources: map[string]*currency{},
		head: head, sheets: newSheets(),
	}
}

// SetNode implements follow.Cluster.
func (c *cluster) SetNode(node *corev1.Node) {
	c.live.SetNode(node, c.now())
	if c.nodes[node.Name] == nil {
		c.nodes[node.Name] = &nodeRows{}
	}
	c.changed[node.Name] = true
}

// readyOf returns the status of the Ready condition.
func readyOf(node *corev1.Node) string {
	if ready := readiness.Condition(node, corev1.NodeReady); ready != nil {
		return string(ready.Status)
	}
	return string(corev1.ConditionUnknown)
}

// DeleteNode implements follow.Cluster.
func (c *cluster) DeleteNode(name string) {
	c.live.DeleteNode(name)
	delete(c.nodes, name)
	c.changed[name] = true
}

// setPolicies updates who evicts, and the policies. Policies change what the board says about pods, but not which pods
// must leave.
func (c *cluster) setPolicies(read *state.Cluster, err error) {
	if err == nil && c.live.Evictor != read.Evictor {
		c.live.Evictor, c.head.Idle = read.Evictor, sentence.Printable(read.Idle)
		c.markAllChanged()
	}
	set := read.PoliciesOf()
	news := set != nil || c.pending.Policies != nil || len(read.Unread()) > 0 || c.sources[kindPolicies] != nil
	if !news || !c.policiesCalled(read.Unread(), err) {
		return
	}
	c.pending.Policies = set
	c.markAllChanged()
}

func (c *cluster) markAllChanged() {
	for name := range c.nodes {
		c.markChanged(name)
	}
}

// SetPod implements follow.Cluster.
func (c *cluster) SetPod(pod *corev1.Pod) {
	if by := evictedBy(pod); by != "" && pod.DeletionTimestamp != nil {
		c.evict(pod, by)
	}
	c.live.SetPod(pod, c.now())
	c.markChanged(pod.Spec.NodeName)
}

// DeletePod implements follow.Cluster.
func (c *cluster) DeletePod(uid types.UID, last *corev1.Pod) {
	if last != nil {
		if by := evictedBy(last); by != "" {
			c.evict(last, by)
		}
	}
	if pod := c.live.Pod(uid); pod != nil {
		c.markChanged(pod.Spec.NodeName)
	}
	delete(c.counted, uid)
	c.live.DeletePod(uid)
}

// markChanged records that the pods of a node have changed, which matters if it has NoExecute taints.
func (c *cluster) markChanged(node string) {
	if n := c.live.Node(node); n != nil && len(n.Taints) > 0 {
		c.changed[node] = true
	}
}

// render updates the sheets.
func (c *cluster) render() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renderEvents()
	if len(c.changed) > 0 {
		for name := range c.changed {
			c.renderNode(name)
		}
		clear(c.changed)
		replace(c.sheets, sheetZones, c.zoneRows(), func(row zoneRow) string { return row.ID })
		c.renderPending()
	}
	replace(c.sheets, sheetEvictions, c.evictions, func(row evictionRow) string { return row.ID })
	replace(c.sheets, sheetRules, slices.Collect(maps.Values(c.rules)), func(row ruleRow) string { return row.ID })
	c.renderSources()
	c.renderHead()
}

func (c *cluster) renderNode(name string) {
	node, live := c.nodes[name], c.live.Node(name)
	if node == nil {
		c.sheets.remove(sheetNodes, name)
		return
	}
	node.pending = c.pending.On(live, c.now())
	node.groups = groupsOf(node.pending)
	row := nodeRow{
		ID: name, Zone: zoneOf(live.Node), Ready: readyOf(live.Node), Cordoned: live.Spec.Unschedulable,
		Pending: len(node.pending), Held: node.held, Taints: taintRows(live),
	}
	for i := range node.pending {
		if node.pending[i].Answer.Stays() {
			row.Kept++
			continue
		}
		due := node.pending[i].Due.UnixMilli()
		if row.Next == 0 || due < row.Next {
			row.Next = due
		}
		row.Last = max(row.Last, due)
	}
	c.sheets.put(sheetNodes, name, row)
}

func taintRows(node *state.LiveNode) []taintRow {
	var rows []taintRow
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		row := taintRow{Text: sentence.Printable(taints.Format(*taint))}
		for _, counted := range node.Taints {
			if counted.MatchTaint(taint) {
				row.Since = counted.Since.UnixMilli()
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// renderPending lists the pods that must leave soonest. If there are many, pods of one workload that leave a node
// together share a row.
func (c *cluster) renderPending() {
	c.head.Pending, c.head.Held = 0, 0
	for _, node := range c.nodes {
		c.head.Pending += len(node.pending)
		for i := range node.pending {
			if node.pending[i].Answer.Stays() {
				c.head.Held++
			}
		}
	}
	var first soonest
	for _, node := range c.nodes {
		if c.head.Pending > mostAlone {
			for i := range node.groups {
				first.add(node.groups[i])
			}
			continue
		}
		for i := range node.pending {
			first.add(pendingGroup{soonest: &node.pending[i]})
		}
	}
	rows := make([]pendingRow, 0, mostPending)
	for _, group := range first.cut() {
		rows = append(rows, newPendingRow(group))
	}
	replace(c.sheets, sheetPending, rows, func(row pendingRow) string { return row.ID })
}

// pendingGroup is one pod, or the pods of one workload that leave a node together.
type pendingGroup struct {
	soonest *cliv1alpha1.PendingPod
	names   []string // empty for one pod
}

// groupsOf returns the pods of a node by workload, instant, taint, and the answer of policies.
func groupsOf(pods []cliv1alpha1.PendingPod) []pendingGroup {
	type key struct {
		namespace, taint, heldBy string
		owner                    cliv1alpha1.Owner
		due                      int64
	}
	var all []pendingGroup
	known := map[key]int{}
	for i := range pods {
		pod := &pods[i]
		if pod.Owner == nil {
			all = append(all, pendingGroup{soonest: pod})
			continue
		}
		is := key{pod.Namespace, pod.Taint, pod.Answer.HeldBy(), *pod.Owner, pod.Due.Unix()}
		at, ok := known[is]
		if !ok {
			known[is] = len(all)
			all = append(all, pendingGroup{soonest: pod})
			continue
		}
		group := &all[at]
		if len(group.names) == 0 {
			group.names = []string{group.soonest.Name}
		}
		group.names = append(group.names, pod.Name)
		if plan.SoonestFirst(pod, group.soonest) < 0 {
			group.soonest = pod
		}
	}
	return all
}

// soonest keeps the pods that must leave first.
type soonest struct {
	groups []pendingGroup
	full   bool // it has enough pods, and the last one is a bound
}

func soonerGroup(a, b pendingGroup) int { return plan.SoonestFirst(a.soonest, b.soonest) }

func (s *soonest) add(group pendingGroup) {
	if s.full && soonerGroup(s.groups[mostPending-1], group) <= 0 {
		return
	}
	s.groups = append(s.groups, group)
	if len(s.groups) == 2*mostPending {
		s.cut()
	}
}

// cut keeps the soonest, sorted.
func (s *soonest) cut() []pendingGroup {
	slices.SortFunc(s.groups, soonerGroup)
	s.full = len(s.groups) >= mostPending
	s.groups = s.groups[:min(len(s.groups), mostPending)]
	return s.groups
}

func newPendingRow(group pendingGroup) pendingRow {
	pod := group.soonest
	row := pendingRow{
		ID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Node: pod.Node, Due: pod.Due.UnixMilli(),
		Taint: sentence.Printable(pod.Taint), Tolerated: tolerated(pod.Toleration), Priority: pod.Priority,
		HeldBy: sentence.Printable(pod.Answer.HeldBy()),
	}
	if row.HeldBy != "" && pod.Answer.LeavesAt != nil {
		row.Until = pod.Answer.LeavesAt.UnixMilli()
	}
	if pod.Owner != nil {
		row.Owner = sentence.Printable(pod.Owner.Kind + "/" + pod.Owner.Name)
	}
	if row.Pods = len(group.names); row.Pods > 0 {
		slices.Sort(group.names)
		row.Names, row.Some = strings.Join(group.names, " "), sentence.Some(group.names)
	}
	return row
}

// tolerated says how long a taint is tolerated.
func tolerated(toleration *corev1.Toleration) string {
	if toleration == nil || toleration.TolerationSeconds == nil {
		return "not tolerated"
	}
	return fmt.Sprintf("tolerated for %d s", *toleration.TolerationSeconds)
}

func (c *cluster) renderHead() {
	c.head.ID, c.head.Nodes, c.head.Tainted, c.head.Evictions = sheetHead, len(c.nodes), 0, c.evicted
	for node := range c.live.Nodes() {
		if len(node.Taints) > 0 {
			c.head.Tainted++
		}
	}
	c.head.NodesRead, c.head.PodsRead = c.wasRead(follow.Nodes), c.wasRead(follow.Pods)
	c.sheets.put(sheetHead, sheetHead, c.head)
}

// changesFor returns what a page has not received yet. It is encoded later, so that slow pages do not delay others.
func (c *cluster) changesFor(p *page) update {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sheets.changesFor(p, c.now().UnixMilli())
}
