// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// leavingScene is an API server, and a command that prints pending pods in lines. Its time is virtual, and begins at midnight,
// 2000-01-01.
type leavingScene struct {
	t       *testing.T
	clients *fake.Clientset
	options *leavingOptions
	reader  *source.Reader // of policies

	out, errOut transcript
	done        chan error
	stop        context.CancelFunc
}

// transcript is the output of a command, which the scene can read while the command writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *transcript) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(data)
}

// take returns the output since the last call.
func (t *transcript) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}

// play runs a scene.
func play(t *testing.T, act func(*leavingScene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		clients := fake.NewClientset()
		s := &leavingScene{t: t, clients: clients, reader: newReader(clients), done: make(chan error, 1)}
		env := command.Env{IOStreams: genericiooptions.IOStreams{Out: &s.out, ErrOut: &s.errOut}, Clock: clock.RealClock{}}
		s.options = &leavingOptions{source: source.New(env, genericclioptions.NewConfigFlags(true)), output: show.NewPrinter(env)}
		defer func() {
			if s.stop != nil {
				s.stop()
			}
		}()
		act(s)
	})
}

// watch starts the command. It ends with the scene.
func (s *leavingScene) watch() {
	s.t.Helper()
	if err := s.options.validate(); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop = stop
	f := s.options.follower(s.reader, s.options.note)
	go func() { s.done <- s.options.runLines(ctx, f) }()
	s.pass(time.Second)
}

// pass lets virtual time pass.
func (s *leavingScene) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time is virtual
	synctest.Wait()
}

// says checks the output since the last check.
func (s *leavingScene) says(lines ...string) {
	s.t.Helper()
	said := strings.Split(strings.TrimSuffix(s.out.take(), "\n"), "\n")
	if len(lines) == 0 {
		lines = []string{""}
	}
	if !slices.Equal(said, lines) {
		s.t.Errorf("it says\n  %s\nwant\n  %s", strings.Join(said, "\n  "), strings.Join(lines, "\n  "))
	}
}

// taint sets the taints of a node, and creates the node if necessary. They count from the current second.
func (s *leavingScene) taint(name string, keys ...string) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.Now())})
	}
	s.put(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, node, "")
}

// pod creates a pod on a node that tolerates key k for a while.
func (s *leavingScene) pod(name, node string, seconds int64, change ...func(*corev1.Pod)) {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		}},
	}
	for _, change := range change {
		change(pod)
	}
	s.put(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, pod, pod.Namespace)
}

func (s *leavingScene) put(resource schema.GroupVersionResource, object runtime.Object, namespace string) {
	s.t.Helper()
	err := s.clients.Tracker().Create(resource, object, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = s.clients.Tracker().Update(resource, object, namespace)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *leavingScene) deletePod(name string) {
	s.t.Helper()
	if err := s.clients.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "a", name); err != nil {
		s.t.Fatal(err)
	}
}

func TestAWatchTellsALineForEachChange(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.taint("n", "k")
		s.pod("first", "n", 300)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/first on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute")

		s.pass(59 * time.Second)
		s.pod("second", "n", 600)
		s.pass(time.Second)
		s.says("2000-01-01T00:01:00Z pod a/second on node n leaves in 8m59s, at 2000-01-01T00:10:00Z, because of taint k:NoExecute")

		s.pod("second", "n", 120)
		s.pass(time.Second)
		s.says("2000-01-01T00:01:01Z pod a/second on node n has a new due time: it leaves in 59s, at 2000-01-01T00:02:00Z, because of taint k:NoExecute")

		s.pass(time.Minute)
		s.says("2000-01-01T00:02:00Z pod a/second on node n is due now, because of taint k:NoExecute")

		s.deletePod("second")
		s.pass(time.Second)
		s.says("2000-01-01T00:02:02Z pod a/second on node n is gone, 2s after it was due")

		s.taint("n")
		s.pass(time.Second)
		s.says("2000-01-01T00:02:03Z pod a/first on node n may stay, instead of leaving at 2000-01-01T00:05:00Z")

		s.pass(time.Hour)
		s.says()
	})
}

func TestAPodThatTerminatesIsGoneAndOneThatIsNotToleratedAtAllLeavesNow(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.taint("n", "k")
		s.pod("early", "n", 300)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/early on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute")

		s.pod("early", "n", 300, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		s.pod("bare", "n", 0, func(pod *corev1.Pod) { pod.Spec.Tolerations = nil })
		s.pass(time.Second)
		s.says(
			"2000-01-01T00:00:01Z pod a/early on node n is gone, 4m59s before it was due",
			"2000-01-01T00:00:01Z pod a/bare on node n was due 1s ago, at 2000-01-01T00:00:00Z, because of taint k:NoExecute",
		)
	})
}

