// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// app is what the plan says about the pods of one workload that leave.
type app struct {
	fits    []string // nodes that would take a successor
	nodes   []string // nodes on which the plan places them
	nowhere int
	none    int // how many have no successor
	// anywhere: some pods of the round fill nodes. They take each other's places, in an order that depends on
	// milliseconds, or one preempts another, on a node that the scheduler chooses at random among those where that is as
	// good. Which nodes are empty decides where all others go.
	anywhere bool
	// settled: all of them leave while the test waits, when they are due, and none is placed where it would have to
	// leave again. So where they go follows from the plan. It does not for the only pod of a new ReplicaSet, which is
	// spread by default: all nodes are equally good, and the scheduler chooses at random.
	settled bool
}

// apps returns what the plan says, by workload. It leaves out workloads that must be spread and lose several pods: where
// the first successor may go depends on how many of the others have already left.
func (r *round) apps() map[string]*app {
	all := map[string]*app{}
	for i := range r.planned.Pods {
		pod := &r.planned.Pods[i]
		if pod.WhereTo == nil || pod.Namespace != r.Name || pod.Owner == nil {
			continue
		}
		if all[pod.Owner.Name] == nil {
			all[pod.Owner.Name] = &app{settled: !r.hangs || pod.Owner.Name != appName(hung), anywhere: r.filled}
		}
		all[pod.Owner.Name].add(pod)
		if _, leaves := r.departure(pod); !leaves || pod.Answer != nil {
			all[pod.Owner.Name].settled = false
		}
	}
	maps.DeleteFunc(all, func(name string, a *app) bool { return r.strict[name] && a.leave() > 1 })
	return all
}

func (a *app) add(pod *cliv1alpha1.PlannedPod) {
	where := pod.WhereTo
	a.fits = append(a.fits, where.Nodes...)
	switch {
	case where.NoSuccessor:
		a.none++
	case where.Node == "":
		a.nowhere++
	default:
		a.nodes = append(a.nodes, where.Node)
	}
	if slices.ContainsFunc(where.Warnings, func(warning cliv1alpha1.PlacementWarning) bool {
		return warning.Type == cliv1alpha1.WarningOutAgain
	}) {
		a.settled = false
	}
}

// leave returns how many pods leave.
func (a *app) leave() int { return a.none + a.nowhere + len(a.nodes) }

// compareNodes returns how many pods took the place of those that left. Each must be on a node that the plan named for
// a pod of its workload. Where all pods of a workload have left as planned, they must be spread over the zones as the
// plan says.
func (r *round) compareNodes() (placed int) {
	for name, said := range r.apps() {
		var stayed, came, waiting []string
		read := func() {
			stayed, came, waiting = nil, nil, nil
			pods, err := admin.CoreV1().Pods(r.Name).List(r.T.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
			r.must(err)
			for i := range pods.Items {
				switch pod := &pods.Items[i]; {
				case r.wasThere[pod.UID]:
					stayed = append(stayed, pod.Spec.NodeName)
				case pod.Spec.NodeName == "":
					waiting = append(waiting, pod.Name)
				default:
					came = append(came, pod.Spec.NodeName)
				}
			}
		}
		read()
		if said.settled { // the last successors may still come
			await.Eventually(r.T, "the successors of "+name+" come", func(context.Context) error {
				if read(); len(came)+len(waiting) < len(said.nodes)+said.nowhere {
					return fmt.Errorf("%d of %d have", len(came)+len(waiting), len(said.nodes)+said.nowhere)
				}
				return nil
			})
		}
		placed += len(came)
		r.compareFits(name, said, came)
		if !said.settled || said.anywhere && len(waiting) == said.nowhere {
			continue
		}
		got, want := zones(stayed, came), zones(stayed, said.nodes)
		if !slices.Equal(got, want) || len(waiting) != said.nowhere {
			r.T.Errorf("pods of %s/%s went to %v, and %d to none; according to the plan of %v on %v they go to %v, and %d to none; others stayed on %v",
				r.Name, name, came, len(waiting), r.specs, r.nodes, said.nodes, said.nowhere, stayed)
		}
		r.zoned += len(came)
	}
	r.comparePreempted()
	return placed
}

// compareFits compares where pods of a workload came with the nodes that the plan named for them.
func (r *round) compareFits(name string, said *app, came []string) {
	for _, node := range came {
		if !said.anywhere && !slices.Contains(said.fits, node) {
			r.T.Errorf("a pod of %s/%s went to %s, and according to the plan of %v on %v only %v would take it", r.Name, name, node, r.specs, r.nodes, said.fits)
		}
	}
}

// comparePreempted compares how many pods the scheduler has preempted.
func (r *round) comparePreempted() {
	events, err := admin.CoreV1().Events(r.Name).List(r.T.Context(), metav1.ListOptions{FieldSelector: "reason=Preempted"})
	r.must(err)
	victims := map[types.UID]bool{}
	for i := range events.Items {
		victims[events.Items[i].InvolvedObject.UID] = true
	}
	for i := range r.planned.Pods {
		if pod := &r.planned.Pods[i]; pod.Leaves { // it may be preempted before it leaves
			delete(victims, pod.UID)
		}
	}
	if want := len(r.planned.Preempted); len(victims) != want {
		r.T.Errorf("%d pods were preempted in %s, and %d according to the plan of %v on %v", len(victims), r.Name, want, r.specs, r.nodes)
	}
}

// zones counts pods by zone, the fullest zone last. Zones that are equal to the scheduler may change places.
func zones(nodes ...[]string) []int {
	counts := map[string]int{}
	for _, name := range slices.Concat(nodes...) {
		counts[zoneOf[name]]++
	}
	return slices.Sorted(maps.Values(counts))
}

// zoneOf is the zone of each node.
var zoneOf = func() map[string]string {
	all := map[string]string{}
	for _, node := range nodes() {
		all[node.Name] = node.Zone
	}
	return all
}()
