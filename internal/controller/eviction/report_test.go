// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestTheMetricsSayWhatIsAhead(t *testing.T) {
	pending := func(pods float64) act { return counts("taintkeeper_pending_evictions", "", pods) }
	next := func(seconds float64) act { return counts("taintkeeper_next_eviction_seconds", "", seconds) }
	overdue := func(seconds float64) act { return counts("taintkeeper_overdue_seconds", "", seconds) }
	playTales(t, map[string]tale{
		"pods that must leave later": {
			given: []act{func(w *world) {
				w.addNode("tainted-and-empty", "k:NoExecute")
				w.addNode("n")
				w.addPod("forty", tolerating("k", 40))
				w.addPod("stays", tolerating("k", math.MaxInt64))
			}},
			pod: []func(*corev1.Pod){tolerating("k", 10)},
			happens: []act{
				pending(0), lacks("taintkeeper_next_eviction_seconds"), tainted("n", "k:NoExecute"),
				at(5*sec, pending(3), next(6), counts("taintkeeper_tainted_nodes", "", 2)),
				at(12*sec, pending(2), next(29), counts("taint_eviction_controller_pod_deletions_total", "", 1)),
				func(w *world) {
					if problems, err := testutil.GatherAndLint(w.Registry); err != nil || len(problems) > 0 {
						w.T.Errorf("the metrics do not lint: %v %v", problems, err)
					}
				},
			},
		},
		"pods that are due and wait": {
			given: []act{failDeletes(apierrors.NewTooManyRequests("slow down", 1), before(20*sec)), func(w *world) {
				w.addNode("n")
				w.addPod("ten", tolerating("k", 10))
			}},
			happens: []act{overdue(0), tainted("n", "k:NoExecute"), at(16*sec, counts("taintkeeper_due_evictions", "", 2), overdue(15))},
			want:    []act{overdue(0)},
		},
		"a pod is counted once, even if its node is looked at during its delete": {
			given: []act{func(w *world) { w.addNode("n"); w.addPod("other", tolerating("k", 100)) }, func(w *world) {
				w.On("delete", "pods", "", func() error { w.hang(2 * sec); return nil })
			}},
			happens: []act{tainted("n", "k:NoExecute"), pass(sec), changed("other", tolerationSeconds(9999)), pass(10 * sec)},
			want:    []act{ended(resultDeleted, 1), ended(resultGone, 0)},
		},
		"a pod that was gone before it was announced is not counted": {
			given:   []act{func(w *world) { w.answersSlowly("get", "nodes", 2*sec, 30*sec) }},
			happens: []act{tainted("n", "k:NoExecute"), at(2*sec, func(w *world) { w.DeletePod("default", "p") })},
			want:    []act{ended(resultGone, 0), ended(resultCancelled, 0)},
		},
	})
}

// answersSlowly makes each call of a verb on a resource that begins before an instant take some time.
func (w *world) answersSlowly(verb, resource string, takes, until time.Duration) {
	w.On(verb, resource, "", func() error {
		if w.Now() < until && w.Now() >= sec {
			w.hang(takes)
		}
		return nil
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	playTales(t, map[string]tale{"for two pods": {
		given:   []act{func(w *world) { w.addNode("n"); w.addPod("later", tolerating("k", 20)) }},
		config:  []func(*Config){func(c *Config) { c.Mode = DryRun }},
		happens: []act{tainted("n", "k:NoExecute"), pass(4 * hour)},
		want: []act{
			did("delete", 0), did("patch n", 0), did("patch p", 0), did("patch later", 0),
			did("event Marking for deletion Pod default/p (dry run)", 1), did("event Marking for deletion Pod default/later (dry run)", 1),
			ended(resultDryRun, 2), ended(resultDeleted, 0),
		},
	}})
}

func TestRefusalsBackOffAndAreNamed(t *testing.T) {
	admission := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: not now"))
	playTales(t, map[string]tale{"of a ValidatingAdmissionPolicy": {
		given: []act{failDeletes(admission, always)},
		happens: []act{tainted("n", "k:NoExecute"), pass(hour), func(w *world) {
			between("delete p", 12, 30)(w) // one every 4 to 5 minutes in the end
			counts("taintkeeper_refused_evictions", "policy keep", 1)(w)
			did("event Eviction of Pod default/p is refused (policy keep)", 1)(w)
			if got := v1alpha1.WhyItStays(w.Pod("p")); got != "the deletion is refused (policy keep)" {
				w.T.Errorf("its condition says that it stays because %q, want it to name the policy", got)
			}
		}, tainted("n", "k-")},
		want: []act{lacks("taintkeeper_refused_evictions")},
	}})
}

// recorded returns the events that a test records, about a pod on node "n".
func recorded(t *testing.T, record func(e *events, pod *podcache.Pod)) (all []corev1.Event) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		e := newEvents(Evict, client, &timeline.Clock{})
		bubble.Run(t, "the recorder", func(ctx context.Context) error { e.Run(ctx); return nil })
		record(e, &podcache.Pod{Namespace: "default", Name: "p", UID: "uid", Node: "n"})
		bubble.Pass(time.Minute)
		for _, action := range client.Actions() {
			if create, ok := action.(clienttesting.CreateAction); ok { // otherwise the count of an event changes
				all = append(all, *create.GetObject().(*corev1.Event))
			}
		}
	})
	return all
}

func TestInAStormEveryKindOfEventIsCountedOnTheNode(t *testing.T) {
	var v verdict.Verdict
	const withEventsOfTheirOwn = 1000
	got := map[string]string{}
	for _, event := range recorded(t, func(e *events, pod *podcache.Pod) {
		for range withEventsOfTheirOwn {
			e.marking(pod, v)
		}
		e.cancelled(pod, v.Due)
		e.unmarked(pod, v, errors.New("no"))
		e.refused(pod, v, errors.New("no"))
	}) {
		if object := event.InvolvedObject; object.Kind == "Node" && object.Name == "n" {
			got[event.Reason] = event.Type
		}
	}
	want := map[string]string{
		"TaintManagerEviction": "Normal", "DisruptionTargetNotSet": "Warning", "EvictionRefused": "Warning",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events of the node (-want +got):\n%s", diff)
	}
}

func TestEventsOfAnEvictionCarryTheNodeAndTheTaintWithItsDueInstant(t *testing.T) {
	var due time.Time
	all := recorded(t, func(e *events, pod *podcache.Pod) {
		due = time.Now().Add(-time.Minute)
		v := verdict.Verdict{Reason: verdict.Reason{
			Leaves: true, Due: due, Taint: verdict.Taint{Taint: corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}},
		}}
		for _, record := range []func(){
			func() { e.marking(pod, v) },
			func() { e.refused(pod, v, errors.New("no")) },
			func() { e.held(pod, v, policy.Answer{}) },
			func() { e.unmarked(pod, v, errors.New("no")) },
			func() { e.cancelled(pod, due) },
		} {
			record()
			bubble.Pass(time.Second) // client-go names an event after the instant
		}
	})
	if len(all) != 5 {
		t.Fatalf("%d events, want 5", len(all))
	}
	for i := range all {
		event := &all[i]
		want := v1alpha1.EventAction{Due: due, Taint: "k=v:NoExecute"}
		if v1alpha1.IsCancellingText(event.Message) {
			want = v1alpha1.EventAction{Cancels: true, Due: due}
		}
		if event.Action != want.String() || event.Related == nil || event.Related.Kind != "Node" || event.Related.Name != "n" {
			t.Errorf("event %q has action %q and is related to %v; want %q and node n", event.Message, event.Action, event.Related, want)
		}
	}
}
