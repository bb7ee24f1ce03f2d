// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const onlyBound = "spec.nodeName!="

func TestTheCacheFollowsThePodsOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a"), newPod("b"), newPod("waiting", onNode("")))
		pods := client.CoreV1().Pods("default")
		c := New(client, &timeline.Clock{})
		if c.HasSynced() {
			t.Error("synced before it ran")
		}
		bubble.Run(t, "the cache", c.Run)
		if !c.HasSynced() {
			t.Error("not synced after the list")
		}
		checkNames(t, c, "a", "b")

		notes := watching(c)
		_, err := pods.Create(t.Context(), newPod("c"), metav1.CreateOptions{})
		await.Must(t, err)
		_, err = pods.Update(t.Context(), newPod("waiting"), metav1.UpdateOptions{})
		await.Must(t, err)
		_, err = pods.Update(t.Context(), newPod("a", inPhase(corev1.PodRunning)), metav1.UpdateOptions{})
		await.Must(t, err)
		await.Must(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
		synctest.Wait()
		checkNames(t, c, "a", "c", "waiting")
		if got := len(notes.Take()); got != 3 {
			t.Errorf("%d notifications, want 3, because the phase is not news", got)
		}
		asked := map[string]int{}
		for _, action := range client.Actions() {
			verb := action.GetVerb()
			if asked[verb]++; verb != "list" && verb != "watch" {
				continue
			}
			if fields, namespace := fieldsOf(action), action.GetNamespace(); fields != onlyBound || namespace != metav1.NamespaceAll {
				t.Errorf("%s of %q in namespace %q, want %q in all", verb, fields, namespace, onlyBound)
			}
		}
		if asked["list"] != 1 || asked["watch"] != 1 {
			t.Errorf("%v, want one list and one watch", asked)
		}
	})
}

func TestAListOnDemandBringsWhatIsKeptFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a", withLabel("tier", "db")), newPod("b"))
		c := New(client, &timeline.Clock{})
		bubble.Run(t, "the cache", c.Run)
		seen := get(t, c, "uid-a").Seen()
		bubble.Pass(time.Hour)
		if c.KeepLabels([]string{"tier"}) {
			t.Fatal("the cache says that its records have a label that was not kept before")
		}
		notes := watching(c)
		complete := false
		c.Relist(func() { complete = true })
		if complete || get(t, c, "uid-a").Labels().Has("tier") {
			t.Error("complete before it began")
		}
		synctest.Wait()
		if !complete || get(t, c, "uid-a").Labels().Get("tier") != "db" {
			t.Errorf("complete %t, with the labels %v; want the label that is kept", complete, get(t, c, "uid-a").Labels())
		}
		if got := len(notes.Take()); got != 1 {
			t.Errorf("%d notifications, want 1: the other pod says nothing new", got)
		}
		if got := get(t, c, "uid-a").Seen(); !got.Equal(seen) {
			t.Errorf("first seen %s, want %s: it was there all along", got, seen)
		}
		await.Must(t, client.CoreV1().Pods("default").Delete(t.Context(), "b", metav1.DeleteOptions{}))
		synctest.Wait()
		checkNames(t, c, "a")
	})
}

func TestAListThatIsAskedForBeforeTheFirstIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a"))
		c := New(client, &timeline.Clock{})
		complete := false
		c.Relist(func() { complete = true })
		bubble.Run(t, "the cache", c.Run)
		lists := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "list" {
				lists++
			}
		}
		if !complete || lists != 1 {
			t.Errorf("complete %t after %d lists, want 1 that is", complete, lists)
		}
	})
}

func fieldsOf(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.ListAction:
		return action.GetListRestrictions().Fields.String()
	case clienttesting.WatchAction:
		return action.GetWatchRestrictions().Fields.String()
	}
	return ""
}

func TestAStreamedListIsKeptWhileItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		streams := bubble.StreamsOf(client, "pods")
		c := New(bubble.Streaming(client), &timeline.Clock{})
		notes := watching(c)
		bubble.Run(t, "the cache", c.Run)
		stream := streams.Newest()
		checkStreamed(t, client)

		arrived := time.Now()
		for _, pod := range []*corev1.Pod{newPod("a"), newPod("gone"), newPod("waiting", onNode("")), newPod("db-0", withUID("older"))} {
			stream.Add(pod)
		}
		stream.Modify(newPod("a", withGeneration(2)))
		stream.Delete(newPod("gone"))
		stream.Delete(newPod("db-0", withUID("older")))
		stream.Add(newPod("db-0", withUID("newer")))
		stream.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8"}})
		bubble.Pass(5 * time.Second)
		checkNames(t, c, "a", "db-0")
		if c.HasSynced() {
			t.Error("synced before the stream of the list ended")
		}
		stream.Action(watch.Bookmark, endOfList())
		synctest.Wait()
		if !c.HasSynced() {
			t.Error("not synced when the stream of the list ended")
		}
		checkNames(t, c, "a", "db-0")
		if got := get(t, c, "uid-a"); got.Generation != 2 || !got.Seen().Equal(arrived) {
			t.Errorf("generation %d, seen %s after it arrived", got.Generation, got.Seen().Sub(arrived))
		}
		if got := len(notes.Take()); got != 7 {
			t.Errorf("%d notifications, want one for each event of a pod that is bound", got)
		}

		stream.Modify(newPod("a", terminating))
		stream.Delete(newPod("db-0", withUID("newer")))
		synctest.Wait()
		checkNames(t, c, "a")
		if got := get(t, c, "uid-a"); !got.Flags.Has(Terminating) || !got.Seen().Equal(arrived) {
			t.Errorf("flags %05b, seen %s after it arrived, want terminating and seen as before", got.Flags, got.Seen().Sub(arrived))
		}
	})
}

