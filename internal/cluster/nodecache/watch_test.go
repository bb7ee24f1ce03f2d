// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestTheCacheFollowsTheNodesOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("a"), newNode("b"))
		nodes := client.CoreV1().Nodes()
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		if !c.HasSynced() {
			t.Error("not synced after the list")
		}
		checkNames(t, c, "a", "b")
		notes := watching(c)
		_, err := nodes.Create(t.Context(), newNode("c"), metav1.CreateOptions{})
		await.Must(t, err)
		_, err = nodes.Update(t.Context(), newNode("a", withTaints(noExecute("off"))), metav1.UpdateOptions{})
		await.Must(t, err)
		await.Must(t, nodes.Delete(t.Context(), "b", metav1.DeleteOptions{}))
		synctest.Wait()
		checkNames(t, c, "a", "c")
		if got := len(notes.Take()); got != 3 {
			t.Errorf("%d changes were told, want 3", got)
		}
		lists, watches := 0, 0
		for _, action := range client.Actions() {
			switch action.GetVerb() {
			case "list":
				lists++
			case "watch":
				watches++
			}
		}
		if lists != 1 || watches != 1 {
			t.Errorf("%d lists and %d watches, want one of each", lists, watches)
		}
	})
}

func TestAListThatFailsIsRepeatedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("a"))
		failures := 5
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("the API server is not there")
		})
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		if c.HasSynced() {
			t.Error("synced without a list")
		}
		bubble.Pass(10 * time.Minute)
		if !c.HasSynced() {
			t.Error("not synced although the list succeeds")
		}
		checkNames(t, c, "a")
	})
}

func TestAWatchThatIsResumedMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("n", withVersion("1")))
		watches := bubble.StreamsOf(client, "nodes")
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		notes := watching(c)
		watches.Newest().Action(watch.Bookmark, &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5"}})
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
		})
		bubble.Pass(time.Second)
		if got := c.LastSyncResourceVersion(); got != "5" {
			t.Errorf("the watch has come to version %s, want 5, that of the bookmark", got)
		}
		watches.Newest().Stop()
		bubble.Pass(time.Minute)
		if watches.Len() != 2 {
			t.Fatalf("%d watches, want 2", watches.Len())
		}
		watches.Newest().Modify(newNode("n", withVersion("6")))
		bubble.Pass(time.Second)
		if told := notes.Take(); len(told) != 1 || told[0].Gap {
			t.Errorf("told %v, want one change without a gap", told)
		}
	})
}

// An etcd that was restored from a snapshot is at an older version than the one that was seen. A watch from there brings
// nothing.
func TestAWatchFromAVersionThatARestoreTookBackListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var restored atomic.Bool
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			version, node := "9", newNode("n", withVersion("8"), withTaints(noExecute("off")))
			if restored.Load() {
				version, node = "5", newNode("n", withVersion("4"))
			}
			return true, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: []corev1.Node{*node}}, nil
		})
		watches := bubble.StreamsOf(client, "nodes")
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		notes := watching(c)

		bubble.Pass(time.Minute)
		watches.Newest().Stop() // the next one is from version 9, too
		bubble.Pass(time.Minute)
		if told := notes.Take(); told != nil {
			t.Errorf("told %v, though nothing has changed", told)
		}
		restored.Store(true)
		watches.Newest().Stop()
		bubble.Pass(time.Minute)
		if told := notes.Take(); len(told) != 1 || !told[0].Gap || len(told[0].After.NoExecute) > 0 {
			t.Errorf("told %v, want the restored node after a gap", told)
		}
		if got := c.LastSyncResourceVersion(); got != "5" {
			t.Errorf("it watches from version %s, want 5", got)
		}
	})
}