func TestATaintWithoutTimeAddedCountsFromWhenTheWatchSawItFirst(t *testing.T) {
	play(t, func(s *leavingScene) {
		bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}}
		s.put(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, bare, "")
		s.pod("p", "n", 300)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/p on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute")
		s.pass(time.Minute)
		heartbeat := bare.DeepCopy()
		heartbeat.Labels = map[string]string{"beat": "1"}
		s.put(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, heartbeat, "")
		s.pass(time.Minute)
		s.says()
	})
}

func TestOnlyTheNodesAndTheNamespaceThatWereAskedForAreTold(t *testing.T) {
	elsewhere := func(pod *corev1.Pod) { pod.Namespace = "b" }
	wanted := "2000-01-01T00:00:00Z pod a/p on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute"
	for name, choose := range map[string]func(*leavingOptions){
		"by name":  func(o *leavingOptions) { o.nodes.Names = []string{"n", "none"} },
		"by label": func(o *leavingOptions) { o.nodes.Selector = "name in (n)" },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *leavingScene) {
				s.options.namespace = "a"
				choose(s.options)
				s.taint("n", "k")
				s.taint("m", "k")
				s.pod("p", "n", 300)
				s.pod("q", "m", 300)
				s.pod("r", "n", 300, elsewhere)
				s.watch()
				s.says(wanted)
			})
		})
	}
}

func TestABrokenWatchIsRestartedAndMissedChangesAreReported(t *testing.T) {
	play(t, func(s *leavingScene) {
		var down atomic.Bool
		var watches []watch.Interface
		s.clients.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if down.Load() {
				return true, nil, errors.New("connection refused")
			}
			begun, err := s.clients.Tracker().Watch(action.GetResource(), action.GetNamespace())
			watches = append(watches, begun)
			return true, begun, err
		})
		s.clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("connection refused")
		})
		s.taint("n", "k")
		s.pod("p", "n", 300)
		s.pod("q", "n", 300)
		s.watch()
		s.out.take()
		s.errOut.take()

		down.Store(true)
		for _, begun := range watches {
			begun.Stop()
		}
		s.pass(10 * time.Second)
		s.deletePod("p")
		s.pod("r", "n", 600)
		s.deletePod("q")
		s.pod("q", "n", 300, func(pod *corev1.Pod) { pod.UID = "another of the same name" })
		s.pass(10 * time.Second)
		s.says()
		if notes := s.errOut.take(); strings.Count(notes, "\n") != 1 || !strings.HasPrefix(notes, "Note: The watch of pods broke (") {
			t.Errorf("the notes are %q, want one", notes)
		}

		down.Store(false)
		s.pass(2 * time.Minute)
		var whats []string
		for line := range strings.Lines(s.out.take()) {
			whats = append(whats, strings.Join(strings.Fields(line)[2:7], " "))
		}
		slices.Sort(whats)
		want := []string{"a/p on node n is", "a/q on node n is", "a/q on node n leaves", "a/r on node n leaves"}
		if !slices.Equal(whats, want) {
			t.Errorf("after the break it says %q, want %q", whats, want)
		}
	})
}

func TestAWatchThatStaysBrokenIsReportedOnceAMinute(t *testing.T) {
	play(t, func(s *leavingScene) {
		if err := s.options.validate(); err != nil {
			s.t.Fatal(err)
		}
		broken := newBreaks(clock.RealClock{}, s.options.note)
		for range 90 {
			broken.tell("pods", errors.New("connection refused"))
			s.pass(time.Second)
		}
		note := "Note: The watch of pods broke (connection refused). Until it is restarted, you see the last known state.\n"
		if got := s.errOut.take(); got != note+note {
			s.t.Errorf("the notes are %q, want two", got)
		}
	})
}

func TestAWatchThatIsNotAllowedEndsWithWhatToDo(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.clients.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no right"))
		})
		s.watch()
		s.pass(time.Minute)
		select {
		case err := <-s.done:
			if err == nil || !strings.Contains(err.Error(), "watch nodes: ") || !strings.Contains(err.Error(), "ask for the right to watch them") {
				t.Errorf("it ends with %v", err)
			}
		default:
			t.Error("it goes on")
		}
	})
}

func TestAnUnresponsiveClusterIsReportedBeforeAnythingIsWatched(t *testing.T) {
	play(t, func(s *leavingScene) {
		if err := s.options.validate(); err != nil {
			t.Fatal(err)
		}
		s.clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Minute) //nolint:forbidigo // the time is virtual
			return true, nil, context.DeadlineExceeded
		})
		err := s.options.probe(s.t.Context(), "https://example.com", s.clients, 30*time.Second)
		if err == nil || !strings.HasPrefix(err.Error(), "list pods: the API server https://example.com does not answer: ") {
			t.Errorf("it ends with %v", err)
		}
	})
}

func TestAWatchEndsWithoutAnErrorWhenItIsInterrupted(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.watch()
		s.stop()
		synctest.Wait()
		if err := <-s.done; err != nil {
			t.Errorf("it ends with %v", err)
		}
		s.says()
	})
}

