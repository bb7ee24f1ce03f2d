// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"iter"
	"slices"
	"strings"
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

	t       *testing.T
	members map[string]*Member
	nodes   map[string]*corev1.Node
}

func newZones(t *testing.T) *zonesOf {
	t.Helper()
	return &zonesOf{NewZones(policy), t, map[string]*Member{}, map[string]*corev1.Node{}}
}

// begun returns zones that have counted nodes at noon.
func begun(t *testing.T, nodes ...*corev1.Node) *zonesOf {
	t.Helper()
	z := newZones(t)
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

func (z *zonesOf) wantToken(name string, seconds int, granted bool, wait time.Duration) {
	z.t.Helper()
	p, answer := z.plan(name, after(seconds))
	if p.Takes != granted || (answer.Wait-wait).Abs() > 10*time.Millisecond {
		z.t.Errorf("after %d s node %s has its token: %t, in %v; want %t, in %v", seconds, name, p.Takes, answer.Wait, granted, wait)
	}
}

// The names of these nodes begin with their zones. After all were counted, some of them are silent at noon.
func TestZones(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	for name, story := range map[string]struct {
		nodes, silent string
		then          func(z *zonesOf)
	}{
		"a zone gives tokens at its rate, in the order in which nodes ask": {
			"a1 a2 a3 a4 a5 a6 a7 b1", "a1 a2 a3 b1", func(z *zonesOf) {
				z.wantToken("a2", 0, true, 0)
				z.wantToken("a3", 0, false, 10*time.Second)
				z.wantToken("a1", 0, false, 0) // it is woken when it is next
				z.wantToken("b1", 0, true, 0)
				z.wantToken("a2", 5, true, 0) // a token lasts until the next one
				z.wantToken("a3", 4, false, 6*time.Second)
				if p, got := z.plan("a3", after(10)); !p.Takes || !slices.Equal(got.Next, []string{"a1"}) {
					z.t.Errorf("after 10 s: %+v, want the token for a3, and a1 next", got)
				}
				z.wantToken("a1", 10, false, 10*time.Second)
			},
		},
		"when a wait is over there is a token": {
			"a1 a2 a3 a4 a5 a6", "a1 a2", func(z *zonesOf) {
				z.wantToken("a1", 0, true, 0)
				_, answer := z.plan("a2", noon)
				if p, again := z.plan("a2", noon.Add(answer.Wait)); !p.Takes {
					z.t.Errorf("after %v it must wait for another %v", answer.Wait, again.Wait)
				}
			},
		},
		"a token is worth nothing once its zone gives none": {
			"a1 a2 a3 a4 a5 a6", "a1", func(z *zonesOf) {
				z.wantToken("a1", 0, true, 0)
				z.Count(standing(Silent, "a1", "a2", "a3", "a4"), after(1)) // a small zone in partial disruption
				z.wantToken("a1", 1, false, 0)
			},
		},
		"a node that was tainted with its token is counted": {
			"a1 a2 a3 a4 a5 a6", "a1 a2", func(z *zonesOf) {
				z.wantToken("a1", 0, true, 0)
				z.Used(z.members["a1"])
				z.Used(z.members["a2"])            // it has none
				z.Used(z.members["a3"])            // nor has this one
				z.Used(&Member{token: after(100)}) // it is no longer in a zone
				if got := z.All()[0].Tainted; got != 1 {
					z.t.Errorf("%d tokens were used, want 1", got)
				}
			},
		},
		// It waits for an echo, and is planned again when that comes.
		"an uncertain node keeps its token, and delays no other": {
			"a1 a2 a3 a4 a5 a6", "a1 a2 a3", func(z *zonesOf) {
				z.wantLine()
				unsure := func(name string) Answer {
					node := z.nodes[name].DeepCopy()
					Condition(node, corev1.NodeReady).Status = corev1.ConditionUnknown
					_, answer := z.Plan(z.members[name], Facts{Node: node, Now: after(1)}, after(1))
					return answer
				}
				if got := unsure("a2"); !slices.Equal(got.Next, []string{"a3"}) {
					z.t.Errorf("%q are next, want a3", got.Next)
				}
				unsure("a1")
				z.wantToken("a1", 2, true, 0)
			},
		},
		"a node that gives up its place makes the next one first": {
			"a1 a2 a3 a4 a5 a6", "a1 a2 a3", func(z *zonesOf) {
				z.wantLine()
				if _, answer := z.planAs("a2", corev1.ConditionTrue, noon); !slices.Equal(answer.Next, []string{"a3"}) {
					z.t.Errorf("%q are next, want a3", answer.Next)
				}
				z.wantToken("a3", 1, false, 9*time.Second)
			},
		},
		"a node that moves leaves its place to the next, and one that changes keeps it": {
			"a1 a2 a3 a4 a5 a6 b1", "a1 a2 a3", func(z *zonesOf) {
				z.wantLine()
				changed := z.nodes["a2"].DeepCopy()
				changed.Status.Conditions[0].Status = corev1.ConditionFalse
				if told := z.Put(changed, Silent, noon); len(told.Wake) != 0 {
					z.t.Errorf("a2 is not ready, and %q are woken", told.Wake)
				}
				moved := changed.DeepCopy()
				moved.Labels[corev1.LabelTopologyZone] = "b"
				if told := z.Put(moved, Silent, noon); !slices.Equal(told.Wake, []string{"a3"}) {
					z.t.Errorf("a2 has moved, and %q are woken, want a3", told.Wake)
				}
			},
		},
		"a node that is deleted while it is looked at blocks no other": {
			"a0 a1 a2 a3", "a0 a1", func(z *zonesOf) {
				z.wantToken("a0", 0, true, 0)
				z.Remove("a0", after(5))
				z.wantToken("a0", 5, false, 0)
				z.wantToken("a1", 6, false, 4*time.Second)
				z.wantToken("a1", 10, true, 0)
			},
		},
		"while every zone is disrupted no node has a token": {
			"a1 a2 b1", "", func(z *zonesOf) {
				told := z.Count(standing(Silent, "a1", "a2", "b1"), noon)
				if !z.AllDisrupted() || !told.Disrupted || !told.All {
					z.t.Errorf("all are disrupted: %t, and the news is %+v; want everybody to be told", z.AllDisrupted(), told)
				}
				if p, got := z.plan("a1", noon); p.Takes || got.Wait != 0 || !got.Held.AllZones {
					z.t.Errorf("the answer is %+v, want it to be held back for all zones", got)
				}
				told = z.Put(zoned("b1")[0], Heard, after(100))
				if z.AllDisrupted() || !told.Recovered || !told.All {
					z.t.Errorf("all are disrupted: %t, and the news is %+v; want everybody to be told of the recovery", z.AllDisrupted(), told)
				}
				z.wantToken("a1", 100, false, 3333*time.Millisecond) // at the rate of zones without a ready node, and not at once
			},
		},
		"doubtful nodes hold their zones back, but take no taints off": {
			"a1 b1", "", func(z *zonesOf) {
				z.Count(standing(Doubtful, "a1", "b1"), noon)
				if _, got := z.plan("a1", noon); z.AllDisrupted() || !got.Held.AllZones {
					z.t.Errorf("all are disrupted for certain: %t, and the answer is %+v; want it to be held back, and nothing certain", z.AllDisrupted(), got)
				}
				if z.Count(standing(Silent, "a1", "b1"), noon); !z.AllDisrupted() {
					z.t.Error("all are silent, and nothing is certain")
				}
			},
		},
		"zones without nodes play no part": {
			"a1 b1", "a1", func(z *zonesOf) {
				if told := z.Remove("b1", noon); !told.Disrupted {
					z.t.Errorf("the only zone that has nodes is disrupted, and the news is %+v", told)
				}
				if z.Remove("a1", noon); z.AllDisrupted() {
					z.t.Error("no zone has nodes, and all are disrupted")
				}
			},
		},
		"the object of a node may show that it is heard, and not that it is silent": {
			"a1 a2", "", func(z *zonesOf) {
				if z.Put(z.nodes["a1"], Silent, noon); z.members["a1"].Silent() {
					z.t.Error("a node became silent without a count of all")
				}
				z.Count(standing(Silent, "a1"), noon)
				if z.Put(z.nodes["a1"], Heard, noon); z.members["a1"].Silent() {
					z.t.Error("a node that is heard is silent")
				}
			},
		},
		"a node that moves or goes counts where it is": {
			"a1 a2 b1", "a1", func(z *zonesOf) {
				moved := z.nodes["a1"].DeepCopy()
				moved.Labels[corev1.LabelTopologyZone] = "b"
				z.Put(moved, Silent, noon)
				z.Remove("a2", noon)
				got := map[string][2]int{}
				for _, at := range z.All() {
					got[at.Name] = [2]int{at.Size, at.NotReady}
				}
				if got["/a"] != [2]int{0, 0} || got["/b"] != [2]int{2, 1} {
					z.t.Errorf("nodes and those that are not ready are %v, want none in zone a, and two in zone b of which one is not ready", got)
				}
			},
		},
		"which zones change their state is news": {
			"a1 a2 b1", "", func(z *zonesOf) {
				told := z.Count(standing(Silent, "a1", "a2"), noon)
				if len(told.States) != 1 || told.States[0].Name != "/a" || told.States[0].State != FullDisruption || told.States[0].Before != Normal {
					z.t.Errorf("the changes are %+v, want zone a to be fully disrupted", told.States)
				}
			},
		},
		"a count that changes nothing is not news": {
			"a1 a2 b1", "", func(z *zonesOf) {
				for _, silent := range []map[string]Standing{nil, standing(Silent, "a1"), standing(Silent, "a1", "a2", "b1")} {
					z.Count(silent, noon)
					if told := z.Count(silent, noon); told.All || told.Disrupted || told.Recovered || len(told.Wake)+len(told.States) != 0 {
						z.t.Errorf("%v are counted again, and the news is %+v", silent, told)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			z := begun(t, zoned(strings.Fields(story.nodes)...)...)
			z.Count(standing(Silent, strings.Fields(story.silent)...), noon)
			story.then(z)
		})
	}
}

// wantLine wants a1 to get a token, and a2 and a3 to wait in line.
func (z *zonesOf) wantLine() {
	z.t.Helper()
	z.wantToken("a1", 0, true, 0)
	z.wantToken("a2", 0, false, 10*time.Second)
	z.wantToken("a3", 0, false, 0)
}

// The list of all nodes is read first, and the watch continues.
func TestChangesSinceTheListOfNodesStayWhenStatesAreFirstDerived(t *testing.T) {
	z := newZones(t)
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
	if got := z.All(); len(got) != 1 || got[0].Rate != 0 {
		t.Errorf("the zone of a standby is %+v, want a rate of 0", got)
	}
	z.Begin(listed, verdict.SeenAt(noon).Sight)
	if got := z.All(); len(got) != 1 || got[0].Size != 2 || got[0].NotReady != 1 || got[0].Rate != policy.Rate {
		t.Errorf("the zone is %+v, want one of two nodes not ready, and a rate of %v", got, policy.Rate)
	}
}

// timeAdded is a time of the API server's clock, and cannot be compared with times of this process's clock.
func TestThatNodesAreTaintedTellsARestartOfTheLatestToken(t *testing.T) {
	for _, ahead := range []time.Duration{0, -30 * time.Second, 30 * time.Second} {
		nodes, server := zoned("a1", "a2", "a3", "a4", "a5", "a6"), noon.Add(ahead)
		nodes[0].Spec.Taints = []corev1.Taint{
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: server.Add(-4 * time.Second)}},
			{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
			{Key: "team", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: server.Add(-time.Second)}}, // of another client
		}
		z := begun(t, zoned("b1")...)
		for _, node := range nodes {
			z.Put(node, Heard, noon)
		}
		z.Begin(nodes, verdict.Sight{At: noon, Earliest: server, Latest: server, Behind: server})
		z.Count(standing(Silent, "a2"), noon)
		z.wantToken("a2", 0, false, 6*time.Second)
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
