// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// taintScene is a cluster, and a user at a terminal.
type taintScene struct {
	*scene

	location state.Location
	clock    timeline.Clock
}

func playTaint(t *testing.T, test func(*taintScene), objects ...runtime.Object) {
	t.Helper()
	play(t, func(s *scene) { test(&taintScene{scene: s}) }, objects...)
}

// taint runs the command taint with its arguments.
func (s *taintScene) taint(args ...string) error {
	return s.run(s.Context(), (*taintOptions).taintCommand, args)
}

func (s *taintScene) untaint(args ...string) error {
	return s.run(s.Context(), (*taintOptions).untaintCommand, args)
}

func (s *taintScene) run(ctx context.Context, newCommand func(*taintOptions) *cobra.Command, args []string) error {
	o := taintNewOptions(s.env(), genericclioptions.NewConfigFlags(true))
	o.asks = true
	o.connect = func(command.Env, *genericclioptions.ConfigFlags) (*source.Reader, error) {
		reader := s.reader()
		reader.Cluster.Location, reader.Clock = s.location, &s.clock
		return reader, nil
	}
	cmd := newCommand(o)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// node returns a node as it is stored. Reactors can call it, because they hold the lock of the client.
func (s *taintScene) node(name string) *corev1.Node {
	s.Helper()
	node, err := s.client.Tracker().Get(nodesResource, "", name)
	s.must(err)
	return node.(*corev1.Node)
}

// taints returns the taints of a node, each with its timeAdded as seconds since the taintScene began.
func (s *taintScene) taints(node string) []string {
	s.Helper()
	var all []string
	for _, taint := range s.node(node).Spec.Taints {
		spec := taints.Format(taint)
		if !taint.TimeAdded.IsZero() {
			spec += fmt.Sprintf(" +%v", taint.TimeAdded.Sub(virtualStart))
		}
		all = append(all, spec)
	}
	return all
}

func (s *taintScene) mustHave(node string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.taints(node), cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("taints of node %s (-want +got):\n%s", node, diff)
	}
}

// ends makes a pod leave after the given time.
func (s *taintScene) ends(after time.Duration, name string) {
	s.later(after, func() { s.remove(podsResource, "default", name) })
}

// becomes replaces the taints of a node, as another user would.
func (s *taintScene) becomes(node string, specs ...string) {
	s.put(nodesResource, taintedNode(node, specs...), "")
}

// refuses makes the given number of calls of a verb on nodes fail, from the given time on. -1 means all calls.
func (s *taintScene) refuses(from time.Duration, verb string, times int, err func(name string) error) {
	s.client.PrependReactor(verb, "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if times == 0 || time.Since(virtualStart) < from {
			return false, nil, nil
		}
		times--
		name := ""
		if named, ok := action.(interface{ GetName() string }); ok {
			name = named.GetName()
		}
		return true, nil, err(name)
	})
}

var taintedNodes = schema.GroupResource{Resource: "nodes"}

func taintedNode(name string, specs ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "7", Annotations: map[string]string{"a": "b"}}}
	for _, spec := range specs {
		taint, err := taints.Parse(spec)
		if err != nil {
			panic(err)
		}
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return node
}

func podOnNode(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(virtualStart.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range change {
		change(pod)
	}
	return pod
}

func toleratingTaint(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}
	}
}

// taintStory is one run of taint or untaint. It runs on nodes and pods as they are given, until the command ends.
type taintStory struct {
	objects []runtime.Object
	before  func(*taintScene)
	in      string // answers to questions
	args    string // the first word is the command

	fails  []string // parts of the error; the command succeeds if there are none
	says   []string // parts of what it says on stderr
	silent string   // it does not say this
	prints string   // a part of what it prints on stdout
	has    []string // each node with the taints that it has in the end, as "n m:NoExecute +0s"
	takes  [2]time.Duration
}

func (story *taintStory) play(t *testing.T) {
	t.Helper()
	playTaint(t, func(s *taintScene) {
		s.in = story.in
		if story.before != nil {
			story.before(s)
		}
		began, args := time.Now(), strings.Fields(story.args)
		run := s.taint
		if args[0] == "untaint" {
			run = s.untaint
		}
		err := run(args[1:]...)
		if story.fails == nil {
			s.must(err)
		} else {
			s.mustFail(err, story.fails...)
		}
		s.mustSay(s.err.String(), story.says...)
		if story.silent != "" && strings.Contains(s.err.String(), story.silent) {
			s.Errorf("it says %q:\n%s", story.silent, s.err.String())
		}
		s.mustSay(s.out.String(), story.prints)
		for _, node := range story.has {
			name, specs, _ := strings.Cut(node, " ")
			if got := strings.Join(s.taints(name), ", "); got != specs {
				s.Errorf("node %s has the taints %q, want %q", name, got, specs)
			}
		}
		if took := time.Since(began); story.takes[1] > 0 && (took < story.takes[0] || took > story.takes[1]) {
			s.Errorf("it takes %s, want %s to %s", took, story.takes[0], story.takes[1])
		}
	}, story.objects...)
}