// An API server that cannot say which version is the newest may still bring changes: an untaint must not wait.
func TestAWatchThatIsOpenedAgainBringsChangesBeforeTheNewestVersionIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newNode("n", withVersion("1")))
		var fails atomic.Bool
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return fails.Load(), nil, apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
		})
		watches := bubble.StreamsOf(client, "nodes")
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		notes := watching(c)

		bubble.Pass(time.Minute)
		fails.Store(true)
		watches.Newest().Stop()
		bubble.Pass(10 * time.Second)
		watches.Newest().Modify(newNode("n", withVersion("6")))
		bubble.Pass(time.Second)
		if told := notes.Take(); len(told) != 1 || told[0].Gap {
			t.Errorf("told %v, want one change without a gap", told)
		}
	})
}

// Otherwise a restore during a brown-out would never be noticed.
func TestTheNewestVersionIsAskedForUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var restored, fails atomic.Bool
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if fails.Load() {
				return true, nil, apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
			}
			version := "9"
			if restored.Load() {
				version = "5"
			}
			return true, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
		})
		watches := bubble.StreamsOf(client, "nodes")
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		bubble.Pass(time.Minute)
		restored.Store(true)
		fails.Store(true)
		watches.Newest().Stop()
		bubble.Pass(time.Minute)
		fails.Store(false)
		bubble.Pass(10 * time.Second)
		if got := c.LastSyncResourceVersion(); got != "5" {
			t.Errorf("it watches from version %s, want 5", got)
		}
	})
}

func TestAStreamedListIsKeptWhileItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		watches := bubble.StreamsOf(client, "nodes")
		c := New(Config{Client: bubble.Streaming(client), Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		watches.Newest().Add(newNode("a", withVersion("1")))
		bubble.Pass(time.Second)
		checkNames(t, c, "a")
		if c.HasSynced() {
			t.Error("synced before the list ended")
		}
		watches.Newest().Add(newNode("b"))
		watches.Newest().Action(watch.Bookmark, endOfList())
		bubble.Pass(time.Second)
		if !c.HasSynced() {
			t.Error("not synced when the list ended")
		}
		notes := watching(c)
		watches.Newest().Error(bubble.Expired())
		bubble.Pass(5 * time.Second)
		watches.Newest().Add(newNode("a", withVersion("8")))
		watches.Newest().Action(watch.Bookmark, endOfList())
		bubble.Pass(time.Second)
		checkNames(t, c, "a")
		if told := notes.Take(); len(told) != 2 || !told[0].Gap || told[1].After != nil {
			t.Errorf("told %v, want a change with a gap and a node that is gone", told)
		}
		if watches.Len() != 2 {
			t.Errorf("%d watches, want 2", watches.Len())
		}
	})
}

// endOfList is the bookmark that ends a streamed list.
func endOfList() *corev1.Node { return &corev1.Node{ObjectMeta: bubble.EndOfList()} }

func TestAListThatIsNotStreamedIsReadPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		pages := map[string]*corev1.NodeList{
			"":     {ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, Items: []corev1.Node{*newNode("a"), *newNode("b")}},
			"more": {ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Node{*newNode("c")}},
		}
		var asked []string
		client.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			options := action.(clienttesting.ListActionImpl).ListOptions
			asked = append(asked, options.Continue)
			if options.Limit != 500 || options.ResourceVersion != "" {
				t.Errorf("asked for %d nodes of version %q, want 500 of the newest", options.Limit, options.ResourceVersion)
			}
			if options.Continue != "" && len(asked) == 2 {
				return true, nil, apierrors.NewResourceExpired("the provided continue parameter is too old")
			}
			return true, pages[options.Continue].DeepCopy(), nil
		})
		c := New(Config{Client: client, Clock: &timeline.Clock{}})
		bubble.Run(t, "the cache", c.Run)
		bubble.Pass(time.Minute)
		checkNames(t, c, "a", "b", "c")
		if len(asked) != 4 {
			t.Errorf("asked for pages %q, want the first and the second twice, as they expired once", asked)
		}
		if got := c.LastSyncResourceVersion(); got != "9" || !c.HasSynced() {
			t.Errorf("synced: %t, at version %s, want 9", c.HasSynced(), got)
		}
	})
}
