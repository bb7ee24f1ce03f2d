// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }

// recorder records calls about nodes and pods.
type recorder struct{ seen []string }

func (n *recorder) SetNode(node *corev1.Node)  { n.note("node %s", node.Name) }
func (n *recorder) DeleteNode(name string)     { n.note("no node %s", name) }
func (n *recorder) SetPod(pod *corev1.Pod)     { n.note("pod %s", pod.UID) }
func (n *recorder) note(f string, args ...any) { n.seen = append(n.seen, fmt.Sprintf(f, args...)) }
func (n *recorder) DeletePod(uid types.UID, last *corev1.Pod) {
	n.note("no pod %s, seen to go: %t", uid, last != nil)
}

// following is a cluster and a follower of it, in virtual time.
type following struct {
	*testing.T
	*recorder

	clients  *fake.Clientset
	follower *follow.Follower
	acted    []time.Duration // since the follower started
}

func play(t *testing.T, test func(*following), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f := &following{T: t, recorder: &recorder{}, clients: fake.NewClientset(objects...), follower: follow.New(time.Second)}
		f.follower.Called = func(context.Context, follow.Feed, string, error) {}
		began := time.Now()
		f.follower.Act = func() time.Duration {
			f.acted = append(f.acted, time.Since(began))
			return time.Hour
		}
		test(f)
	})
}

// run follows the given nodes, or all nodes, until the test ends.
func (f *following) run(nodes ...string) {
	f.Helper()
	f.follower.Feeds = follow.ClusterFeeds(f.clients, "", nodes, f.recorder)
	f.start()
}

// start starts the follower. It ends with the test.
func (f *following) start() {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	ended := make(chan error)
	go func() { ended <- f.follower.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Errorf("it ends with %v", err)
		}
	})
	synctest.Wait()
}

// ask runs a function on the follower's goroutine.
func (f *following) ask(do func()) {
	done := make(chan struct{})
	f.follower.Do(f.Context(), func() { defer close(done); do() })
	<-done
}

// must checks what was recorded since the last call.
func (f *following) must(want ...string) {
	f.Helper()
	synctest.Wait()
	f.ask(func() {
		if !slices.Equal(f.seen, want) {
			f.Errorf("it is told %q, want %q", f.seen, want)
		}
		f.seen = nil
	})
}

// mustBeBroken checks whether something is not watched.
func (f *following) mustBeBroken(want bool) {
	f.Helper()
	f.ask(func() {
		if err := f.follower.Broken(); (err != nil) != want {
			f.Errorf("broken: %v, want %t", err, want)
		}
	})
}

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: "n"}}
}

var pods = corev1.SchemeGroupVersion.WithResource(follow.Pods)

// down makes calls that list and watch pods fail until up is called.
func (f *following) down() (up func()) {
	var broken atomic.Bool
	broken.Store(true)
	f.clients.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return broken.Load(), nil, errors.New("no answer")
	})
	f.clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken.Load(), nil, errors.New("no answer")
	})
	return func() { broken.Store(false) }
}

func TestADeletedPodIsReportedWithItsLastState(t *testing.T) {
	play(t, func(f *following) {
		f.run()
		f.must("pod 1")
		if err := f.clients.Tracker().Delete(pods, "a", "p"); err != nil {
			f.Fatal(err)
		}
		f.must("no pod 1, seen to go: true")
	}, pod("1"))
}

func TestAfterABreakADeletedPodIsReportedBeforeItsNamesake(t *testing.T) {
	play(t, func(f *following) {
		var begun []watch.Interface
		f.clients.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
			w, err := f.clients.Tracker().Watch(action.GetResource(), action.GetNamespace())
			begun = append(begun, w)
			return true, w, err
		})
		f.run()
		f.must("pod 1")
		up := f.down()
		for _, w := range begun {
			w.Stop()
		}
		bubble.Pass(10 * time.Second)
		f.mustBeBroken(true)
		if err := f.clients.Tracker().Update(pods, pod("2"), "a"); err != nil {
			f.Fatal(err)
		}
		f.must()
		up()
		bubble.Pass(2 * time.Minute)
		f.must("no pod 1, seen to go: false", "pod 2")
		f.mustBeBroken(false)
	}, pod("1"))
}

func TestActIsCalledAtOnceAfterAQuietTimeAndThenRests(t *testing.T) {
	play(t, func(f *following) {
		f.run()
		bubble.Pass(10 * time.Second)
		before := len(f.acted)
		for range 3 {
			if err := f.clients.Tracker().Update(pods, pod("1"), "a"); err != nil {
				f.Fatal(err)
			}
			bubble.Pass(300 * time.Millisecond)
		}
		bubble.Pass(time.Minute)
		if want := []time.Duration{10 * time.Second, 11 * time.Second}; !slices.Equal(f.acted[before:], want) {
			f.Errorf("Act is called after %v, want %v", f.acted[before:], want)
		}
	}, pod("1"))
}

func TestFewNodesAreWatchedIndividuallyWithTheirPods(t *testing.T) {
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	for name, test := range map[string]struct {
		nodes []string
		want  []string
	}{
		"two nodes":  {[]string{"n", "m"}, []string{"metadata.name=m", "metadata.name=n", "spec.nodeName=m", "spec.nodeName=n"}},
		"all nodes":  {nil, []string{"", "spec.nodeName!="}},
		"many nodes": {many, []string{"", "spec.nodeName!="}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(f *following) {
				f.run(test.nodes...)
				var asked []string
				for _, action := range f.clients.Actions() {
					if watching, ok := action.(clienttesting.WatchAction); ok {
						asked = append(asked, watching.GetWatchRestrictions().Fields.String())
					}
				}
				slices.Sort(asked)
				if asked = slices.Compact(asked); !slices.Equal(asked, test.want) {
					f.Errorf("it watches %q, want %q", asked, test.want)
				}
			})
		})
	}
}

func TestStopEndsRunWithItsError(t *testing.T) {
	play(t, func(f *following) {
		enough := errors.New("enough")
		f.follower.Act = func() time.Duration {
			f.follower.Stop(enough)
			return follow.NotYet
		}
		if err := f.follower.Run(f.Context()); !errors.Is(err, enough) {
			f.Errorf("it ends with %v", err)
		}
	})
}

func TestACallThatGetsNoAnswerIsABreak(t *testing.T) {
	for name, err := range map[string]error{
		"the connection is closed":   &url.Error{Op: "Get", URL: "https://example.com", Err: io.EOF},
		"the API server gives it up": apierrors.NewTimeoutError("the request takes too long", 1),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(f *following) {
				f.clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, err
				})
				f.run()
				f.mustBeBroken(true)
			})
		})
	}
}

// streaming is a client that streams lists.
type streaming struct{}

func TestAStreamedListMendsABreakWhenItIsComplete(t *testing.T) {
	play(t, func(f *following) {
		begun := make(chan *watch.FakeWatcher, 100)
		f.clients.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			begun <- w
			return true, w, nil
		})
		complete := func(w *watch.FakeWatcher) {
			w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}})
			synctest.Wait()
		}
		f.follower.Feeds = follow.ClusterFeeds(f.clients, "", nil, f.recorder)
		f.follower.Feeds[1].Client = streaming{}
		f.start()
		first := <-begun
		complete(first)
		f.mustBeBroken(false)
		up := f.down()
		first.Stop()
		bubble.Pass(10 * time.Second)
		f.mustBeBroken(true)
		up()
		next := <-begun
		f.mustBeBroken(true)
		complete(next)
		f.mustBeBroken(false)
	})
}
