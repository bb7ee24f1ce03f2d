// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/test/explore"
)

// World is a cluster in which pods must leave nodes: two nodes, three workloads with a pod each, two NoExecute
// taints, an EvictionPolicy, a PodDisruptionBudget, up to two replicas, and the built-in next to them.
type World struct {
	*cluster

	size     Size
	builtIn  *kcm
	replicas []*replica
	left     int       // disturbances that may still happen
	changed  bool      // taints or tolerations, and no leader has seen and recorded that yet
	skewed   bool      // a pod has changed while a replica had not seen yet how taints had changed before
	idle     time.Time // since when nobody leads
	unpaused time.Time // when the EvictionPolicy was paused last
	hindered time.Time // when a call was refused or not answered last
	broken   string
}

// Size bounds a world.
type Size struct {
	// Replicas is how many processes of Taintkeeper there are.
	Replicas int
	// Disturbances is how many things may happen in one history that nobody can expect: a user or a failure.
	Disturbances int
	// Pods are the names of the workloads that exist; nil means all.
	Pods []string
	// Taints are the keys of the taints that may be set; nil means both.
	Taints []string
	// Kinds are the disturbances that may happen.
	Kinds []string
	// Unrecorded means that replicas do not record the built-in's backlog.
	Unrecorded bool
}

// The promises. Those that end with a condition are broken without it in a gap that docs/coexistence.md describes.
const (
	Deletes        = "Taintkeeper deletes no pod that may stay"
	DeletesHeld    = "Taintkeeper deletes no pod that a policy holds"
	DeletesUnasked = "Taintkeeper deletes no pod about which a policy asks the Eviction API"
	Waits          = "no pod that must leave waits while Taintkeeper leads and nothing keeps it"

	BuiltInMarks   = "the built-in marks no pod while the eviction clock is fresh"
	BuiltInDeletes = "the built-in deletes no pod that may stay because of a try that Taintkeeper held"

	BuiltInDeletesUnrecorded = BuiltInDeletes + ", if a replica saw and recorded what happened, in its order"
	BuiltInDeletesNext       = BuiltInDeletes + ", if it marked no earlier pod of that name within 25 s"
	BuiltInDeletesFreely     = BuiltInDeletes + ", if the admission policy is there"
	BuiltInDeletesAlone      = BuiltInDeletes + ", if a replica ran when it began"
	BuiltInWaits             = "the built-in evicts what becomes due while no replica runs, if its backlog is over"
)

const (
	tick         = 30 * time.Second  // passes at a time while a replica leads, which renews the clock meanwhile
	stale        = 40 * time.Second  // after which the clock is stale if nobody renews it
	over         = 180 * time.Second // after which the built-in has made all its tries
	shortWhile   = 30                // seconds for which some pods tolerate taints
	indefinitely = -1
	leadWithin   = 20 * time.Second // after which another replica leads
	deadline     = 10 * time.Second // after which the EvictionPolicy no longer asks
	recent       = 40 * time.Second // and everything before is only earlier: longer than any time that rules look back
)

// New returns the world at its beginning: all replicas are up, and the first leads.
func New(size Size) *World {
	var workloads []*workload
	var on []string
	for _, is := range []struct {
		*workload
		on string
	}{
		{&workload{name: "web", keepsName: true, budgeted: true, tolerations: []corev1.Toleration{tolerates("slow", indefinitely)}}, "a"},
		{&workload{name: "api", budgeted: true}, "a"},
		{&workload{name: "db", keepsName: true, tolerations: []corev1.Toleration{tolerates("", shortWhile)}}, "b"},
	} {
		if len(size.Pods) == 0 || slices.Contains(size.Pods, is.name) {
			is.number = len(workloads)
			workloads, on = append(workloads, is.workload), append(on, is.on)
		}
	}
	c := newCluster(workloads, on)
	w := &World{cluster: c, size: size, left: size.Disturbances, builtIn: &kcm{c: c}}
	w.builtIn.restart()
	c.watchers = append(c.watchers, w.builtIn)
	for i := range size.Replicas {
		r := &replica{c: c, name: fmt.Sprintf("replica %d", i+1), unrecorded: size.Unrecorded}
		w.replicas = append(w.replicas, r)
		c.watchers = append(c.watchers, r)
		r.start()
	}
	w.lead(w.replicas[0])
	w.follow()
	return w
}

