// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestOnlyBoundPodsAreKept(t *testing.T) {
	tests := []struct {
		name string
		do   func(c *Cache) error
		want []string
	}{
		{"a bound pod is added", func(c *Cache) error { return c.Store().Add(newPod("a")) }, []string{"a"}},
		{"a pod without a node is added", func(c *Cache) error { return c.Store().Add(newPod("a", onNode(""))) }, nil},
		{"a pod without a node is updated", func(c *Cache) error { return c.Store().Update(newPod("a", onNode(""))) }, nil},
		{"a pod without a node is deleted", func(c *Cache) error { return c.Store().Delete(newPod("a", onNode(""))) }, nil},
		{"a list has some of both", func(c *Cache) error {
			return listed(c, newPod("a"), newPod("b", onNode("")), newPod("c"))
		}, []string{"a", "c"}},
		{"a pod is bound later", func(c *Cache) error {
			await.Must(t, c.Store().Add(newPod("a", onNode(""))))
			return c.Store().Update(newPod("a"))
		}, []string{"a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			notes := watching(c)
			await.Must(t, test.do(c))
			checkNames(t, c, test.want...)
			if got := len(notes.Take()); got != len(test.want) {
				t.Errorf("%d notifications, want %d", got, len(test.want))
			}
		})
	}
}

func samePointer(a, b *Pod) bool { return a == b }

func TestRecordsAreKeptByUIDAndNotByName(t *testing.T) {
	c := newCache()
	s := c.Store()
	older, newer := newPod("db-0", withUID("older")), newPod("db-0", withUID("newer"), onNode("n2"))
	await.Must(t, s.Add(older))
	await.Must(t, s.Add(newer))
	checkNames(t, c, "db-0", "db-0")
	if get(t, c, "older").Node != "n1" || get(t, c, "newer").Node != "n2" {
		t.Error("the replacement and the pod it replaces are mixed up")
	}

	notes := watching(c)
	gone := get(t, c, "older")
	await.Must(t, s.Delete(older))
	await.Must(t, s.Delete(older))
	checkNames(t, c, "db-0")
	if diff := cmp.Diff([]Change{{Before: gone}}, notes.Take(), cmp.Comparer(samePointer)); diff != "" {
		t.Errorf("not reported once as a pod that is gone (-want +got):\n%s", diff)
	}
	if got := c.OnNode("n1"); got != nil {
		t.Errorf("%v on the old node, want none", got)
	}
	if got := c.OnNode("n2"); len(got) != 1 || got[0].UID != "newer" {
		t.Errorf("%v on the new node, want the replacement", got)
	}
}

func TestAnUpdateThatSaysNothingNewChangesNothing(t *testing.T) {
	now := metav1.NewTime(created.Add(time.Minute))
	tests := []struct {
		name string
		edit edit
	}{
		{"the same once more", func(*corev1.Pod) {}},
		{"a version that cannot be compared", withVersion("abc")},
		{"labels", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} }},
		{"annotations", func(pod *corev1.Pod) { pod.Annotations = map[string]string{"checked": "yes"} }},
		{"the pod runs", inPhase(corev1.PodRunning)},
		{"the pod is not ready yet", withCondition(corev1.PodReady, corev1.ConditionFalse, "")},
		{"a container restarted", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", RestartCount: 1}}
		}},
		{"a disruption that is over", withCondition(corev1.DisruptionTarget, corev1.ConditionFalse, v1alpha1.TaintEvictionReason)},
		{"scheduled at the creation", scheduledAt(created.Time)},
		{"scheduled later: the binding was dated when it was first seen", scheduledAt(created.Add(time.Second))},
		{"the pod was started", func(pod *corev1.Pod) { pod.Status.StartTime = &now }},
		{"an equal toleration list of its own", withTolerations(tolerated("disk", 300))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			await.Must(t, c.Store().Add(newPod("a")))
			before := get(t, c, "uid-a")
			notes := watching(c)
			await.Must(t, c.Store().Update(newPod("a", test.edit)))
			await.Must(t, listed(c, newPod("a", test.edit)))
			await.Must(t, c.Store().Resync())
			if got := notes.Take(); got != nil {
				t.Errorf("told %v, want nothing", got)
			}
			if after := get(t, c, "uid-a"); after != before {
				t.Error("another record, want the same pointer")
			}
			checkNames(t, c, "a")
		})
	}
}

func TestAnUpdateThatOnlyHasAnotherVersionIsKeptAndNotReported(t *testing.T) {
	c := newCache()
	await.Must(t, c.Store().Add(newPod("a", withVersion("7"), withGeneration(1))))
	before := get(t, c, "uid-a")
	notes := watching(c)
	await.Must(t, c.Store().Update(newPod("a", withVersion("8"), withGeneration(1))))
	await.Must(t, listed(c, newPod("a", withVersion("9"), withGeneration(1))))
	if got := notes.Take(); got != nil {
		t.Errorf("told %v, want nothing", got)
	}
	want := *before
	want.Version = 9
	if diff := cmp.Diff(&want, get(t, c, "uid-a"), cmp.AllowUnexported(Pod{}, common{}, keptLabels{})); diff != "" {
		t.Errorf("another record (-want +got):\n%s", diff)
	}
	if before.Version != 7 {
		t.Error("the old record was modified")
	}
	checkNames(t, c, "a")
}

