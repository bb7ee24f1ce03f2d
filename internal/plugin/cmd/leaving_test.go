// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// leavingScene is a cluster, and a command that prints its pending pods in lines.
type leavingScene struct {
	*scene

	options *leavingOptions
	done    chan error
	stop    context.CancelFunc
}

func playLeaving(t *testing.T, act func(*leavingScene)) {
	t.Helper()
	play(t, func(s *scene) {
		env := s.env()
		leaving := &leavingScene{scene: s, done: make(chan error, 1)}
		leaving.options = &leavingOptions{source: source.New(env, genericclioptions.NewConfigFlags(true)), output: show.NewPrinter(env)}
		act(leaving)
		if leaving.stop != nil {
			leaving.stop()
		}
	})
}

// watch starts the command. It ends with the scene.
func (s *leavingScene) watch() {
	s.Helper()
	s.must(s.options.validate())
	ctx, stop := context.WithCancel(s.Context())
	s.stop = stop
	go func() { s.done <- s.options.watchCluster(ctx, s.reader()) }()
	bubble.Pass(time.Second)
}

// says checks the output since the last check.
func (s *leavingScene) says(lines ...string) {
	s.Helper()
	said := strings.Split(strings.TrimSuffix(s.out.take(), "\n"), "\n")
	if len(lines) == 0 {
		lines = []string{""}
	}
	if !slices.Equal(said, lines) {
		s.Errorf("it says\n  %s\nwant\n  %s", strings.Join(said, "\n  "), strings.Join(lines, "\n  "))
	}
}

// taint sets the taints of a node, and creates the node if necessary. They count from the current second.
func (s *leavingScene) taint(name string, keys ...string) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.Now())})
	}
	s.put(nodesResource, node, "")
}

// pod creates a pod on a node that tolerates key k for a while.
func (s *leavingScene) pod(name, node string, seconds int64, change ...func(*corev1.Pod)) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		}},
	}
	for _, change := range change {
		change(pod)
	}
	s.put(podsResource, pod, pod.Namespace)
}

func TestAWatchTellsALineForEachChange(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.taint("n", "k")
		s.pod("first", "n", 300)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/first on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute")

		bubble.Pass(59 * time.Second)
		s.pod("second", "n", 600)
		bubble.Pass(time.Second)
		s.says("2000-01-01T00:01:00Z pod a/second on node n leaves in 8m59s, at 2000-01-01T00:10:00Z, because of taint k:NoExecute")

		s.pod("second", "n", 120)
		bubble.Pass(time.Second)
		s.says("2000-01-01T00:01:01Z pod a/second on node n has a new due time: it leaves in 59s, at 2000-01-01T00:02:00Z, because of taint k:NoExecute")

		bubble.Pass(time.Minute)
		s.says("2000-01-01T00:02:00Z pod a/second on node n is due now, because of taint k:NoExecute")

		s.remove(podsResource, "a", "second")
		bubble.Pass(time.Second)
		s.says("2000-01-01T00:02:02Z pod a/second on node n is gone, 2s after it was due")

		s.taint("n")
		bubble.Pass(time.Second)
		s.says("2000-01-01T00:02:03Z pod a/first on node n may stay, instead of leaving at 2000-01-01T00:05:00Z")

		bubble.Pass(time.Hour)
		s.says()
	})
}

func TestAPodThatTerminatesIsGoneAndOneThatIsNotToleratedAtAllLeavesNow(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.taint("n", "k")
		s.pod("early", "n", 300)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/early on node n leaves in 5m, at 2000-01-01T00:05:00Z, because of taint k:NoExecute")

		s.pod("early", "n", 300, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		s.pod("bare", "n", 0, func(pod *corev1.Pod) { pod.Spec.Tolerations = nil })
		bubble.Pass(time.Second)
		s.says(
			"2000-01-01T00:00:01Z pod a/early on node n is gone, 4m59s before it was due",
			"2000-01-01T00:00:01Z pod a/bare on node n was due 1s ago, at 2000-01-01T00:00:00Z, because of taint k:NoExecute",
		)
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
			playLeaving(t, func(s *leavingScene) {
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

func TestAWatchThatStaysBrokenIsReportedOnceAMinute(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		var down atomic.Bool
		s.dynamic.PrependReactor("list", "evictionpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("connection refused")
		})
		s.watch()
		s.err.take()
		down.Store(true)
		bubble.Pass(90 * time.Second)
		const note = "Note: The watch of evictionpolicies broke ("
		if got := s.err.take(); strings.Count(got, note) != 2 {
			s.Errorf("the notes are %q, want two of %q", got, note)
		}
	})
}

func TestAWatchThatIsNotAllowedEndsWithWhatToDo(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no right"))
		})
		s.watch()
		s.mustFail(<-s.done, "watch nodes: ", "ask for permission to watch them")
	})
}

func TestAnUnresponsiveClusterIsReportedBeforeAnythingIsShown(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, context.DeadlineExceeded
		})
		s.watch()
		s.mustFail(<-s.done, "list pods: the API server https://example.com does not answer: ")
	})
}

func TestAWatchEndsWithoutAnErrorWhenItIsInterrupted(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.watch()
		s.stop()
		synctest.Wait()
		s.must(<-s.done)
		s.says()
	})
}

// hold creates an EvictionPolicy that pauses everything.
func (s *leavingScene) hold(name string) {
	s.policy(name, map[string]any{"action": "Hold", "paused": "a drill"})
}