func TestAPodThatLooksLikeTheEndOfTheListEndsItNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		streams := bubble.StreamsOf(client, "pods")
		c := New(bubble.Streaming(client), &timeline.Clock{})
		bubble.Run(t, "the cache", c.Run)
		stream := streams.Newest()
		stream.Add(newPod("a", func(pod *corev1.Pod) { pod.Annotations = endOfList().Annotations }))
		bubble.Pass(time.Second)
		if c.HasSynced() {
			t.Error("synced by a pod that has the annotation of the bookmark that ends a list")
		}
		stream.Add(newPod("b"))
		stream.Action(watch.Bookmark, endOfList())
		bubble.Pass(time.Second)
		if !c.HasSynced() {
			t.Error("not synced when the stream of the list ended")
		}
		checkNames(t, c, "a", "b")
	})
}

// Some proxies drop the bookmark that ends a streamed list (kubernetes/kubernetes#140890).
func TestWhereAStreamedListDoesNotEndPodsAreListedPageByPage(t *testing.T) {
	for name, c := range map[string]struct {
		eachSecond func(stream *watch.RaceFreeFakeWatcher)
		within     time.Duration
	}{
		"because nothing comes anymore": {func(*watch.RaceFreeFakeWatcher) {}, 15 * time.Second},
		"while changes go on": {func(stream *watch.RaceFreeFakeWatcher) {
			stream.Modify(newPod("a", withGeneration(2)))
		}, 6 * time.Minute},
		"because it breaks off": {(*watch.RaceFreeFakeWatcher).Stop, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(newPod("a"), newPod("b"))
				streams := bubble.StreamsOf(client, "pods")
				cache := New(bubble.Streaming(client), &timeline.Clock{})
				bubble.Run(t, "the cache", cache.Run)
				begun, stream := time.Now(), streams.Newest()
				stream.Add(newPod("a"))
				for !cache.HasSynced() && time.Since(begun) < time.Hour {
					c.eachSecond(stream)
					bubble.Pass(time.Second)
				}
				if took := time.Since(begun); took > c.within {
					t.Fatalf("synced after %s, want it within %s", took, c.within)
				}
				checkNames(t, cache, "a", "b")
			})
		})
	}
}

func TestWhereStreamingIsRefusedForLongPodsAreListedPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a"))
		client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if options := action.(clienttesting.WatchActionImpl).ListOptions; options.SendInitialEvents == nil {
				return false, nil, nil
			}
			return true, nil, apierrors.NewTooManyRequestsError("not now")
		})
		c := New(bubble.Streaming(client), &timeline.Clock{})
		bubble.Run(t, "the cache", c.Run)
		bubble.Pass(time.Minute)
		if !c.HasSynced() {
			t.Fatal("not synced after a minute")
		}
		checkNames(t, c, "a")
	})
}

func TestAStreamThatIsStoppedWhileItListsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		streams := bubble.StreamsOf(client, "pods")
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_ = New(bubble.Streaming(client), &timeline.Clock{}).Run(ctx)
		}()
		synctest.Wait()
		stream := streams.Newest()
		cancel()
		for i := range 5 { // nothing reads the results any longer, and no goroutine may wait indefinitely for a reader
			stream.Add(newPod(string(rune('a' + i))))
		}
		<-stopped
	})
}

// checkStreamed: the pods were asked for by one watch that begins with the list.
func checkStreamed(t *testing.T, client *fake.Clientset) {
	t.Helper()
	actions := client.Actions()
	if len(actions) != 1 {
		t.Fatalf("%v, want one watch", actions)
	}
	asked, ok := actions[0].(clienttesting.WatchActionImpl)
	if !ok {
		t.Fatalf("%v, want a watch", actions[0])
	}
	if send := asked.ListOptions.SendInitialEvents; send == nil || !*send {
		t.Error("the watch does not ask for the list")
	}
	if got := fieldsOf(asked); got != onlyBound {
		t.Errorf("field selector %q, want %q", got, onlyBound)
	}
}

// endOfList is the bookmark that ends a streamed list.
func endOfList() *corev1.Pod { return &corev1.Pod{ObjectMeta: bubble.EndOfList()} }
