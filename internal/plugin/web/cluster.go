// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/topology"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Instants of rows are in milliseconds since 1970 by the API server's clock.

// nodeRow is a node, with its pods that must leave, and those that were evicted and still exist. LastWrite is who last
// wrote its taints, if it has some. Held says why it waits for its NoExecute taint, in the words of the event.
type nodeRow struct {
	Name      string                   `json:"name"`
	Zone      string                   `json:"zone"`
	Ready     string                   `json:"ready"`
	Cordoned  bool                     `json:"cordoned,omitempty"`
	Taints    []taintRow               `json:"taints,omitempty"`
	LastWrite *cliv1alpha1.Write       `json:"lastWrite,omitempty"`
	Held      string                   `json:"held,omitempty"`
	Pods      []cliv1alpha1.PendingPod `json:"pods,omitempty"`
	Stuck     []stuckRow               `json:"stuck,omitempty"`
}

// stuckRow is a pod that was evicted and still exists. Waits says what it waits for.
type stuckRow struct {
	cliv1alpha1.StuckPod

	Waits string `json:"waits"`
}

// taintRow is a taint. Since is when it began to count if its effect is NoExecute.
type taintRow struct {
	Text  string `json:"text"`
	Since int64  `json:"since,omitempty"`
}

// zoneRow is a zone. Nodes are those that count for its state, and Why says what that means.
type zoneRow struct {
	Name     string          `json:"name"`
	Nodes    int             `json:"nodes"`
	NotReady int             `json:"notReady"`
	State    readiness.State `json:"state"`
	Why      string          `json:"why,omitempty"`
}

