// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// zoned returns ready nodes of these names. The first letter of a name is the node's zone.
func zoned(names ...string) []*corev1.Node {
	var nodes []*corev1.Node
	for _, name := range names {
		node := readyNode(name)
		node.Labels = map[string]string{corev1.LabelTopologyZone: name[:1]}
		nodes = append(nodes, node)
	}
	return nodes
}

// zonesOf are zones and their nodes, by name.
type zonesOf struct {
	*Zones

	members map[string]*Member
	nodes   map[string]*corev1.Node
}

func newZones() *zonesOf {
	return &zonesOf{NewZones(policy), map[string]*Member{}, map[string]*corev1.Node{}}
}

// begun returns zones that have counted nodes at noon.
func begun(nodes ...*corev1.Node) *zonesOf {
	z := newZones()
	for _, node := range nodes {
		z.Put(node, Heard, noon)
	}
	z.Begin(nodes, verdict.SeenAt(noon).Sight)
	return z
}

func (z *zonesOf) Put(node *corev1.Node, is Standing, now time.Time) News {
	if z.members[node.Name] == nil {
		z.members[node.Name] = &Member{Name: node.Name}
	}
	z.nodes[node.Name] = node
	return z.Zones.Put(z.members[node.Name], node, is, now)
}

func (z *zonesOf) Remove(name string, now time.Time) News {
	return z.Zones.Remove(z.members[name], now)
}

func (z *zonesOf) Begin(nodes []*corev1.Node, seen verdict.Sight) News {
	return z.Zones.Begin(nodes, z.all(nil), seen)
}

func (z *zonesOf) Count(unheard map[string]Standing, now time.Time) News {
	return z.Zones.Count(z.all(unheard), now)
}

func (z *zonesOf) all(unheard map[string]Standing) iter.Seq2[*Member, Standing] {
	return func(yield func(*Member, Standing) bool) {
		for name, m := range z.members {
			if !yield(m, unheard[name]) {
				return
			}
		}
	}
}

// plan plans for a node whose conditions are Unknown, so that it needs a token.
func (z *zonesOf) plan(name string, now time.Time) (Plan, Answer) {
	return z.planAs(name, corev1.ConditionUnknown, now)
}

// givesUp plans for a node that is ready after all, and returns who is next.
func (z *zonesOf) givesUp(name string) []string {
	_, answer := z.planAs(name, corev1.ConditionTrue, noon)
	return answer.Next
}

func (z *zonesOf) planAs(name string, ready corev1.ConditionStatus, now time.Time) (Plan, Answer) {
	node := z.nodes[name].DeepCopy()
	Condition(node, corev1.NodeReady).Status = ready
	node.Spec.Taints = nil
	return z.Plan(z.members[name], Facts{Node: node, Fresh: true, Now: now}, now)
}

// standing is the count of nodes that are all silent, or all doubtful.
func standing(is Standing, names ...string) map[string]Standing {
	all := map[string]Standing{}
	for _, name := range names {
		all[name] = is
	}
	return all
}

func (z *zonesOf) wantToken(t *testing.T, name string, seconds int, granted bool, wait time.Duration) {
	t.Helper()
	p, answer := z.plan(name, after(seconds))
	if p.Takes != granted || (answer.Wait-wait).Abs() > 10*time.Millisecond {
		t.Errorf("after %d s node %s has its token: %t, in %v; want %t, in %v", seconds, name, p.Takes, answer.Wait, granted, wait)
	}
}

// Nodes without zone labels are in a zone without a name. A node that is no longer known must not count as one of them.
func TestANodeThatIsDeletedWhileItIsLookedAtBlocksNoOther(t *testing.T) {
	z := begun(readyNode("gone"), readyNode("n1"), readyNode("n2"), readyNode("n3"))
	z.Count(standing(Silent, "gone", "n1"), noon)
	z.wantToken(t, "gone", 0, true, 0)
	z.Remove("gone", after(5))
	z.wantToken(t, "gone", 5, false, 0)
	z.wantToken(t, "n1", 6, false, 4*time.Second)
	z.wantToken(t, "n1", 10, true, 0)
}