// brake is a policy whose breaker trips when more than one pod is due.
func brake(s *taintScene) {
	s.policy("brake", map[string]any{"action": "Delete", "breaker": map[string]any{"maxDue": int64(1)}})
}

func conflict(name string) error {
	return apierrors.NewConflict(taintedNodes, name, errors.New("changed"))
}

// forbidPods takes away the right to list pods.
func forbidPods(s *taintScene) {
	s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	})
}

func TestTaintsAreChangedAfterAPlanAndAQuestion(t *testing.T) {
	const tripped = "more pods would be due at once than EvictionPolicy brake allows: add --yes"
	n, p, q := taintedNode("n"), podOnNode("n", "p"), podOnNode("n", "q")
	for name, story := range map[string]taintStory{
		"the question names the cluster": {
			objects: []runtime.Object{n}, in: "y\n", args: "taint n m:NoExecute",
			before: func(s *taintScene) {
				s.location = state.Location{Context: "admin@prod", Cluster: "prod", Server: "https://example.com"}
			},
			says: []string{
				"This plan is for cluster prod (context admin@prod, https://example.com).\n",
				"m:NoExecute on 1 node of cluster prod (context admin@prod, https://example.com): n\nContinue? [y/N] ",
			},
		},
		"yes": {
			objects: []runtime.Object{n, p}, in: "Yes\n", args: "taint n m=1:NoExecute", prints: "node/n tainted\n",
			says: []string{"1 of 1 pod on 1 node leaves, at once.\n", "m=1:NoExecute on 1 node: n\nContinue? [y/N] "},
			has:  []string{"n m=1:NoExecute +0s"},
		},
		"no": {
			objects: []runtime.Object{n, p}, in: "yep\n", args: "taint n m:NoExecute", has: []string{"n "},
			fails: []string{"the answer was not yes: no taint was changed"},
		},
		"no answer": {
			objects: []runtime.Object{n, p}, args: "taint n m:NoExecute", has: []string{"n "},
			fails: []string{"the answer was not yes: no taint was changed"},
		},

		"what would trip a breaker needs --yes": {
			objects: []runtime.Object{n, p, q}, before: brake, in: "y\n", args: "taint n m:NoExecute", fails: []string{tripped}, has: []string{"n "},
			says: []string{"EvictionPolicy brake would trip at once: 2 of 2 selected pods would leave, and the breaker allows 1.\n"},
		},
		"with --yes": {objects: []runtime.Object{n, p, q}, before: brake, args: "taint n m:NoExecute --yes", has: []string{"n m:NoExecute +0s"}},
		"one pod is": {objects: []runtime.Object{n, p}, before: brake, in: "y\n", args: "taint n m:NoExecute", has: []string{"n m:NoExecute +0s"}},
		"a dry run":  {objects: []runtime.Object{n, p, q}, before: brake, args: "taint n m:NoExecute --dry-run=client", has: []string{"n "}},
		"nobody must leave because of it": {
			objects: []runtime.Object{taintedNode("n", "k:NoExecute"), p, q}, before: brake, in: "y\n", args: "taint n m:NoSchedule",
		},
		"a taint is taken off": {
			objects: []runtime.Object{taintedNode("n", "k:NoExecute", "j:NoExecute"), p, q}, before: brake, in: "y\n", args: "untaint n k",
		},
		"pods that are due on other nodes count": {
			objects: []runtime.Object{taintedNode("n", "k:NoExecute"), p, taintedNode("o"), podOnNode("o", "q")}, before: brake,
			in: "y\n", args: "taint o m:NoExecute", fails: []string{tripped}, has: []string{"o "},
		},

		"timeAdded is set on NoExecute taints, to the second": {
			objects: []runtime.Object{taintedNode("n", "c:NoExecute")}, args: "taint n a:NoExecute b:NoSchedule c:NoExecute- --yes",
			before: func(*taintScene) { bubble.Pass(90500 * time.Millisecond) }, prints: "node/n modified\n",
			has: []string{"n a:NoExecute +1m30s, b:NoSchedule"},
		},
		"it uses the clock of the API server if this machine's is wrong": {
			objects: []runtime.Object{n}, args: "taint n m:NoExecute --yes",
			before: func(s *taintScene) { s.clock.Heard(virtualStart.Add(10*time.Minute), time.Now()) },
			has:    []string{"n m:NoExecute +10m1s"}, // the latest time that is possible
			says:   []string{"Note: This machine's clock and the API server's differ by 10m0s; timeAdded uses the API server's.\n"},
		},
		"a taint that is overwritten keeps it if nothing else changes": {
			objects: []runtime.Object{n}, args: "taint n a=1:NoExecute b=2:NoExecute --yes --overwrite",
			before: func(s *taintScene) {
				s.must(s.taint("n", "a=1:NoExecute", "b=1:NoExecute", "--yes"))
				bubble.Pass(time.Minute)
			},
			has: []string{"n a=1:NoExecute +0s, b=2:NoExecute +1m0s"}, prints: "node/n tainted\nnode/n modified\n",
		},

		"after a conflict the node is read and planned again": {
			objects: []runtime.Object{n, p}, in: "y\ny\n", args: "taint n m:NoExecute",
			before: func(s *taintScene) {
				s.refuses(0, "patch", 1, func(name string) error { s.becomes(name, "other:NoExecute"); return conflict(name) })
			},
			has: []string{"n m:NoExecute +0s, other:NoExecute"}, // the answer is asked for twice, as there is no third
			says: []string{
				"Continue? [y/N]", "Node n has changed in the meantime, so here is a new plan.\n",
			},
		},
		"a conflict about something else is not mentioned": {
			objects: []runtime.Object{n}, in: "y\n", args: "taint n m:NoSchedule", has: []string{"n m:NoSchedule"}, silent: "again",
			before: func(s *taintScene) { s.refuses(0, "patch", 3, conflict) },
		},
		"endless conflicts are an error": {
			objects: []runtime.Object{n}, args: "taint n m:NoSchedule --yes", fails: []string{"node n: other writers keep changing it", "try again"},
			before: func(s *taintScene) { s.refuses(0, "patch", -1, conflict) },
		},
		"a node that cannot be changed does not stop the others": {
			objects: []runtime.Object{taintedNode("first"), taintedNode("forbidden"), taintedNode("last"), taintedNode("tainted", "m:NoSchedule")},
			args:    "taint --all m:NoSchedule --yes",
			before: func(s *taintScene) {
				s.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
					denied := apierrors.NewForbidden(taintedNodes, "forbidden", errors.New(`User "u" cannot patch resource "nodes"`))
					return action.(clienttesting.PatchAction).GetName() == "forbidden", nil, denied
				})
			},
			fails: []string{
				`node tainted: add taint "m:NoSchedule": the node already has "m:NoSchedule"`,
				"node forbidden: ", "ask for permission to patch nodes, and to get them",
			},
			says: []string{"Note: Left out node tainted: "}, prints: "node/first tainted\nnode/last tainted\n",
			has: []string{"first m:NoSchedule", "last m:NoSchedule"},
		},
		"a user who must not list pods can taint": {
			objects: []runtime.Object{n}, args: "taint n m:NoExecute --yes", before: forbidPods, has: []string{"n m:NoExecute +0s"},
			says: []string{"Note: You may not list pods, so the plan cannot say which pods leave.\n"}, silent: "No pod leaves",
		},
		"but not wait": {
			objects: []runtime.Object{n}, args: "taint n m:NoExecute --yes --wait", before: forbidPods, has: []string{"n "},
			fails: []string{"list pods: ", "ask for permission to list them"},
		},
	} {
		t.Run(name, story.play)
	}
}