func (s *leavingScene) release(name string) {
	s.must(s.dynamic.Resource(source.EvictionPolicies).Delete(s.Context(), name, metav1.DeleteOptions{}))
}

func TestPoliciesThatHoldAndReleaseAreTold(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.hold("stop")
		s.taint("n", "k")
		s.pod("p", "n", 60)
		s.watch()
		s.says("2000-01-01T00:00:00Z pod a/p on node n leaves in 60s, at 2000-01-01T00:01:00Z, because of taint k:NoExecute, held by policy stop: Paused")
		bubble.Pass(time.Minute)
		s.says("2000-01-01T00:01:00Z pod a/p on node n is due now, because of taint k:NoExecute, held by policy stop: Paused")
		s.hold("another") // the first by name is reported
		bubble.Pass(policiesRead)
		s.says("2000-01-01T00:01:05Z pod a/p on node n stays, held by policy another: Paused")
		s.release("another")
		s.release("stop")
		bubble.Pass(policiesRead)
		s.says("2000-01-01T00:01:10Z pod a/p on node n is no longer held")
	})
}

// policiesRead is long enough for policies to be read again.
const policiesRead = 5*time.Second + collectFor

func TestUnreadablePoliciesAreNotedOnce(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		s.hold("stop")
		s.client.PrependReactor("list", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "poddisruptionbudgets"}, "", errors.New("no right"))
		})
		s.watch()
		bubble.Pass(time.Minute)
		const want = "Note: You may not list poddisruptionbudgets, so PodDisruptionBudgets are not taken into account.\n" +
			"Note: Taintkeeper is not running, or runs without leader election, so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force. Due pods leave only if the built-in controller evicts them.\n"
		if got := s.err.take(); got != want {
			t.Errorf("the notes are %q, want %q", got, want)
		}
	})
}

func TestThatTaintkeeperDoesNotEvictIsNotedOnceEachTimeItStops(t *testing.T) {
	playLeaving(t, func(s *leavingScene) {
		const leader, note = "taintkeeper", "Note: Taintkeeper is not running (Lease kube-system/taintkeeper was last renewed "
		renew := func() {
			s.put(leasesResource, &coordinationv1.Lease{
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
			if got := s.err.take(); got != "" {
				t.Errorf("while Taintkeeper runs it notes %q", got)
			}
			bubble.Pass(10 * time.Minute)
			if got := s.err.take(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, note) {
				t.Errorf("it notes %q, want one line that begins with %q", got, note)
			}
			renew()
			bubble.Pass(policiesRead)
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
		show.YAML: "---\napiVersion: cli.taintkeeper.dev/v1alpha1\nat: \"2000-01-01T00:00:00.000000Z\"\nchange: Leaves\nkind: PendingChange\npod:\n  due: \"2000-01-01T00:05:00.000000Z\"\n" +
			"  name: p\n  namespace: a\n  node: \"n\"\n  owner:\n    kind: StatefulSet\n    name: s\n  priority: 7\n  taint: k:NoExecute\n" +
			"  toleration:\n    effect: NoExecute\n    key: k\n    operator: Exists\n    tolerationSeconds: 300\n  uid: p\n",
	} {
		t.Run(format, func(t *testing.T) {
			playLeaving(t, func(s *leavingScene) {
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

var quiet = command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}

// newReader returns a reader of a cluster with some policies.
func newReader(clients kubernetes.Interface, policies ...runtime.Object) *source.Reader {
	kinds := map[schema.GroupVersionResource]string{source.EvictionPolicies: "EvictionPolicyList"}
	custom := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, policies...)
	return source.NewReader("https://example.com", clients, custom, nil, show.NewProgress(quiet))
}

func TestOnlyThePodsThatCanBePendingAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		options leavingOptions
		want    string
	}{
		"of one namespace": {leavingOptions{namespace: "shop"}, "shop spec.nodeName!="},
		"of all":           {leavingOptions{}, " spec.nodeName!="},
		"of one node":      {leavingOptions{nodes: nodeSelection{Names: []string{"n-1"}}}, " spec.nodeName=n-1"},
		"of two nodes":     {leavingOptions{nodes: nodeSelection{Names: []string{"n-1", "n-2"}}}, " spec.nodeName!="},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset()
			o := test.options
			o.source = source.New(quiet, genericclioptions.NewConfigFlags(true))
			if err := newReader(clients).Read(t.Context(), o.wants()); err != nil {
				t.Fatal(err)
			}
			calls := clients.Actions()
			if len(calls) < 2 || !calls[0].Matches("list", "nodes") || !calls[1].Matches("list", "pods") {
				t.Fatalf("the calls are %v, want nodes to be listed, and then pods", calls)
			}
			list := calls[1].(clienttesting.ListAction)
			if got := list.GetNamespace() + " " + list.GetListRestrictions().Fields.String(); got != test.want {
				t.Errorf("the pods that are listed are %q, want %q", got, test.want)
			}
		})
	}
}

func TestWithoutTheRightToListNodesNothingIsPendingForSure(t *testing.T) {
	clients := fake.NewClientset()
	clients.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	})
	reader := newReader(clients)
	if err := reader.Read(t.Context(), (&leavingOptions{nodes: nodeSelection{All: true}}).wants()); err != nil {
		t.Fatal(err)
	}
	const want = "You may not list nodes, so this lists only the pods that were evicted and still exist."
	if notes := reader.Cluster.Notes(); !slices.Contains(notes, want) {
		t.Errorf("the notes are %q, want %q", notes, want)
	}
}