// The list of all nodes is read first, and the watch continues.
func TestChangesSinceTheListOfNodesStayWhenStatesAreFirstDerived(t *testing.T) {
	z := newZones()
	listed := zoned("a1", "a2", "a3", "a4", "a5")
	for _, node := range listed {
		z.Put(node, Heard, noon)
	}
	for _, gone := range []string{"a1", "a2", "a3"} {
		z.Remove(gone, noon)
	}
	failed := listed[3].DeepCopy()
	failed.Status.Conditions[0].Status = corev1.ConditionFalse
	z.Put(failed, Heard, noon)
	z.Begin(listed, verdict.SeenAt(noon).Sight)
	if got := z.All(); len(got) != 1 || got[0].Size != 2 || got[0].NotReady != 1 {
		t.Errorf("the zone is %+v, want one of two nodes not ready", got)
	}
}

func TestAZoneHasNoRateUntilAReplicaLeads(t *testing.T) {
	z := newZones()
	listed := zoned("a1")
	z.Put(listed[0], Heard, noon)
	if got := z.All(); len(got) != 1 || got[0].Rate != 0 {
		t.Errorf("the zone of a standby is %+v, want a rate of 0", got)
	}
	z.Begin(listed, verdict.SeenAt(noon).Sight)
	if got := z.All(); len(got) != 1 || got[0].Rate != policy.Rate {
		t.Errorf("the zone is %+v, want a rate of %v", got, policy.Rate)
	}
}

func TestAZoneGivesTokensAtItsRateInTheOrderInWhichNodesAsk(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6", "a7", "b1")...)
	z.Count(standing(Silent, "a1", "a2", "a3", "b1"), noon)
	z.wantToken(t, "a2", 0, true, 0)
	z.wantToken(t, "a3", 0, false, 10*time.Second)
	z.wantToken(t, "a1", 0, false, 0) // it is woken when it is next
	z.wantToken(t, "b1", 0, true, 0)
	z.wantToken(t, "a2", 5, true, 0) // a token lasts until the next one
	z.wantToken(t, "a3", 4, false, 6*time.Second)
	if p, got := z.plan("a3", after(10)); !p.Takes || !slices.Equal(got.Next, []string{"a1"}) {
		t.Errorf("after 10 s: %+v, want the token for a3, and a1 next", got)
	}
	z.wantToken(t, "a1", 10, false, 10*time.Second)
}