// hold creates an EvictionPolicy that pauses everything.
func (s *leavingScene) hold(name string) {
	s.t.Helper()
	stop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"action": "Hold", "paused": "a drill"},
	}}
	if _, err := s.reader.Dynamic.Resource(source.EvictionPolicies).Create(s.t.Context(), stop, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *leavingScene) release(name string) {
	s.t.Helper()
	if err := s.reader.Dynamic.Resource(source.EvictionPolicies).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func TestPoliciesThatHoldAndReleaseAreTold(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.hold("stop")
		s.taint("n", "k")
		s.pod("p", "n", 60)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/p on node n leaves in 60s, at 2000-01-01T00:01:00Z, because of taint k:NoExecute, held by policy stop: Paused")
		s.pass(time.Minute)
		s.says("2000-01-01T00:01:00Z pod a/p on node n is due now, because of taint k:NoExecute, held by policy stop: Paused")
		s.hold("another") // the first by name is reported
		s.pass(policiesRead)
		s.says("2000-01-01T00:01:05Z pod a/p on node n stays, held by policy another: Paused")
		s.release("another")
		s.release("stop")
		s.pass(policiesRead)
		s.says("2000-01-01T00:01:10Z pod a/p on node n is no longer held")
	})
}

// policiesRead is long enough for policies to be read again.
const policiesRead = 5*time.Second + collectFor

func TestUnreadablePoliciesAreNotedOnce(t *testing.T) {
	play(t, func(s *leavingScene) {
		s.hold("stop")
		s.clients.PrependReactor("list", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "poddisruptionbudgets"}, "", errors.New("no right"))
		})
		s.watch()
		s.pass(time.Minute)
		const want = "Note: You may not list poddisruptionbudgets, so PodDisruptionBudgets are not taken into account.\n" +
			"Note: Taintkeeper is not running, or runs without leader election, so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force. Due pods leave only if the built-in controller evicts them.\n"
		if got := s.errOut.take(); got != want {
			t.Errorf("the notes are %q, want %q", got, want)
		}
	})
}

func TestThatTaintkeeperDoesNotEvictIsNotedOnceEachTimeItStops(t *testing.T) {
	play(t, func(s *leavingScene) {
		const leader, note = "taintkeeper", "Note: Taintkeeper is not running (Lease kube-system/taintkeeper was last renewed "
		renew := func() {
			s.put(coordinationv1.SchemeGroupVersion.WithResource("leases"), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceSystem, Name: leader,
					Labels: (&v1alpha1.Leader{Controllers: []string{"eviction"}}).Labels(leader),
				},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: new(leader), RenewTime: new(metav1.NowMicro())},
			}, metav1.NamespaceSystem)
		}
		renew()
		s.watch()
		for range 2 {
			if got := s.errOut.take(); got != "" {
				t.Errorf("while Taintkeeper runs it notes %q", got)
			}
			s.pass(10 * time.Minute)
			if got := s.errOut.take(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, note) {
				t.Errorf("it notes %q, want one line that begins with %q", got, note)
			}
			renew()
			s.pass(policiesRead)
		}
	})
}

func TestEveryFormatTellsEachChange(t *testing.T) {
	for format, want := range map[string]string{
		show.Name: "pod/p -n a\n",
		show.Wide: "2000-01-01T00:00:00Z pod a/p on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute, toleration: k=*:NoExecute for 300s, owner: StatefulSet/s, priority: 7\n",
		show.JSON: `{"kind":"PendingChange","apiVersion":"cli.taintkeeper.dev/v1alpha1","at":"2000-01-01T00:00:00.000000Z","change":"Leaves",` +
			`"pod":{"namespace":"a","name":"p","uid":"p","node":"n","due":"2000-01-01T00:05:00.000000Z","taint":"k:NoExecute",` +
			`"toleration":{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},"owner":{"kind":"StatefulSet","name":"s"},"priority":7}}` + "\n",
		show.YAML: "apiVersion: cli.taintkeeper.dev/v1alpha1\nat: \"2000-01-01T00:00:00.000000Z\"\nchange: Leaves\nkind: PendingChange\npod:\n  due: \"2000-01-01T00:05:00.000000Z\"\n" +
			"  name: p\n  namespace: a\n  node: \"n\"\n  owner:\n    kind: StatefulSet\n    name: s\n  priority: 7\n  taint: k:NoExecute\n" +
			"  toleration:\n    effect: NoExecute\n    key: k\n    operator: Exists\n    tolerationSeconds: 300\n  uid: p\n",
	} {
		t.Run(format, func(t *testing.T) {
			play(t, func(s *leavingScene) {
				s.options.output.Format = format
				s.taint("n", "k")
				s.pod("p", "n", 300, func(pod *corev1.Pod) {
					pod.Spec.Priority = new(int32(7))
					pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "s", Controller: new(true)}}
				})
				s.watch()
				if got := s.out.take(); got != want {
					t.Errorf("it prints\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}
