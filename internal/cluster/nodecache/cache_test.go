// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func samePointer(a, b *Node) bool { return a == b }

func TestAChangeIsReportedOnceWithTheRecordsBeforeAndAfter(t *testing.T) {
	tests := []struct {
		name string
		edit edit
	}{
		{"another version and nothing else", withVersion("8")},
		{"a heartbeat", heartbeat(created.Add(time.Minute))},
		{"a taint", withTaints(noExecute("off"))},
		{"labels", withLabels(map[string]string{"zone": "b"})},
		{"it is cordoned", func(node *corev1.Node) { node.Spec.Unschedulable = true }},
		{"it is recreated", withUID("newer")},
		{"it is being deleted", func(node *corev1.Node) { node.DeletionTimestamp = &created }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			await.Must(t, listed(c, newNode("n", withVersion("7")), newNode("neighbor")))
			before := get(t, c, "n")
			asItWas := *before
			notes := watching(c)
			await.Must(t, c.Store().Update(newNode("n", withVersion("7"), test.edit)))
			want := []Change{{Before: before, After: get(t, c, "n")}}
			if diff := cmp.Diff(want, notes.Take(), cmp.Comparer(samePointer)); diff != "" {
				t.Errorf("told something else (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(asItWas, *before); diff != "" {
				t.Errorf("the old record was modified (-before +after):\n%s", diff)
			}
			checkNames(t, c, "n", "neighbor")
		})
	}
}

func TestChangesWithoutNewsAreNotReported(t *testing.T) {
	c := newCache()
	await.Must(t, listed(c, newNode("n", withVersion("7"), withTaints(noExecute("off")))))
	before := get(t, c, "n")
	notes := watching(c)
	again := newNode("n", withVersion("7"), withTaints(noExecute("off")), func(node *corev1.Node) {
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"nothing.example.com/that/is:kept"}}}
	})
	await.Must(t, c.Store().Update(again))
	await.Must(t, listed(c, again))
	await.Must(t, c.Store().Resync())
	if got := notes.Take(); got != nil {
		t.Errorf("told %v, want nothing", got)
	}
	if get(t, c, "n") != before {
		t.Error("another record, want the same pointer")
	}
}

func TestARecordHasWhatIsReadAndNothingElse(t *testing.T) {
	full := newNode("n", withVersion("7"), withTaints(corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}))
	full.DeletionTimestamp = &created
	full.Spec.Unschedulable = true
	full.Status.Conditions[0].Reason = "KubeletReady"
	want := full.DeepCopy()
	full.Annotations = map[string]string{"other": "y"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Spec.PodCIDR = "10.0.0.0/24"
	full.Status.Conditions[0].Message = "told"
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example.com/shop/api:1.48.2"}}}
	full.Status.NodeInfo.KernelVersion = "6.12"
	c := newCache()
	await.Must(t, c.Store().Add(full))
	if diff := cmp.Diff(want, get(t, c, "n").Node, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("kept something else (-want +got):\n%s", diff)
	}
}

func TestOnlyAListCanMissVersionsInBetween(t *testing.T) {
	tests := []struct {
		name  string
		event func(c *Cache) error
		want  bool
	}{
		{"an update of the watch", func(c *Cache) error { return c.Store().Update(newNode("n", withVersion("8"))) }, false},
		{"a list that shows another version", func(c *Cache) error { return listed(c, newNode("n", withVersion("8"))) }, true},
		{"a list that shows another node with the name", func(c *Cache) error {
			return listed(c, newNode("n", withVersion("8"), withUID("newer")))
		}, true},
		{"the watch after a list that shows the same version", func(c *Cache) error {
			await.Must(t, listed(c, newNode("n", withVersion("7"))))
			return c.Store().Update(newNode("n", withVersion("8")))
		}, false},
		{"an update while a list goes on that has shown the node", func(c *Cache) error {
			c.Store().BeginList()
			await.Must(t, c.Store().Update(newNode("n", withVersion("7"))))
			return c.Store().Update(newNode("n", withVersion("8")))
		}, false},
		{"a list after one that broke off", func(c *Cache) error {
			c.Store().BeginList()
			await.Must(t, c.Store().Update(newNode("n", withVersion("7"))))
			c.Store().BeginList()
			return c.Store().Update(newNode("n", withVersion("8")))
		}, true},
		{"a node that came back while a list went on", func(c *Cache) error {
			c.Store().BeginList()
			await.Must(t, c.Store().Delete(newNode("n")))
			return c.Store().Update(newNode("n", withVersion("8")))
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			await.Must(t, listed(c, newNode("n", withVersion("7"))))
			notes := watching(c)
			await.Must(t, test.event(c))
			told := notes.Take()
			if last := told[len(told)-1]; last.Gap != test.want {
				t.Errorf("a gap: %t, want %t", last.Gap, test.want)
			}
		})
	}
}

