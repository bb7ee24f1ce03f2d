// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const onlyBound = "spec.nodeName!="

// start runs the cache until the test ends, and returns when it has come to rest.
func start(t *testing.T, c *Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	synctest.Wait()
}

func TestTheCacheFollowsThePodsOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a"), newPod("b"), newPod("waiting", onNode("")))
		pods := client.CoreV1().Pods("default")
		c := New(client)
		if c.HasSynced() {
			t.Error("synced before it ran")
		}
		start(t, c)
		if !c.HasSynced() {
			t.Error("not synced after the list")
		}
		checkNames(t, c, "a", "b")

		notes := watching(c)
		_, err := pods.Create(t.Context(), newPod("c"), metav1.CreateOptions{})
		must(t, err)
		_, err = pods.Update(t.Context(), newPod("waiting"), metav1.UpdateOptions{})
		must(t, err)
		_, err = pods.Update(t.Context(), newPod("a", inPhase(corev1.PodRunning)), metav1.UpdateOptions{})
		must(t, err)
		must(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
		synctest.Wait()
		checkNames(t, c, "a", "c", "waiting")
		if got := len(notes.take()); got != 3 {
			t.Errorf("%d notifications, want 3: the phase is no news", got)
		}
	})
}

func TestOnlyBoundPodsAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		start(t, New(client))
		asked := map[string]int{}
		for _, action := range client.Actions() {
			asked[action.GetVerb()]++
			if got := fieldsOf(action); got != onlyBound {
				t.Errorf("%s with field selector %q, want %q", action.GetVerb(), got, onlyBound)
			}
			if got := action.GetNamespace(); got != metav1.NamespaceAll {
				t.Errorf("%s in namespace %q, want all", action.GetVerb(), got)
			}
		}
		if asked["list"] != 1 || asked["watch"] != 1 {
			t.Errorf("%v, want one list and one watch", asked)
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

func TestAListThatFailsIsRepeatedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("a"))
		failures := 5
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("the API server is not there")
		})
		c := New(client)
		start(t, c)
		if c.HasSynced() {
			t.Error("synced by a list that failed")
		}
		pass(10 * time.Minute)
		if !c.HasSynced() {
			t.Error("not synced ten minutes after the API server came back")
		}
		checkNames(t, c, "a")
	})
}

func TestAfterAWatchThatExpiredAListSaysWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newPod("kept"), newPod("gone"), newPod("db-0", withUID("older")))
		broken := watch.NewRaceFreeFake()
		unused := true
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			first := unused
			unused = false
			return first, broken, nil
		})
		c := New(client)
		begin := time.Now()
		start(t, c)
		checkNames(t, c, "db-0", "gone", "kept")
		kept := get(t, c, "uid-kept")
		c.MarkTerminating("older")
		pass(time.Hour)

		// The broken watch brings none of this.
		pods := client.CoreV1().Pods("default")
		must(t, pods.Delete(t.Context(), "gone", metav1.DeleteOptions{}))
		must(t, pods.Delete(t.Context(), "db-0", metav1.DeleteOptions{}))
		_, err := pods.Create(t.Context(), newPod("db-0", withUID("newer")), metav1.CreateOptions{})
		must(t, err)
		synctest.Wait()
		checkNames(t, c, "db-0", "gone", "kept")

		broken.Error(&apierrors.NewResourceExpired("too old resource version").ErrStatus)
		pass(time.Minute)
		checkNames(t, c, "db-0", "kept")
		if get(t, c, "newer").Flags.Has(Terminating) {
			t.Error("the replacement inherited that its predecessor terminates")
		}
		if got := get(t, c, "uid-kept"); got != kept || !got.Seen().Equal(begin) {
			t.Errorf("the pod that is still there has another record, seen %s, want %s", got.Seen(), begin)
		}

		must(t, pods.Delete(t.Context(), "kept", metav1.DeleteOptions{}))
		synctest.Wait()
		checkNames(t, c, "db-0")
	})
}

// streaming hides that the fake clientset cannot stream a list.
type streaming struct{ kubernetes.Interface }

func TestAStreamedListIsKeptWhileItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		stream := streamOf(client)
		c := New(streaming{client})
		notes := watching(c)
		start(t, c)
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
		pass(5 * time.Second)
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
		if got := len(notes.take()); got != 7 {
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
		stream := streamOf(client)
		c := New(streaming{client})
		start(t, c)
		stream.Add(newPod("a", func(pod *corev1.Pod) { pod.Annotations = endOfList().Annotations }))
		pass(time.Second)
		if c.HasSynced() {
			t.Error("synced by a pod that has the annotation of the bookmark that ends a list")
		}
		stream.Add(newPod("b"))
		stream.Action(watch.Bookmark, endOfList())
		pass(time.Second)
		if !c.HasSynced() {
			t.Error("not synced when the stream of the list ended")
		}
		checkNames(t, c, "a", "b")
	})
}

// streamOf makes the client answer every watch of pods with the one that is returned, as long as it is open.
func streamOf(client *fake.Clientset) *watch.RaceFreeFakeWatcher {
	stream := watch.NewRaceFreeFake()
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, stream, nil
	})
	return stream
}

func TestAListThatBreaksOffTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var streams []*watch.RaceFreeFakeWatcher
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			streams = append(streams, watch.NewRaceFreeFake())
			return true, streams[len(streams)-1], nil
		})
		newest := func() *watch.RaceFreeFakeWatcher { return streams[len(streams)-1] }
		c := New(streaming{client})
		start(t, c)
		newest().Add(newPod("a"))
		newest().Add(newPod("b"))
		newest().Action(watch.Bookmark, endOfList())
		pass(time.Second)
		checkNames(t, c, "a", "b")

		expired := &apierrors.NewResourceExpired("too old resource version").ErrStatus
		newest().Error(expired) // the next watch begins with a list
		pass(time.Minute)
		newest().Add(newPod("b"))
		newest().Add(newPod("c"))
		newest().Error(expired)
		pass(time.Minute)
		checkNames(t, c, "a", "b", "c")

		newest().Add(newPod("b"))
		newest().Action(watch.Bookmark, endOfList())
		pass(time.Second)
		checkNames(t, c, "b")
		if len(streams) != 3 {
			t.Errorf("%d watches, want 3", len(streams))
		}
	})
}

func TestAStreamThatIsStoppedWhileItListsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		stream := streamOf(client)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_ = New(streaming{client}).Run(ctx)
		}()
		synctest.Wait()
		cancel()
		for i := range 5 { // nobody reads the results any more, and no goroutine may wait for ever for one who does
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
func endOfList() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "9",
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
}