func TestAQuestionCanBeInterrupted(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		ctx, stop := context.WithCancel(s.Context())
		stop()
		s.mustFail(s.run(ctx, (*taintOptions).taintCommand, []string{"n", "m:NoExecute"}), "interrupted")
		s.mustHave("n")
	}, taintedNode("n"))
}

func TestADryRunChangesNothing(t *testing.T) {
	for how, test := range map[string]struct {
		sent int
		says string
	}{"client": {0, "node/n tainted (dry run)\n"}, "server": {1, "node/n tainted (server dry run)\n"}} {
		t.Run(how, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				sent := 0
				s.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
					sent++
					if diff := cmp.Diff([]string{"All"}, action.(clienttesting.PatchActionImpl).PatchOptions.DryRun); diff != "" {
						s.Error(diff)
					}
					return true, taintedNode("n", "m:NoExecute"), nil
				})
				s.must(s.taint("n", "m:NoExecute", "--dry-run="+how))
				s.mustHave("n")
				s.mustSay(s.out.String(), test.says)
				if sent != test.sent {
					s.Errorf("%d patches are sent", sent)
				}
			}, taintedNode("n"))
		})
	}
}

func TestThePatchHoldsForTheVersionThatWasRead(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.must(s.taint("n", "m:NoSchedule", "--yes"))
		for _, action := range s.client.Actions() {
			if patch, ok := action.(clienttesting.PatchAction); ok {
				s.mustSay(string(patch.GetPatch()), `"resourceVersion":"7"`, `"uid":"n"`)
				return
			}
		}
		s.Error("there is no patch")
	}, taintedNode("n"))
}

