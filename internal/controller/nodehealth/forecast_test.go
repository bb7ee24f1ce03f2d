// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// scene is a cluster of which some nodes fall silent at fall.
type scene struct {
	build  func(w *world) (silent []string)
	change func(*Config)
	played time.Duration // from the fall on
	// tainted is how many nodes the forecast has tainted NoExecute at an instant, and held how many are held back.
	tainted, held int
}

// fall is when the nodes of a scene give their last sign of life.
const fall = 30 * time.Second

var scenes = map[string]scene{
	"a healthy zone taints at its rate": {
		build:  func(w *world) []string { return w.addZone("a", 10)[:4] },
		played: 3 * time.Minute, tainted: 4,
	},
	"a small zone in partial disruption taints no node": {
		build: func(w *world) []string {
			w.addZone("b", 1)
			return w.addZone("a", 10)[:6]
		},
		played: 5 * time.Minute, held: 6,
	},
	"a large zone in partial disruption taints at the secondary rate": {
		build: func(w *world) []string {
			w.addZone("b", 1)
			return w.addZone("a", 60)[:40]
		},
		played: 8 * time.Minute, tainted: 5, held: 0,
	},
	"a zone without a ready node next to a healthy one has a rate of its own": {
		build: func(w *world) []string {
			w.addZone("b", 3)
			return w.addZone("a", 4)
		},
		change: func(c *Config) { c.Policy.FullDisruptionRate = 0.2 },
		played: 3 * time.Minute, tainted: 4,
	},
	"two zones, each of which has its own tokens": {
		build: func(w *world) []string {
			w.addZone("c", 3)
			return slices.Concat(w.addZone("a", 7)[:3], w.addZone("b", 9)[:2])
		},
		played: 3 * time.Minute, tainted: 5,
	},
	"every zone is disrupted, so no node is tainted and taints are removed": {
		build: func(w *world) []string {
			w.addNode("old", "a", notReadySince)
			return slices.Concat(w.addZone("a", 3), w.addZone("b", 3))
		},
		played: 3 * time.Minute, held: 7,
	},
	"the taint of a node that is already not ready is exchanged at once, and its pods' countdown goes on": {
		build: func(w *world) []string {
			w.addNode("old", "a", notReadySince)
			return append(w.addZone("a", 9)[:2], "old")
		},
		played: 3 * time.Minute, tainted: 3,
	},
	"a node that does not count for its zone is still tainted": {
		build: func(w *world) []string {
			w.addZone("a", 9)
			w.addNode("x", "a", func(n *corev1.Node) { n.Labels[excludeDisruption] = "" })
			return []string{"x"}
		},
		played: 2 * time.Minute, tainted: 1,
	},
	"a node that never posted its status has the start-up grace period from its creation": {
		build: func(w *world) []string {
			w.addZone("a", 3)
			w.Must(w.Client.CoreV1().Nodes().Create(w.T.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "new", UID: "new", ResourceVersion: "1", CreationTimestamp: metav1.Now(),
				Labels: map[string]string{corev1.LabelTopologyZone: "a"},
			}}, metav1.CreateOptions{}))
			return []string{"new"}
		},
		played: 2 * time.Minute, tainted: 1,
	},
	"a rate of zero taints no node": {
		build:  func(w *world) []string { return w.addZone("a", 10)[:2] },
		change: func(c *Config) { c.Policy.Rate = 0 },
		played: 2 * time.Minute, held: 2,
	},
}

// notReadySince makes a node one that is tainted for not being ready since the world began.
func notReadySince(node *corev1.Node) {
	now := metav1.Now()
	readiness.Condition(node, corev1.NodeReady).Status = corev1.ConditionFalse
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: effect, TimeAdded: &now})
	}
}

func TestWhatTheKeeperDoesToSilentNodesIsWhatTheForecastSaid(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				fallen := scene.build(w)
				config := w.config()
				if scene.change != nil {
					scene.change(&config)
				}
				w.run(func(c *Config) { c.Grace, c.Policy = config.Grace, config.Policy })
				w.Until(fall)
				w.falls(fallen...)
				forecast := readiness.NewPlay(w.allNodes(), config.Grace, config.Policy, time.Now())
				for _, name := range fallen {
					forecast.Fall(name, time.Time{}, time.Now())
				}
				w.Until(fall + scene.played)
				for next := forecast.Next(); !next.IsZero() && !next.After(time.Now()); next = forecast.Next() {
					forecast.Run(next)
				}
				w.wantForecast(forecast, scene)
			})
		})
	}
}