func TestWhenAWaitIsOverThereIsAToken(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6")...)
	z.Count(standing(Silent, "a1", "a2"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	_, answer := z.plan("a2", noon)
	if p, again := z.plan("a2", noon.Add(answer.Wait)); !p.Takes {
		t.Errorf("after %v it must wait for another %v", answer.Wait, again.Wait)
	}
}

func TestATokenIsWorthNothingOnceItsZoneGivesNone(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6")...)
	z.Count(standing(Silent, "a1"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	z.Count(standing(Silent, "a1", "a2", "a3", "a4"), after(1)) // a small zone in partial disruption
	z.wantToken(t, "a1", 1, false, 0)
}

func TestANodeThatWasTaintedWithItsTokenIsCounted(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6")...)
	z.Count(standing(Silent, "a1", "a2"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	z.Used(z.members["a1"])
	z.Used(z.members["a2"])            // it has none
	z.Used(z.members["a3"])            // nor has this one
	z.Used(&Member{token: after(100)}) // it is no longer in a zone
	if got := z.All()[0].Tainted; got != 1 {
		t.Errorf("%d tokens were used, want 1", got)
	}
}

// A node that waits for an echo is planned again when it comes.
func TestAnUncertainNodeKeepsItsTokenAndDelaysNoOther(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6")...)
	z.Count(standing(Silent, "a1", "a2", "a3"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	z.wantToken(t, "a2", 0, false, 10*time.Second)
	z.wantToken(t, "a3", 0, false, 0)
	unsure := func(name string) Answer {
		node := z.nodes[name].DeepCopy()
		Condition(node, corev1.NodeReady).Status = corev1.ConditionUnknown
		_, answer := z.Plan(z.members[name], Facts{Node: node, Now: after(1)}, after(1))
		return answer
	}
	if got := unsure("a2"); !slices.Equal(got.Next, []string{"a3"}) {
		t.Errorf("%q are next, want a3", got.Next)
	}
	unsure("a1")
	z.wantToken(t, "a1", 2, true, 0)
}

func TestWhoeverGivesUpItsPlaceMakesTheNextOneFirst(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6")...)
	z.Count(standing(Silent, "a1", "a2", "a3"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	z.wantToken(t, "a2", 0, false, 10*time.Second)
	z.wantToken(t, "a3", 0, false, 0)
	if next := z.givesUp("a2"); !slices.Equal(next, []string{"a3"}) {
		t.Errorf("%q are next, want a3", next)
	}
	z.wantToken(t, "a3", 1, false, 9*time.Second)
}

func TestWhileEveryZoneIsDisruptedNoNodeHasAToken(t *testing.T) {
	z := begun(zoned("a1", "a2", "b1")...)
	told := z.Count(standing(Silent, "a1", "a2", "b1"), noon)
	if !z.AllDisrupted() || !told.Disrupted || !told.All {
		t.Errorf("all are disrupted: %t, and the news is %+v; want everybody to be told", z.AllDisrupted(), told)
	}
	if p, got := z.plan("a1", noon); p.Takes || got.Wait != 0 || !got.Held.AllZones {
		t.Errorf("the answer is %+v, want it to be held back for all zones", got)
	}
	told = z.Put(zoned("b1")[0], Heard, after(100))
	if z.AllDisrupted() || !told.Recovered || !told.All {
		t.Errorf("all are disrupted: %t, and the news is %+v; want everybody to be told of the recovery", z.AllDisrupted(), told)
	}
	z.wantToken(t, "a1", 100, false, 3333*time.Millisecond) // at the rate of zones without a ready node, and not at once
}

func TestDoubtfulNodesHoldTheirZonesBackButTakeNoTaintsOff(t *testing.T) {
	z := begun(zoned("a1", "b1")...)
	z.Count(standing(Doubtful, "a1", "b1"), noon)
	if _, got := z.plan("a1", noon); z.AllDisrupted() || !got.Held.AllZones {
		t.Errorf("all are disrupted for certain: %t, and the answer is %+v; want it to be held back, and nothing certain", z.AllDisrupted(), got)
	}
	if z.Count(standing(Silent, "a1", "b1"), noon); !z.AllDisrupted() {
		t.Error("all are silent, and nothing is certain")
	}
}

func TestTheObjectOfANodeMayShowThatItIsHeardAndNotThatItIsSilent(t *testing.T) {
	nodes := zoned("a1", "a2")
	z := begun(nodes...)
	if z.Put(nodes[0], Silent, noon); z.members["a1"].Silent() {
		t.Error("a node became silent without a count of all")
	}
	z.Count(standing(Silent, "a1"), noon)
	if z.Put(nodes[0], Heard, noon); z.members["a1"].Silent() {
		t.Error("a node that is heard is silent")
	}
}

func TestThatNodesAreTaintedTellsARestartOfTheLatestToken(t *testing.T) {
	nodes := zoned("a1", "a2", "a3", "a4", "a5", "a6")
	nodes[0].Spec.Taints = []corev1.Taint{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: after(-4)}},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: "team", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: after(-1)}}, // of another client
	}
	z := begun(nodes...)
	z.Count(standing(Silent, "a2"), noon)
	z.wantToken(t, "a2", 0, false, 6*time.Second)
}

func TestANodeThatMovesOrGoesCountsWhereItIs(t *testing.T) {
	nodes := zoned("a1", "a2", "b1")
	z := begun(nodes...)
	z.Count(standing(Silent, "a1"), noon)
	moved := nodes[0].DeepCopy()
	moved.Labels[corev1.LabelTopologyZone] = "b"
	z.Put(moved, Silent, noon)
	z.Remove("a2", noon)
	got := map[string][2]int{}
	for _, at := range z.All() {
		got[at.Name] = [2]int{at.Size, at.NotReady}
	}
	if got["/a"] != [2]int{0, 0} || got["/b"] != [2]int{2, 1} {
		t.Errorf("nodes and those that are not ready are %v, want none in zone a, and two in zone b of which one is not ready", got)
	}
}

// timeAdded is a time of the API server's clock, and cannot be compared with times of this process's clock.
func TestTheLatestTokenIsDatedByTheAPIServersClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, -30 * time.Second, 30 * time.Second} {
		nodes, server := zoned("a1", "a2", "a3", "a4", "a5", "a6"), noon.Add(ahead)
		nodes[0].Spec.Taints = []corev1.Taint{{
			Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: server.Add(-4 * time.Second)},
		}}
		z := begun(zoned("b1")...)
		for _, node := range nodes {
			z.Put(node, Heard, noon)
		}
		z.Begin(nodes, verdict.Sight{At: noon, Earliest: server, Latest: server, Behind: server})
		z.Count(standing(Silent, "a2"), noon)
		z.wantToken(t, "a2", 0, false, 6*time.Second)
	}
}

func TestANodeThatMovesLeavesItsPlaceToTheNextAndOneThatChangesKeepsIt(t *testing.T) {
	z := begun(zoned("a1", "a2", "a3", "a4", "a5", "a6", "b1")...)
	z.Count(standing(Silent, "a1", "a2", "a3"), noon)
	z.wantToken(t, "a1", 0, true, 0)
	z.wantToken(t, "a2", 0, false, 10*time.Second)
	z.wantToken(t, "a3", 0, false, 0)
	changed := z.nodes["a2"].DeepCopy()
	changed.Status.Conditions[0].Status = corev1.ConditionFalse
	if told := z.Put(changed, Silent, noon); len(told.Wake) != 0 {
		t.Errorf("a2 is not ready, and %q are woken", told.Wake)
	}
	moved := changed.DeepCopy()
	moved.Labels[corev1.LabelTopologyZone] = "b"
	if told := z.Put(moved, Silent, noon); !slices.Equal(told.Wake, []string{"a3"}) {
		t.Errorf("a2 has moved, and %q are woken, want a3", told.Wake)
	}
}

func TestACountThatChangesNothingIsNotNews(t *testing.T) {
	z := begun(zoned("a1", "a2", "b1")...)
	for _, silent := range []map[string]Standing{nil, standing(Silent, "a1"), standing(Silent, "a1", "a2", "b1")} {
		z.Count(silent, noon)
		if told := z.Count(silent, noon); told.All || told.Disrupted || told.Recovered || len(told.Wake)+len(told.States) != 0 {
			t.Errorf("%v are counted again, and the news is %+v", silent, told)
		}
	}
}

func TestWhichZonesChangeTheirStateIsNews(t *testing.T) {
	z := begun(zoned("a1", "a2", "b1")...)
	told := z.Count(standing(Silent, "a1", "a2"), noon)
	if len(told.States) != 1 || told.States[0].Name != "/a" || told.States[0].State != FullDisruption || told.States[0].Before != Normal {
		t.Errorf("the changes are %+v, want zone a to be fully disrupted", told.States)
	}
}

func TestZonesWithoutNodesPlayNoPart(t *testing.T) {
	z := begun(zoned("a1", "b1")...)
	z.Count(standing(Silent, "a1"), noon)
	if told := z.Remove("b1", noon); !told.Disrupted {
		t.Errorf("the only zone that has nodes is disrupted, and the news is %+v", told)
	}
	if z.Remove("a1", noon); z.AllDisrupted() {
		t.Error("no zone has nodes, and all are disrupted")
	}
}

func TestJoinedNewsHasAllOfBoth(t *testing.T) {
	for _, one := range []News{
		{All: true}, {Disrupted: true}, {Recovered: true}, {Wake: []string{"a"}}, {States: []StateChange{{Before: Normal}}},
	} {
		left, right := one, News{}
		left.Join(News{})
		right.Join(one)
		if diff := cmp.Diff(one, left) + cmp.Diff(one, right); diff != "" {
			t.Errorf("joined with no news, it is other news:\n%s", diff)
		}
	}
}