func TestUntaintTakesKeysBehindNodes(t *testing.T) {
	for args, want := range map[string][2]string{
		"a m":                      {"", "m:NoExecute m:NoSchedule"},
		"a b m":                    {"", ""},
		"a b m-":                   {"", ""},
		"nodes a b m:NoExecute":    {"m:NoSchedule", "m:NoSchedule"},
		"node/a m:NoExecute-":      {"m:NoSchedule", "m:NoExecute m:NoSchedule"},
		"a m=x:NoExecute":          {"m:NoSchedule", "m:NoExecute m:NoSchedule"},
		"--all m":                  {"", ""},
		"nodes --all m:NoSchedule": {"m:NoExecute", "m:NoExecute"},
		"a m:NoExecute m":          {"", "m:NoExecute m:NoSchedule"},
	} {
		t.Run(args, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				s.must(s.untaint(append(strings.Fields(args), "--yes")...))
				s.mustHave("a", strings.Fields(want[0])...)
				s.mustHave("b", strings.Fields(want[1])...)
				s.mustSay(s.out.String(), "node/a untainted\n")
			}, taintedNode("a", "m:NoExecute", "m:NoSchedule"), taintedNode("b", "m:NoExecute", "m:NoSchedule"))
		})
	}
}

func TestUntaintSaysWhatIsWrong(t *testing.T) {
	for args, says := range map[string]string{
		"a b":       `node a: cannot remove taint "b": the node has no such taint`,
		"x m":       `there is no node "x"`,
		"a other":   `node a: cannot remove taint "other": the node has no such taint`,
		"a m_:-x":   "parse removal",
		"a b -- -x": "parse removal",
	} {
		t.Run(args, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				s.mustFail(s.untaint(append([]string{"--yes"}, strings.Fields(args)...)...), says)
				s.mustHave("a", "m:NoExecute")
			}, taintedNode("a", "m:NoExecute"), taintedNode("b"))
		})
	}
}

func TestTheOutputIsTheSameAsOfKubectlTaint(t *testing.T) {
	for format, want := range map[string][]string{
		"":     {"node/a tainted\nnode/b tainted\n"},
		"name": {"node/a\nnode/b\n"},
		"yaml": {"apiVersion: v1\nkind: Node\n", "\n---\napiVersion: v1\n", "annotations:\n    a: b\n"},
		"json": {`"kind": "Node"`, `"key": "m"`},
	} {
		t.Run(format, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				s.must(s.taint("--all", "m:NoSchedule", "--yes", "-o", format))
				s.mustSay(s.out.String(), want...)
			}, taintedNode("a"), taintedNode("b", "k:NoSchedule"))
		})
	}
}

// breaks ends the watches of pods at one instant, and makes calls that list or watch them fail until another.
func (s *taintScene) breaks(from, until time.Duration) {
	down := func() bool { return time.Since(virtualStart) >= from && time.Since(virtualStart) < until }
	s.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if down() {
			return true, nil, errors.New("no answer")
		}
		begun, err := s.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err == nil && time.Since(virtualStart) < from {
			s.later(time.Until(virtualStart.Add(from)), begun.Stop)
		}
		return true, begun, err
	})
	s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down(), nil, errors.New("no answer")
	})
}

