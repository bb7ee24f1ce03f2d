// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// What random histories of node health do not reach, or no model of it would be certain.

// kubelets are nodes of a zone, each of which renews before the one after it.
func kubelets(names ...string) (all []nodeSpec) {
	for i, name := range names {
		all = append(all, nodeSpec{Name: name, Zone: "a", Phase: 1090*ms + time.Duration(1001*i)*ms})
	}
	return all
}

func bothOfNodes() map[string]contestant {
	return map[string]contestant{"ours": oursOfNodes, "upstream": upstreamOfNodes}
}

// It looks at a node that falls silent, at one that never posted its status, and at one that goes.
func TestConditionsAndEventsAreUpstreamsLetterForLetter(t *testing.T) {
	nodes := kubelets("a", "b", "c", "d")
	h := &history{Nodes: nodes[:1], Start: sec}
	for i, node := range nodes[1:] {
		node.Phase += sec - ms
		node.Created, node.Absent = time.Duration(2000+1000*i)*ms, node.Name == "c"
		h.Steps = append(h.Steps, step{node.Created + 98*ms, addNode{node}})
	}
	h.Steps = append(h.Steps, step{9098 * ms, fall{[]string{"b"}}}, step{20098 * ms, removeNode{"d"}})
	said := map[string][]string{}
	for who, c := range bothOfNodes() {
		w := play(t, h, c)
		for _, name := range []string{"b", "c"} {
			for _, c := range w.cluster.nodes[name].Status.Conditions {
				c.LastTransitionTime = metav1.Time{} // differs as the looks do
				said[who] = append(said[who], name+": "+seed.Describe(c))
			}
		}
		for _, e := range w.events {
			if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name != "a" && e.Reason != "NoExecuteTaintHeld" { // which only ours has
				said[who] = append(said[who], seed.Describe([]any{e.Namespace, e.InvolvedObject, e.Type, e.Reason, e.Message, e.Source.Component}))
			}
		}
		slices.Sort(said[who])
	}
	if diff := gocmp.Diff(said["upstream"], said["ours"]); diff != "" {
		t.Errorf("upstream says -, ours says +:\n%s", diff)
	}
	const least = 8 + 3 + 1 + 1 // conditions, and nodes that came, fell silent and went
	if len(said["upstream"]) < least {
		t.Errorf("upstream says no more than %q", said["upstream"])
	}
}

// Since 1.37, upstream reads a Lease before it calls its node Unknown. If the Lease has been renewed, its cache is
// behind, and it skips all nodes in all passes until the cache has caught up.
// A pass that skips all nodes counts no zone, so handleDisruption drops the states of all zones. If all were fully
// disrupted, it does not notice later that they no longer are, so it grants no new grace periods
// (handleDisruption: allWasFullyDisrupted). No event says that it skips nodes; ours says that it is blind.
func TestWhileItsLeasesAreBehindUpstreamForgetsTheDisruptionAndSaysNothing(t *testing.T) {
	const from, until, recovered = 30 * sec, 110 * sec, 105 * sec
	h := &history{Nodes: kubelets("a", "b"), Start: sec, Steps: []step{
		notReady(20098*ms, "a"), notReady(21098*ms, "b"), // all zones
		{29098 * ms, fall{[]string{"b"}}},
		ready(recovered+98*ms, "a"),
	}}
	for who, c := range bothOfNodes() {
		w := play(t, h, c, func(_ *testing.T, w *world) {
			time.AfterFunc(from, w.api.Watches("leases").Hold)
			time.AfterFunc(until, w.api.Watches("leases").Release)
		})
		unknown := slices.IndexFunc(w.nodes["b"], func(l look) bool { return l.ready == corev1.ConditionUnknown })
		graced := unknown >= 0 && w.nodes["b"][unknown].at >= recovered+grace.Monitor // b has a new grace period from the recovery on
		told := slices.ContainsFunc(w.events, func(e *corev1.Event) bool { return e.InvolvedObject.Kind != "Node" })
		if unknown < 0 || graced != (who == "ours") || told != (who == "ours") {
			t.Errorf("%s: a new grace period: %t; it says that it cannot tell which nodes are silent: %t; b: %v", who, graced, told, w.nodes["b"])
		}
	}
}