// evictionRow is an eviction. At is when the pod was deleted, and Due when it had to leave. Late is how many seconds At
// is after Due, to the second. If Due is not known, Unknown says why.
type evictionRow struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`
	At        int64     `json:"at"`
	Due       int64     `json:"due,omitempty"`
	Late      *int64    `json:"late,omitempty"`
	By        string    `json:"by"`
	Taint     string    `json:"taint,omitempty"`
	Unknown   string    `json:"unknown,omitempty"`
}

// differenceRow is what shadow mode found: whether the built-in evicted late, for example, and a sentence.
type differenceRow struct {
	UID      types.UID `json:"uid"`
	Node     string    `json:"node"`
	At       int64     `json:"at"`
	Kind     string    `json:"kind"`
	Sentence string    `json:"sentence"`
}

// SetNode implements follow.Cluster.
func (b *Board) SetNode(node *corev1.Node) {
	b.live.SetNode(node, b.config.Now())
	b.changed[node.Name] = true
}

// DeleteNode implements follow.Cluster.
func (b *Board) DeleteNode(name string) {
	b.live.DeleteNode(name)
	delete(b.held, name)
	b.changed[name] = true
}

// SetPod implements follow.Cluster.
func (b *Board) SetPod(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		b.evicted(pod)
	}
	b.live.SetPod(pod, b.config.Now())
	b.markChanged(pod)
}

// DeletePod implements follow.Cluster.
func (b *Board) DeletePod(uid types.UID, last *corev1.Pod) {
	if last != nil {
		b.evicted(last)
	}
	if pod := b.live.Pod(uid); pod != nil {
		b.markChanged(pod.Pod)
	}
	delete(b.counted, uid)
	b.live.DeletePod(uid)
}

// markChanged records that a pod of a node has changed, which matters if the node has NoExecute taints or the pod is
// terminating.
func (b *Board) markChanged(pod *corev1.Pod) {
	if node := b.live.Node(pod.Spec.NodeName); node != nil && (len(node.Taints) > 0 || pod.DeletionTimestamp != nil) {
		b.changed[node.Name] = true
	}
}

func (b *Board) markAllChanged() {
	for node := range b.live.Nodes() {
		b.changed[node.Name] = true
	}
}

func (b *Board) renderNode(name string, now time.Time) {
	node := b.live.Node(name)
	delete(b.pods, name)
	delete(b.again, name)
	if node == nil {
		b.rows.remove(tableNodes + name)
		return
	}
	row := nodeRow{
		Name: name, Zone: readiness.ZoneName(topology.GetZoneKey(node.Node)), Ready: string(corev1.ConditionUnknown),
		Cordoned: node.Spec.Unschedulable,
		Held:     b.held[name], Pods: b.pending.On(node, now),
	}
	if ready := readiness.Condition(node.Node, corev1.NodeReady); ready != nil {
		row.Ready = string(ready.Status)
	}
	slices.SortFunc(row.Pods, func(a, b cliv1alpha1.PendingPod) int { return a.Due.Compare(b.Due.Time) })
	if len(row.Pods) > 0 {
		b.pods[name] = row.Pods
	}
	for _, pod := range b.pending.StuckOn(node, now) {
		row.Stuck = append(row.Stuck, stuckRow{pod, state.Waits[pod.WaitsFor]})
	}
	for pod := range node.Pods() { // once its containers should have ended, a pod is stuck
		if until := pod.DeletionTimestamp; until != nil && until.After(now) {
			b.again[name] = instant.Next(b.again[name], until.Time)
		}
	}
	if len(node.Spec.Taints) > 0 {
		row.LastWrite = state.LastWriteOf(node.Node)
	}
	row.Taints = taintRows(node)
	b.rows.put(tableNodes+name, row)
}

// taintRows returns the taints of a node.
func taintRows(node *state.LiveNode) (rows []taintRow) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		is := taintRow{Text: taints.Format(*taint)}
		for _, counted := range node.Taints {
			if counted.MatchTaint(taint) {
				is.Since = counted.Since.UnixMilli()
			}
		}
		rows = append(rows, is)
	}
	return rows
}

// defaultPolicy follows from the default flags of kube-controller-manager and Taintkeeper. The board cannot see whether
// a cluster's controllers have other flags.
var defaultPolicy = readiness.Policy{
	Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
	LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
}

// zones counts nodes in their zones, and says which zones hold.
func (b *Board) zones() []zoneRow {
	zones := map[string]*zoneRow{}
	for node := range b.live.Nodes() {
		name := readiness.ZoneName(topology.GetZoneKey(node.Node))
		if zones[name] == nil {
			zones[name] = &zoneRow{Name: name}
		}
		if _, excluded := node.Labels[readiness.ExcludedFromDisruption]; excluded {
			continue
		}
		zones[name].Nodes++
		if !readiness.IsReady(node.Node) {
			zones[name].NotReady++
		}
	}
	full := 0
	for _, zone := range zones {
		zone.State = defaultPolicy.State(zone.Nodes, zone.NotReady)
		if zone.State == readiness.FullDisruption || zone.Nodes == 0 {
			full++
		}
	}
	rows := make([]zoneRow, 0, len(zones))
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		zones[name].Why = whyHeld(zones[name], full == len(zones))
		rows = append(rows, *zones[name])
	}
	return rows
}

// whyHeld says what the state of a zone means for its nodes that are not ready. everyZone means that all zones are in
// FullDisruption.
func whyHeld(zone *zoneRow, everyZone bool) string {
	counts := readiness.CountsOf(zone.NotReady, zone.Nodes)
	rate := defaultPolicy.RateOf(zone.State, zone.Nodes)
	switch {
	case zone.NotReady == 0:
		return ""
	case everyZone:
		return counts + ", as in every zone: the control plane is the more likely cause, and no node is tainted NoExecute"
	case rate == 0:
		return fmt.Sprintf("%s: with the default flags, no node is tainted NoExecute in a partially disrupted zone of %d nodes or fewer", counts, defaultPolicy.LargeZone)
	}
	return fmt.Sprintf("%s: one node is tainted NoExecute every %g s", counts, 1/rate)
}

// mostEvictions is how many evictions are listed, newest first. All evictions that the board saw are counted.
const mostEvictions = 200

// evicted records an eviction once, if a taint-based eviction set its condition before it deleted the pod.
func (b *Board) evicted(pod *corev1.Pod) {
	by := ""
	for i := range pod.Status.Conditions {
		switch v1alpha1.MarkerOf(&pod.Status.Conditions[i]) {
		case v1alpha1.NotMarked:
		case v1alpha1.MarkedByTaintkeeper:
			by = "Taintkeeper"
		case v1alpha1.MarkedByBuiltIn:
			by = "built-in"
		}
	}
	if by == "" || b.counted[pod.UID] {
		return
	}
	b.counted[pod.UID] = true
	b.head.Evicted++
	row := evictionRow{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, By: by,
		At: deletedAt(pod, b.config.Now()).UnixMilli(),
	}
	before, leaves := b.live.Leaving(pod.UID)
	switch decided := before.Verdict; {
	case before.LivePod == nil || before.DeletionTimestamp != nil:
		row.Unknown = "it was already leaving when the board first saw it"
	case leaves:
		row.Taint, row.Due = taints.Format(decided.Taint.Taint), decided.Due.UnixMilli()
		row.Late = new(time.UnixMilli(row.At).Unix() - decided.Due.Unix())
	default:
		row.Unknown = "its node no longer had the taint when the board saw the deletion"
	}
	b.head.Evictions = slices.Insert(b.head.Evictions[:min(len(b.head.Evictions), mostEvictions-1)], 0, row)
}

// deletedAt returns when the API server accepted the delete of a pod, which it records to the second. For a pod without
// a grace period, it is when the pod disappeared.
func deletedAt(pod *corev1.Pod, seen time.Time) time.Time {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen
	}
	return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// setReport takes the report of shadow mode. Another ConfigMap of this name has none.
func (b *Board) setReport(from *corev1.ConfigMap) {
	if from.Name == v1alpha1.ShadowConfigMap {
		b.report, _ = v1alpha1.ParseShadowReport(from)
	}
}

// renderReport lists what shadow mode has found, if it still runs.
func (b *Board) renderReport(now time.Time) {
	b.head.Differences, b.head.NoDifference = nil, "There is no report of shadow mode."
	switch {
	case b.report == nil:
		return
	case b.report.IsOld(now):
		b.head.NoDifference = "The report of shadow mode is from " + sentence.Between(b.report.Time.Time, now) +
			" ago, and nothing has written it since. kubectl taintkeeper status --report prints it."
		return
	}
	b.head.NoDifference = "Shadow mode has found no difference."
	for _, d := range b.report.Differences {
		b.head.Differences = append(b.head.Differences, differenceRow{
			d.UID, d.Node, d.Time.UnixMilli(), strings.ReplaceAll(string(d.Outcome), "_", " "),
			fmt.Sprintf("Pod %s/%s: %s.", d.Namespace, d.Pod, d.Sentence),
		})
	}
}

func (b *Board) setEvent(event *corev1.Event) {
	if event.InvolvedObject.Kind == "Node" && event.Reason == v1alpha1.EventNodeTaintHeld {
		b.waiting[event.UID] = event
	}
}

// renderHeld records for each node that waits for its taint why it does.
func (b *Board) renderHeld() {
	newest := map[string]*corev1.Event{}
	for _, event := range b.waiting {
		name := event.InvolvedObject.Name
		last := newest[name]
		if waits(b.live.Node(name)) && (last == nil || last.LastTimestamp.Before(&event.LastTimestamp)) {
			newest[name] = event
		}
	}
	for name := range b.held {
		if _, still := newest[name]; !still {
			delete(b.held, name)
			b.changed[name] = true
		}
	}
	for name, event := range newest {
		if b.held[name] != event.Message {
			b.held[name], b.changed[name] = event.Message, true
		}
	}
}

// waits reports whether a node is not ready, but has no NoExecute taint for that.
func waits(node *state.LiveNode) bool {
	if node == nil || node.Node == nil || readiness.IsReady(node.Node) {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoExecute &&
			(taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable)
	})
}