func TestWaitEndsWhenAllPodsHaveLeft(t *testing.T) {
	const command = "taint n m:NoExecute --yes --wait"
	n, p, left := taintedNode("n"), podOnNode("n", "p"), []string{"All pods that must leave have left.\n"}
	noAnswer := errors.New("no answer")
	for name, story := range map[string]taintStory{
		"at the last of them": {
			objects: []runtime.Object{
				n, podOnNode("n", "now"), podOnNode("n", "later", toleratingTaint(300)), podOnNode("elsewhere", "other"),
				podOnNode("n", "for-ever", func(pod *corev1.Pod) {
					pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				}),
			},
			args: command, takes: [2]time.Duration{310 * time.Second, 312 * time.Second},
			before: func(s *taintScene) {
				s.ends(10*time.Second, "now")
				s.ends(310*time.Second, "later")
			},
			says: append([]string{"Waiting: 0 of 2 pods have left", "Waiting: 1 of 2 pods has left, the last is due at "}, left...),
		},
		// Taintkeeper can be faster than the watch.
		"a pod that is gone before it is watched has left": {
			objects: []runtime.Object{n, p}, args: command, says: left,
			before: func(s *taintScene) {
				s.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return false, nil, s.client.Tracker().Delete(podsResource, "default", "p")
				})
			},
		},
		"somebody takes the taint off": {
			objects: []runtime.Object{n, podOnNode("n", "p", toleratingTaint(300))}, args: command,
			before: func(s *taintScene) { s.later(time.Minute, func() { s.becomes("n") }) }, takes: [2]time.Duration{time.Minute, 62 * time.Second},
		},
		"somebody deletes the node": {
			objects: []runtime.Object{n, p}, args: command, takes: [2]time.Duration{time.Minute, 2 * time.Minute},
			before: func(s *taintScene) { s.later(time.Minute, func() { s.remove(nodesResource, "", "n") }) },
		},
		"even before it is watched": {
			objects: []runtime.Object{n, p}, args: command + " --timeout 2m",
			before: func(s *taintScene) {
				s.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					if len(s.taints("n")) > 0 {
						return false, nil, s.client.Tracker().Delete(nodesResource, "", "n")
					}
					return false, nil, nil
				})
			},
		},
		"the API server does not answer for a while": {
			objects: []runtime.Object{n, p}, args: command, takes: [2]time.Duration{40 * time.Second, 3 * time.Minute},
			before: func(s *taintScene) {
				s.breaks(2500*time.Millisecond, 40*time.Second)
				s.ends(10*time.Second, "p") // unseen by the watch
			},
			says: append([]string{"Waiting, will retry: watch pods: no answer\n"}, left...),
		},
		"nor until the timeout": {
			objects: []runtime.Object{n, p}, args: command + " --timeout 1m", takes: [2]time.Duration{time.Minute, time.Minute},
			before: func(s *taintScene) { s.breaks(10*time.Second, time.Hour) },
			fails:  []string{"after 1m0s, 1 pod has not left", "list pods: no answer"},
		},
		"pods that were never read are not said to have left": {
			objects: []runtime.Object{n, p}, args: command + " --timeout 1m",
			before: func(s *taintScene) {
				s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return len(s.taints("n")) > 0, nil, noAnswer
				})
			},
			fails: []string{"after 1m0s, it is unknown which pods have left, and the change is not undone\nlist pods: no answer"},
		},
		"a pod that comes to the node is counted, and a note says why": {
			objects: []runtime.Object{n, p}, args: command + " --timeout 1m", fails: []string{"after 1m0s, 2 pods have not left"},
			before: func(s *taintScene) {
				s.later(20*time.Second, func() { s.put(podsResource, podOnNode("n", "again", toleratingTaint(10)), "default") })
			},
			says: []string{"Note: 1 pod was scheduled to the nodes in the meantime: add a second taint with the effect NoSchedule to keep off pods that do not tolerate it\n"},
		},
		// It must leave because someone else has also tainted the node.
		"a pod that was there all along has not come": {
			objects: []runtime.Object{n, p, podOnNode("n", "agent", func(pod *corev1.Pod) {
				pod.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists}}
			})},
			args: command + " --timeout 1m", fails: []string{"2 pods have not left"}, silent: "scheduled to the nodes",
			before: func(s *taintScene) {
				s.later(20*time.Second, func() { s.becomes("n", "m:NoExecute", "node.kubernetes.io/unreachable:NoExecute") })
			},
		},
		"without the right to watch nothing is changed": {
			objects: []runtime.Object{n, p}, args: command, has: []string{"n "},
			before: func(s *taintScene) {
				s.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
					return true, nil, apierrors.NewForbidden(taintedNodes, "", errors.New("no"))
				})
			},
			fails: []string{"nothing was changed: wait: watch nodes: ", "ask for permission to watch them"},
		},
		"failures are reported before the wait": {
			objects: []runtime.Object{taintedNode("a"), taintedNode("b", "m:NoExecute"), podOnNode("a", "p")},
			args:    "taint --all m:NoExecute --yes --wait --timeout 5m", fails: []string{"node b: add taint"},
			before: func(s *taintScene) {
				s.later(time.Minute, func() {
					s.mustSay(s.err.String(), `Failed so far (the rest continues): node b: add taint "m:NoExecute": the node already has`)
				})
			},
			has: []string{"a m:NoExecute +0s", "b m:NoExecute"},
		},
		"leases cannot be listed, which does not mean that no controller evicts": {
			objects: []runtime.Object{n, p}, args: command + " --timeout 1m", fails: []string{"cannot tell whether a controller evicts here: list leases: "},
			before: func(s *taintScene) {
				s.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return len(s.taints("n")) > 0, nil, apierrors.NewInternalError(errors.New("out of luck"))
				})
			},
		},
	} {
		t.Run(name, story.play)
	}
}