// A node falls silent some time before leases cannot be written for a while, or while they cannot.
func TestAfterAnOutageTheKeeperCallsNodesSilentWhenAPlayDoes(t *testing.T) {
	for _, before := range []time.Duration{-2 * time.Second, time.Second, 12 * time.Second, 33 * time.Second, 48 * time.Second} {
		for _, length := range []time.Duration{3 * time.Second, 9 * time.Second, time.Minute, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%s before %s", before, length), func(t *testing.T) {
				play(t, func(_ *testing.T, w *world) {
					nodes := w.addZone("a", 3)
					w.run()
					const begins = 90 * time.Second
					forecast := readiness.NewPlay(w.allNodes(), defaultGrace, w.config().Policy, w.Start)
					forecast.Run(w.Start)
					outage := func() {
						w.Until(begins)
						w.RenewAll()
						w.NoLeases.Store(true)
						forecast.Outage(time.Now(), time.Now().Add(length))
					}
					if before < 0 {
						outage()
					}
					w.Until(begins - before)
					w.RenewAll()
					w.falls(nodes[0])
					forecast.Fall(nodes[0], time.Time{}, time.Now())
					if before > 0 {
						outage()
					}
					w.Until(begins + length)
					w.NoLeases.Store(false)
					w.RenewAll()
					w.Until(begins + length + 2*time.Minute)
					is := readiness.Condition(w.Node(nodes[0]), corev1.NodeReady)
					if want := forecast.Next(); is.Status != corev1.ConditionUnknown || is.LastTransitionTime.Sub(want).Abs() > 2*time.Second {
						w.T.Errorf("the condition Ready is %s since %s, want Unknown at about %s",
							is.Status, is.LastTransitionTime.Sub(w.Start), want.Sub(w.Start))
					}
				})
			})
		}
	}
}

func (w *world) allNodes() []*corev1.Node {
	w.T.Helper()
	list, err := w.Client.CoreV1().Nodes().List(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	var nodes []*corev1.Node
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes
}

// wantForecast compares, zone by zone, what was forecast up to now with what happened. Which node of a zone is first is a
// matter of luck. Of a node that is held back for good, an event must have said so.
func (w *world) wantForecast(forecast *readiness.Play, scene scene) {
	w.T.Helper()
	said, done, tainted, held := instants{}, instants{}, 0, 0
	for _, node := range w.allNodes() {
		said.note(forecast.Node(node.Name))
		done.note(node)
		if len(executing(forecast.Node(node.Name))) > 0 {
			tainted++
		}
		if is := forecast.Held(node.Name); is != nil && is.Rate == 0 {
			held++
			if len(w.Did("event "+node.Name+" NoExecuteTaintHeld")) == 0 {
				w.T.Errorf("nothing was reported about node %s, which is held back according to the forecast", node.Name)
			}
		}
	}
	for what := range said {
		done[what] = append(done[what], []time.Time{}...) // so that each is looked at
	}
	for what, did := range done {
		said := said[what]
		slices.SortFunc(said, time.Time.Compare)
		slices.SortFunc(did, time.Time.Compare)
		// Echoes come once a second, and the API's times are in whole seconds.
		if !slices.EqualFunc(said, did, func(a, b time.Time) bool { return a.Sub(b).Abs() <= 2*time.Second }) {
			w.T.Errorf("zone and what: %s\n forecast at %v\n done at     %v", what, said, did)
		}
	}
	if tainted != scene.tainted || held != scene.held {
		w.T.Errorf("%d nodes are tainted and %d held by the forecast, want %d and %d", tainted, held, scene.tainted, scene.held)
	}
}

// instants are when the taints that are there came, and when conditions became Unknown, by zone.
type instants map[string][]time.Time

func (i instants) note(node *corev1.Node) {
	zone := node.Labels[corev1.LabelTopologyZone]
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionUnknown {
			what := zone + " " + string(c.Type)
			i[what] = append(i[what], c.LastTransitionTime.Time)
		}
	}
	for _, taint := range node.Spec.Taints {
		what := zone + " " + taint.ToString()
		i[what] = append(i[what], taint.TimeAdded.Time)
	}
}
