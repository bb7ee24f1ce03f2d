// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// sets are the pods of StatefulSets that create them in order, which is the default: a pod is created only when all
// pods of lower ordinals are ready and not terminating (monotonic in pkg/controller/statefulset).
type sets struct {
	parallel map[types.UID]bool
	pods     map[types.UID][]*pod
	lowest   map[types.UID]*pod   // the first that is not ready, as far as it is known
	blocked  map[types.UID][]*pod // those that are not created before it is ready
}

func setsOf(cluster *state.Cluster) sets {
	s := sets{
		parallel: map[types.UID]bool{}, pods: map[types.UID][]*pod{},
		lowest: map[types.UID]*pod{}, blocked: map[types.UID][]*pod{},
	}
	for _, set := range cluster.StatefulSets {
		s.parallel[set.UID] = set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	}
	return s
}

// add adds a pod that its StatefulSet creates in order; other pods wait for nothing.
func (s sets) add(p *pod) {
	controller := metav1.GetControllerOfNoCopy(p.Pod)
	if controller == nil || controller.Kind != "StatefulSet" || s.parallel[controller.UID] {
		return
	}
	p.set, p.ordinal = controller.UID, ordinal(p.Name)
	s.pods[p.set] = append(s.pods[p.set], p)
	s.changes(p)
}

// changes notes that a pod is or is not ready, or is gone.
func (s sets) changes(p *pod) { delete(s.lowest, p.set) }

// waitsFor returns the pod that must be ready before a pod is created; nil if there is none.
func (s sets) waitsFor(p *pod) *pod {
	if p.set == "" {
		return nil
	}
	lowest, known := s.lowest[p.set]
	if !known {
		for _, other := range s.pods[p.set] {
			serves := other.counted || other.stage == gone
			if !serves && (lowest == nil || other.ordinal < lowest.ordinal) {
				lowest = other
			}
		}
		s.lowest[p.set] = lowest
	}
	if lowest == nil || lowest.ordinal >= p.ordinal {
		return nil
	}
	return lowest
}

// blocks reports whether a pod is not created yet, and then keeps it until its StatefulSet may create it.
func (s sets) blocks(p *pod) bool {
	if p.created || p.first || s.waitsFor(p) == nil {
		p.created = true
		return false
	}
	s.blocked[p.set] = append(s.blocked[p.set], p)
	return true
}

// released returns the pods of a StatefulSet that are not created yet, for another look.
func (s sets) released(set types.UID) []*pod {
	all := s.blocked[set]
	delete(s.blocked, set)
	return all
}

// ordinal returns the ordinal of a StatefulSet's pod, according to its name.
func ordinal(name string) int {
	name, _, _ = strings.Cut(name, "~")
	number, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return 0
	}
	return number
}