func TestWaitCanBeInterrupted(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		ctx, stop := context.WithCancel(s.Context())
		s.later(time.Minute, stop)
		err := s.run(ctx, (*taintOptions).taintCommand, []string{"n", "m:NoExecute", "--yes", "--wait"})
		s.mustFail(err, "interrupted: 1 pod has not left", "the change is not undone: m:NoExecute on n")
		s.mustHave("n", "m:NoExecute +0s")
	}, taintedNode("n"), podOnNode("n", "p"))
}

// leaseRenewedAt returns the Lease of a leader that was last renewed at the given time.
func leaseRenewedAt(namespace, name string, at time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("replica"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: virtualStart.Add(at)},
		},
	}
}

func TestATimeoutSaysWhatKeepsEachPod(t *testing.T) {
	deleted := func(at time.Duration, finalizers ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			stamp := metav1.NewTime(virtualStart.Add(at))
			pod.DeletionTimestamp, pod.Finalizers = &stamp, finalizers
		}
	}
	marked := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: message}}
		}
	}
	stays := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, Reason: v1alpha1.TaintEvictionReason, Message: message,
			}}
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		also   []runtime.Object
		says   string
	}{
		"it is due later":               {toleratingTaint(90), nil, "is not due until 2000-01-01T00:01:30Z, in 30s: m:NoExecute is tolerated: m=* for 90s"},
		"its grace period lasts":        {deleted(80 * time.Second), nil, "is terminating: No condition of the pod says why. Its containers have 20s more to stop."},
		"a finalizer keeps it":          {deleted(30*time.Second, "example.com/f", "example.com/g"), nil, "It waits for the finalizers example.com/f, example.com/g: the controllers that set them must remove them."},
		"its kubelet says nothing":      {deleted(30 * time.Second), nil, "Its containers should have ended 30s ago, but the kubelet of node n does not say so"},
		"its condition says who":        {stays(v1alpha1.RefusedMessage("webhook w")), nil, "was due 60s ago: the deletion is refused (webhook w)"},
		"its condition says who holds":  {stays(v1alpha1.StaysMessage("EvictionPolicy p holds it")), nil, "was due 60s ago: EvictionPolicy p holds it"},
		"it is marked, and that is all": {marked("Taint manager: deleting due to NoExecute taint"), nil, "was due 60s ago, and is marked for eviction, but not deleted"},
		"no lease is found": {nil, nil, "was due 60s ago, but no controller has begun to evict it\n" +
			"It is unclear who evicts: there is no sign that Taintkeeper does, and kube-controller-manager does by default; nothing shows whether a flag switches that off. Lease taintkeeper does not exist. Lease kube-controller-manager does not exist. Check that no EvictionPolicy holds the pods, and read the log of the controller that should evict."},
		"somebody should evict": {nil, []runtime.Object{leaseRenewedAt("kube-system", "kube-controller-manager", 50*time.Second)},
			"Lease kube-system/kube-controller-manager is held by replica."},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOnNode("n", "p")
			if test.change != nil {
				test.change(pod)
			}
			playTaint(t, func(s *taintScene) {
				err := s.taint("n", "m:NoExecute", "--yes", "--wait", "--timeout", "1m")
				s.mustFail(err, "after 1m0s, 1 pod has not left, and the change is not undone\n", "pod default/p on node n: ", test.says)
				if took := time.Since(virtualStart); took != time.Minute {
					s.Errorf("it takes %s", took)
				}
			}, append(test.also, taintedNode("n"), pod)...)
		})
	}
}