// These are differences in how many nodes are tainted NoExecute in the end, and one in the writes.
func TestWhereUpstreamNeverTaints(t *testing.T) {
	one, half := policy, policy
	one.Rate, one.FullDisruptionRate, half.Rate = 1, 1, 0.5
	recovery := history{Nodes: kubelets("a", "b"), Start: sec, Steps: []step{notReady(20098*ms, "a"), notReady(21098*ms, "b"), ready(40098*ms, "a")}}
	excluded := history{Nodes: kubelets("a1", "a2", "a3", "a4"), Start: sec}
	for i := range excluded.Nodes {
		excluded.Nodes[i].Excluded = true
		excluded.Steps = append(excluded.Steps, notReady(time.Duration(20098+1000*i)*ms, excluded.Nodes[i].Name))
	}
	for name, test := range map[string]struct {
		history    history
		contestant contestant
		tainted    int
	}{
		// client-go's limiter that never gives a token says that its rate is 1, so SwapLimiter takes a limiter of one node
		// per second for the one that it has (flowcontrol.fakeNeverRateLimiter.QPS).
		"at one node per second after a disruption, upstream": {recovery, upstreamAtRates(one), 0},
		"at half of that, upstream":                           {recovery, upstreamAtRates(half), 1},
		"at one node per second after a disruption, ours":     {recovery, oursChanged(func(c *nodehealth.Config) { c.Policy = one }), 1},
		// A zone whose nodes are all excluded from disruption checks is no zone to handleDisruption, which drops its state,
		// so that the next pass makes it a new queue: nodes that are tainted already are queued again, and take the only
		// token of a pass from those that are not.
		"nodes that are all excluded but the first, upstream": {excluded, upstreamOfNodes, 1},
		"nodes that are all excluded, ours":                   {excluded, oursOfNodes, 4},
	} {
		tainted := 0
		for _, looks := range play(t, &test.history, test.contestant).nodes {
			if looks[len(looks)-1].noExecute != "" {
				tainted++
			}
		}
		if tainted != test.tainted {
			t.Errorf("%s: %d are tainted in the end, want %d", name, tainted, test.tainted)
		}
	}
	// Upstream makes a separate write for NoSchedule and NoExecute (kubernetes/kubernetes#112930, kubernetes/kubernetes#101599).
	h := &history{Nodes: kubelets("a", "b"), Start: sec, Steps: []step{notReady(20098*ms, "b"), ready(60098*ms, "b")}}
	for who, want := range map[string]int{"ours": 0, "upstream": 2} {
		apart := 0
		for _, l := range play(t, h, bothOfNodes()[who]).nodes["b"] {
			if (l.noSchedule == "") != (l.noExecute == "") {
				apart++
			}
		}
		if apart != want {
			t.Errorf("%s: one came or went without the other %d times, want %d", who, apart, want)
		}
	}
}

// It tries every zone of up to twelve nodes, and random larger ones, with thresholds that lie on a border, near one, or
// anywhere.
func TestTheStateAndTheRateOfAZoneAreUpstreams(t *testing.T) {
	r := seed.Rand(0)
	for _, share := range []float32{0, 0.25, 1.0 / 3, 0.5, 0.55, 0.6, 2.0 / 3, 0.75, 1, 1.5, r.Float32(), r.Float32(), r.Float32()} {
		for _, large := range []int{0, 3, 10, 50} {
			p := readiness.Policy{Rate: r.Float32(), SecondaryRate: r.Float32(), LargeZone: large, UnhealthyShare: share}
			p.FullDisruptionRate = p.Rate
			client := &fake.Clientset{}
			factory := informers.NewSharedInformerFactory(client, 0)
			upstream, err := nodelifecycle.NewNodeLifecycleController(t.Context(),
				factory.Coordination().V1().Leases(), factory.Core().V1().Pods(), factory.Core().V1().Nodes(), factory.Apps().V1().DaemonSets(),
				client, period, grace.Startup, grace.Monitor, p.Rate, p.SecondaryRate, int32(p.LargeZone), p.UnhealthyShare)
			if err != nil {
				t.Fatal(err)
			}
			for size := range 13 {
				for notReady := range size + 1 {
					compareZone(t, upstream, p, size, notReady)
				}
			}
			for range 20 {
				size := 1 + r.IntN(200)
				compareZone(t, upstream, p, size, r.IntN(size+1))
			}
		}
	}
}

func compareZone(t *testing.T, upstream *nodelifecycle.Controller, p readiness.Policy, size, notReady int) {
	t.Helper()
	bad := []*corev1.NodeCondition{nil, {Status: corev1.ConditionFalse}, {Status: corev1.ConditionUnknown}}
	conditions := make([]*corev1.NodeCondition, size)
	for i := range conditions {
		if conditions[i] = bad[i%len(bad)]; i >= notReady {
			conditions[i] = &corev1.NodeCondition{Status: corev1.ConditionTrue}
		}
	}
	unhealthy, state := upstream.ComputeZoneState(conditions)
	if got := p.State(size, notReady); string(got) != string(state) || unhealthy != notReady {
		t.Errorf("%d of %d nodes not ready, threshold %v: ours is %s, upstream's %s of %d", notReady, size, p.UnhealthyShare, got, state, unhealthy)
	}
	for state, want := range map[readiness.State]float32{
		readiness.Normal:            p.Rate,
		readiness.PartialDisruption: upstream.ReducedQPSFunc(size),
		readiness.FullDisruption:    upstream.HealthyQPSFunc(size),
	} {
		if got := p.RateOf(state, size); got != want {
			t.Errorf("the rate of %d nodes in %s, large above %d: ours is %v, upstream's %v", size, state, p.LargeZone, got, want)
		}
	}
}