func TestAnUpdateThatSaysSomethingNewMakesANewRecordAndOneNotification(t *testing.T) {
	forever := tolerated("disk", 300)
	forever.TolerationSeconds = nil
	tests := []struct {
		name string
		edit edit
	}{
		{"a toleration is added", withTolerations(tolerated("disk", 300), tolerated("net", 5))},
		{"a toleration in front", withTolerations(tolerated("net", 5), tolerated("disk", 300))},
		{"a shorter toleration", withTolerations(tolerated("disk", 5))},
		{"a toleration without a limit", withTolerations(forever)},
		{"no toleration", withTolerations()},
		{"another generation", withGeneration(2)},
		{"another priority", func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](7) }},
		{"it succeeded", inPhase(corev1.PodSucceeded)},
		{"it terminates", terminating},
		{"it is marked", withCondition(corev1.DisruptionTarget, corev1.ConditionTrue, v1alpha1.TaintEvictionReason)},
		{"it is ready", withCondition(corev1.PodReady, corev1.ConditionTrue, "")},
		{"another node", onNode("n2")},
		{"a label that is kept", withLabel("tier", "db")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			c.KeepLabels([]string{"tier"})
			await.Must(t, c.Store().Add(newPod("a")))
			await.Must(t, c.Store().Add(newPod("neighbor")))
			before := get(t, c, "uid-a")
			asItWas := *before
			notes := watching(c)
			await.Must(t, c.Store().Update(newPod("a", test.edit)))

			after := get(t, c, "uid-a")
			if diff := cmp.Diff([]Change{{Before: before, After: after}}, notes.Take(), cmp.Comparer(samePointer)); diff != "" {
				t.Errorf("told something else (-want +got):\n%s", diff)
			}
			if after == before {
				t.Error("the record was modified, want a new one")
			}
			if diff := cmp.Diff(asItWas, *before, cmp.AllowUnexported(Pod{}, common{}, keptLabels{})); diff != "" {
				t.Errorf("the old record was modified (-before +after):\n%s", diff)
			}
			checkNames(t, c, "a", "neighbor")
		})
	}
}

func TestThatTheDeleteWasAcceptedIsTakenBackByAListAlone(t *testing.T) {
	mark := func(c *Cache) error { c.MarkTerminating("uid-a"); return nil }
	update := func(edits ...edit) func(c *Cache) error {
		return func(c *Cache) error { return c.Store().Update(newPod("a", edits...)) }
	}
	tests := []struct {
		name       string
		terminates func(c *Cache) error
		event      func(c *Cache) error
		there      bool
	}{
		{"an older update", mark, update(withGeneration(2)), false},
		{"an older add", mark, func(c *Cache) error { return c.Store().Add(newPod("a", withGeneration(2))) }, false},
		{"an older update that says nothing else", mark, update(), false},
		{"an older update to another node", mark, update(onNode("n2")), false},
		// After etcd was restored from a backup, a pod does not terminate anymore.
		{"an update, if the watch itself said that it terminates", update(terminating), update(), true},
		{"a list", mark, func(c *Cache) error { return listed(c, newPod("a")) }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			await.Must(t, c.Store().Add(newPod("a")))
			await.Must(t, test.terminates(c))
			if _, there := c.There("uid-a"); there {
				t.Fatal("it is there, although it terminates")
			}
			await.Must(t, test.event(c))
			if pod, there := c.There("uid-a"); there != test.there {
				t.Errorf("it is there: %t (flags %08b), want %t", there, pod.Flags, test.there)
			}
			checkNames(t, c, "a")
		})
	}
}

func TestMarkTerminatingMakesANewRecordOnce(t *testing.T) {
	c := newCache()
	await.Must(t, c.Store().Add(newPod("a", withGeneration(3), inPhase(corev1.PodFailed))))
	before := get(t, c, "uid-a")
	notes := watching(c)
	c.MarkTerminating("uid-a")
	c.MarkTerminating("uid-a")
	await.Must(t, c.Store().Update(newPod("a", withGeneration(3), inPhase(corev1.PodFailed), terminating)))

	after := get(t, c, "uid-a")
	if diff := cmp.Diff([]Change{{Before: before, After: after}}, notes.Take(), cmp.Comparer(samePointer)); diff != "" {
		t.Errorf("told something else than one change (-want +got):\n%s", diff)
	}
	want := *before
	want.Flags = Finished | Terminating | deleted
	if diff := cmp.Diff(want, *after, cmp.AllowUnexported(Pod{}, common{}, keptLabels{})); diff != "" {
		t.Errorf("more than the flag changed (-want +got):\n%s", diff)
	}
	if before.Flags.Has(Terminating) {
		t.Error("the old record was modified")
	}
	checkNames(t, c, "a")
}