func TestATaintCountsFromItsFirstSightUntilItsValueChangesOrAGapHidesIt(t *testing.T) {
	stamped := noExecute("off")
	stamped.TimeAdded = &created
	other := noExecute("off")
	other.Value = "other"
	tests := []struct {
		name  string
		event func(c *Cache) error
		again bool
	}{
		{"a heartbeat", func(c *Cache) error {
			return c.Store().Update(newNode("n", withVersion("8"), withTaints(noExecute("off"))))
		}, false},
		{"a taint next to it", func(c *Cache) error {
			return c.Store().Update(newNode("n", withVersion("8"), withTaints(noExecute("other"), noExecute("off"))))
		}, false},
		{"a list that shows the same version", func(c *Cache) error {
			return listed(c, newNode("n", withVersion("7"), withTaints(noExecute("off"))))
		}, false},
		{"a list that shows another version", func(c *Cache) error {
			return listed(c, newNode("n", withVersion("8"), withTaints(noExecute("off"))))
		}, true},
		{"its timeAdded is written", func(c *Cache) error {
			return c.Store().Update(newNode("n", withVersion("8"), withTaints(stamped)))
		}, false},
		{"it has another value", func(c *Cache) error {
			return c.Store().Update(newNode("n", withVersion("8"), withTaints(other)))
		}, true},
		{"it is taken off and set again", func(c *Cache) error {
			await.Must(t, c.Store().Update(newNode("n", withVersion("8"))))
			return c.Store().Update(newNode("n", withVersion("9"), withTaints(noExecute("off"))))
		}, true},
		{"the node is recreated", func(c *Cache) error {
			return c.Store().Update(newNode("n", withVersion("8"), withUID("newer"), withTaints(noExecute("off"))))
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache()
				want := time.Now()
				await.Must(t, listed(c, newNode("n", withVersion("7"), withTaints(noExecute("off")))))
				bubble.Pass(time.Hour)
				await.Must(t, test.event(c))
				if test.again {
					want = time.Now()
				}
				bubble.Pass(time.Hour)
				if got := since(t, c, "n", "off"); !got.Equal(want) {
					t.Errorf("counts from %s, want %s", got, want)
				}
			})
		})
	}
}

func TestOnlyTaintsThatMakePodsLeaveHaveAHistory(t *testing.T) {
	c := newCache()
	await.Must(t, c.Store().Add(newNode("n", withTaints(corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, noExecute("off")))))
	if got := get(t, c, "n"); len(got.NoExecute) != 1 || got.NoExecute[0].Key != "off" || len(got.Spec.Taints) != 2 {
		t.Errorf("taints %v, NoExecute %v", got.Spec.Taints, got.NoExecute)
	}
}

func TestATaintWithoutTimeAddedContinuesOverAGapIfNoneIsEverWritten(t *testing.T) {
	for name, test := range map[string]struct {
		never  bool
		change func(c *Cache)
		goesOn bool
	}{
		"written":                {goesOn: false},
		"never written":          {never: true, goesOn: true},
		"refused":                {change: func(c *Cache) { c.SetUnstampable("n", true) }, goesOn: true},
		"refused and taken back": {change: func(c *Cache) { c.SetUnstampable("n", true); c.SetUnstampable("n", false) }},
		"refused for a node with that name that is gone": {change: func(c *Cache) {
			c.SetUnstampable("n", true)
			await.Must(t, c.Store().Delete(newNode("n")))
			await.Must(t, c.Store().Add(newNode("n", withVersion("7"), withTaints(noExecute("off")))))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, began := New(Config{Clock: &timeline.Clock{}, NeverStamped: test.never}), time.Now()
				await.Must(t, listed(c, newNode("n", withVersion("7"), withTaints(noExecute("off")))))
				if test.change != nil {
					test.change(c)
				}
				bubble.Pass(time.Hour)
				await.Must(t, listed(c, newNode("n", withVersion("8"), withTaints(noExecute("off")))))
				if got := since(t, c, "n", "off").Equal(began); got != test.goesOn {
					t.Errorf("it goes on: %t, want %t", got, test.goesOn)
				}
			})
		})
	}
}