// Broken implements [explore.World].
func (w *World) Broken() string { return w.broken }

// Fingerprint implements [explore.World].
func (w *World) Fingerprint() explore.Fingerprint {
	return explore.FingerprintOf(w.now, alike, w.nodes, w.pods, w.generation, w.account, w.attended, w.inForce,
		w.paused, w.builtIn, w.replicas, w.left, w.changed, w.skewed, w.idle, w.unpaused, w.hindered)
}

var alike = explore.Alike{
	Recent: recent, Skip: skipped,
	Most: map[string]int64{"Tries": 3}, // of an eviction
	Set: func(of reflect.Type) string {
		if isHeap(of) { // its order follows from its elements
			return "all"
		}
		return ""
	},
}

// isHeap recognizes the orders of a Backlog, which are fields of it and of its groups.
func isHeap(t reflect.Type) bool { return strings.HasPrefix(t.Name(), "ordered[") }

// skipped leaves out what does not change what happens: versions, counters of turns, and what never changes.
func skipped(field string) bool {
	switch field {
	case "c", "workload", "version", "From", "turns", "turn", "served", "judged", "at", "atReady", "atTurns", "limits",
		"less", "Memo", "there", "cluster", "rule", "in":
		return true
	}
	return false
}

// immutable are the types that are never modified.
var immutable = map[reflect.Type]bool{
	reflect.TypeFor[node](): true, reflect.TypeFor[pod](): true, reflect.TypeFor[workload](): true,
	reflect.TypeFor[policy.Policy](): true, reflect.TypeFor[metav1.Time](): true,
	reflect.TypeFor[corev1.Taint](): true, reflect.TypeFor[corev1.Toleration](): true, reflect.TypeFor[int64](): true,
}

// Clone implements [explore.World].
func (w *World) Clone() explore.World {
	fresh := explore.Clone(w, immutable, isHeap)
	for _, r := range fresh.replicas {
		r.rebind()
	}
	return fresh
}

// Steps implements [explore.World].
func (w *World) Steps() []explore.Step {
	var steps []explore.Step
	add := func(do explore.Step) {
		steps = append(steps, func() string {
			at, line := w.now, do()
			w.follow()
			w.simplify()
			return at.Format(time.TimeOnly) + "  " + line
		})
	}
	w.ordinary(add)
	if w.left == 0 {
		return steps
	}
	w.disturbances(func(kind string, do explore.Step) {
		if slices.Contains(w.size.Kinds, kind) {
			add(func() string { w.left--; return do() })
		}
	})
	return steps
}

// follow lets the leader begin its next try, if it may. It notes whether a replica runs, and whether one takes
// everything that has happened to be recorded.
func (w *World) follow() {
	for i := range w.builtIn.tries {
		t := &w.builtIn.tries[i]
		t.unseen = t.unseen || t.marked != "" && (w.changed || w.skewed)
	}
	w.attended = slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.up })
	r := w.leader()
	if r == nil {
		return
	}
	if r.try == nil {
		r.begin()
	}
	if len(r.newNodes)+len(r.newPods) == 0 && r.isRecorded() {
		w.changed = false
	}
}

// simplify forgets the tries of the built-in once they can no longer do anything: the clock stays fresh, because
// nothing more happens to the leader.
func (w *World) simplify() {
	if w.left == 0 && w.leader() != nil && w.fresh() && !slices.ContainsFunc(w.builtIn.tries, w.builtIn.can) {
		w.builtIn.tries = nil
	}
}