func TestAPodCountsAsSeenFromItsFirstSightOnItsNode(t *testing.T) {
	tests := []struct {
		name  string
		event func(c *Cache) error
		again bool
	}{
		{"an update", func(c *Cache) error { return c.Store().Update(newPod("a", withGeneration(2))) }, false},
		{"a second add", func(c *Cache) error { return c.Store().Add(newPod("a", withGeneration(2))) }, false},
		{"a list", func(c *Cache) error { return listed(c, newPod("a", withGeneration(2))) }, false},
		{"a mark", func(c *Cache) error { c.MarkTerminating("uid-a"); return nil }, false},
		{"an update to another node", func(c *Cache) error { return c.Store().Update(newPod("a", onNode("n2"))) }, true},
		{"it is gone and comes back", func(c *Cache) error {
			await.Must(t, c.Store().Delete(newPod("a")))
			return c.Store().Add(newPod("a"))
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache()
				want := time.Now()
				await.Must(t, c.Store().Add(newPod("a")))
				before := get(t, c, "uid-a")
				bubble.Pass(time.Hour)
				await.Must(t, test.event(c))
				if test.again {
					want = time.Now()
				}
				after := get(t, c, "uid-a")
				if after == before || !after.Seen().Equal(want) {
					t.Errorf("seen %s, want a new record, seen %s", after.Seen(), want)
				}
			})
		})
	}
}

func uidOf(change Change) types.UID {
	if change.After != nil {
		return change.After.UID
	}
	return change.Before.UID
}

func TestTheCacheHasSyncedAfterTheFirstList(t *testing.T) {
	c := newCache()
	await.Must(t, c.Store().Add(newPod("a")))
	if c.HasSynced() || isClosed(c.Done()) {
		t.Error("synced before the first list")
	}
	synced := true
	c.Subscribe(func(Change) { synced = c.HasSynced() })
	await.Must(t, listed(c))
	await.Must(t, listed(c))
	if !c.HasSynced() || !isClosed(c.Done()) {
		t.Error("not synced after an empty list")
	}
	if c.Name() == "" {
		t.Error("the error does not say what the cache waits for")
	}
	if synced {
		t.Error("synced before the list was told")
	}
	checkNames(t, c)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestWhatOnNodeReturnsIsTheCallersOwn(t *testing.T) {
	c := newCache()
	await.Must(t, listed(c, newPod("a"), newPod("b"), newPod("c")))
	mine := c.OnNode("n1")
	await.Must(t, c.Store().Delete(newPod("a")))
	for i, pod := range mine {
		if pod == nil {
			t.Errorf("a delete took record %d out of the caller's list", i)
		}
	}
	clear(mine)
	checkNames(t, c, "b", "c")
	if got := c.OnNode("n2"); got != nil {
		t.Errorf("%v on a node without pods, want none", got)
	}
}

// The notifications, taken together, result in what the cache shows, whatever happens and in whatever order.
func TestTheNotificationsAddUpToTheCache(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	c := newCache()
	told := map[types.UID]*Pod{}
	c.Subscribe(func(change Change) {
		if told[uidOf(change)] != change.Before {
			t.Errorf("told a change of %s from a record that was not the last one", uidOf(change))
		}
		if shown, _ := c.Get(uidOf(change)); shown != change.After {
			t.Errorf("told a change of %s before the cache shows it", uidOf(change))
		}
		if change.After == nil {
			delete(told, uidOf(change))
			return
		}
		told[uidOf(change)] = change.After
	})
	for range 5000 {
		await.Must(t, somethingHappens(random, c))
		checkConsistent(t, c)
		kept := map[types.UID]*Pod{}
		for _, pod := range c.All() {
			kept[pod.UID] = pod
		}
		if diff := cmp.Diff(told, kept, cmp.Comparer(samePointer)); diff != "" {
			t.Fatalf("the notifications add up to something else (-told +kept):\n%s", diff)
		}
	}
	await.Must(t, listed(c))
	checkNames(t, c)
}

func somethingHappens(random *rand.Rand, c *Cache) error {
	pod := randomPod(random)
	switch random.IntN(20) {
	case 0:
		var list []*corev1.Pod
		for range random.IntN(12) {
			list = append(list, randomPod(random))
		}
		return listed(c, list...)
	case 1: // a list that breaks off
		c.Store().BeginList()
		return c.Store().Update(pod)
	case 2, 3, 4:
		return c.Store().Delete(pod)
	case 5, 6:
		c.MarkTerminating(pod.UID)
		return nil
	}
	return c.Store().Update(pod)
}

func randomPod(random *rand.Rand) *corev1.Pod {
	some := []edit{
		onNode("n2"), onNode("n3"), onNode(""), terminating, inPhase(corev1.PodSucceeded), withGeneration(2),
		withTolerations(), withTolerations(tolerated("net", 5)), withTolerations(tolerated("net", 5), tolerated("disk", 300)),
	}
	pod := newPod(fmt.Sprint("p", random.IntN(12)))
	for range random.IntN(3) {
		some[random.IntN(len(some))](pod)
	}
	return pod
}