func TestTheCacheHasSyncedWhenSubscribersHaveTheFirstList(t *testing.T) {
	c := newCache()
	if c.Name() == "" {
		t.Error("the error does not say what the cache waits for")
	}
	var initial []bool
	c.Subscribe(func(change Change) {
		initial = append(initial, change.Initial)
		if change.Initial == c.HasSynced() {
			t.Errorf("initial: %t, synced: %t", change.Initial, c.HasSynced())
		}
	})
	c.Store().BeginList()
	await.Must(t, c.Store().Update(newNode("a")))
	if c.HasSynced() {
		t.Error("synced before the first list is complete")
	}
	await.Must(t, c.Store().Replace(nil, ""))
	select {
	case <-c.Done():
	default:
		t.Error("not synced after the first list")
	}
	await.Must(t, c.Store().Update(newNode("b")))
	await.Must(t, listed(c, newNode("c")))
	if got, want := fmt.Sprint(initial), "[true false false false false]"; got != want {
		t.Errorf("initial were %s of the changes, want %s", got, want)
	}
}

func TestALateSubscriberGetsTheExistingRecords(t *testing.T) {
	c := newCache()
	await.Must(t, listed(c, newNode("a"), newNode("b")))
	told := map[string]Change{}
	c.Subscribe(func(change Change) { told[change.After.Name] = change })
	want := map[string]Change{"a": {After: get(t, c, "a"), Initial: true}, "b": {After: get(t, c, "b"), Initial: true}}
	if diff := cmp.Diff(want, told, cmp.Comparer(samePointer)); diff != "" {
		t.Errorf("told something else (-want +got):\n%s", diff)
	}
}

func TestTheInstantOfAListIsThatOfItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache()
		want := time.Now()
		c.Store().BeginList()
		bubble.Pass(time.Minute)
		await.Must(t, c.Store().Replace(nil, ""))
		if got := c.Listed(); !got.Equal(want) {
			t.Errorf("listed at %s, want %s", got, want)
		}
	})
}

func TestTheStringsOfLabelsAreSharedAndReleased(t *testing.T) {
	c := newCache()
	await.Must(t, listed(c, newNode("a"), newNode("b")))
	checkNames(t, c, "a", "b")
	if got := len(c.nodes.strings); got != 3 {
		t.Errorf("%d strings are kept, want 3: two keys and the zone", got)
	}
	labels := get(t, c, "a").Labels
	await.Must(t, c.Store().Update(newNode("a", withVersion("8"))))
	labels["same"] = "map"
	if get(t, c, "a").Labels["same"] != "map" {
		t.Error("equal labels of one node are kept twice")
	}
	delete(labels, "same")
	await.Must(t, c.Store().Update(newNode("a", withLabels(map[string]string{"other": "b"}))))
	checkNames(t, c, "a", "b")
	await.Must(t, listed(c))
	checkNames(t, c)
}

// The notifications, taken together, result in what the cache shows, whatever happens and in whatever order.
func TestTheNotificationsAddUpToTheCache(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	c := newCache()
	told := map[string]*Node{}
	c.Subscribe(func(change Change) {
		node := change.After
		if node == nil {
			node = change.Before
		}
		if told[node.Name] != change.Before {
			t.Errorf("told of a change of %s from a record that was not the last one", node.Name)
		}
		if told[node.Name] = change.After; change.After == nil {
			delete(told, node.Name)
		}
	})
	for range 5000 {
		await.Must(t, somethingHappens(random, c))
		checkShared(t, c)
		kept := map[string]*Node{}
		for _, node := range c.All() {
			kept[node.Name] = node
		}
		if diff := cmp.Diff(told, kept, cmp.Comparer(samePointer)); diff != "" {
			t.Fatalf("the notifications add up to something else (-told +kept):\n%s", diff)
		}
	}
	await.Must(t, listed(c))
	checkNames(t, c)
}

func somethingHappens(random *rand.Rand, c *Cache) error {
	switch random.IntN(20) {
	case 0:
		var list []*corev1.Node
		for range random.IntN(12) {
			list = append(list, randomNode(random))
		}
		return listed(c, list...)
	case 1: // a list that breaks off
		c.Store().BeginList()
		return c.Store().Update(randomNode(random))
	case 2, 3, 4:
		return c.Store().Delete(randomNode(random))
	}
	return c.Store().Update(randomNode(random))
}

func withReason(reason string) edit {
	return func(node *corev1.Node) { node.Status.Conditions[0].Reason = reason }
}

func randomNode(random *rand.Rand) *corev1.Node {
	some := []edit{
		withVersion("8"), withUID("newer"), withTaints(noExecute("off")), withLabels(nil), withReason("n1"), withReason("Hung"),
		withLabels(map[string]string{"n1": "n2", "n2": "n1"}), withLabels(map[string]string{"n1": "n1"}),
	}
	node := newNode(fmt.Sprint("n", random.IntN(12)))
	for range random.IntN(3) {
		some[random.IntN(len(some))](node)
	}
	return node
}
