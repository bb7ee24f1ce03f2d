// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
)

// nodeNames are the names of the nodes.
var nodeNames = []string{"a", "b"}

// cluster is what the API server has. Everything in it happens at whole seconds.
type cluster struct {
	now   time.Time
	nodes map[string]*node
	pods  []*pod // one for each workload; nil while there is none

	workloads []*workload

	account    account
	attended   bool // a replica runs
	inForce    bool // the admission policy exists
	paused     bool // the EvictionPolicy is paused
	serial     int  // of objects and versions
	generation int  // of the random part of names

	watchers []watcher
}

// watcher is told what changes.
type watcher interface {
	nodeChanged(n *node)
	podChanged(before, after *pod)
}

type node struct {
	name    string
	taints  []corev1.Taint
	since   map[string]time.Time // by key, when the taint was set, whatever its timeAdded says
	version string
}

// pod is a pod of a workload, which has one at a time. Objects are never modified.
type pod struct {
	*workload

	uid         types.UID
	name        string
	node        string
	tolerations []corev1.Toleration
	created     time.Time
	terminating bool
	ends        time.Time // the latest end of a terminating pod
	mark        v1alpha1.Marker
}

// workload creates a pod again when it is gone, under the same name or under another.
type workload struct {
	name        string
	number      int
	keepsName   bool
	budgeted    bool // the EvictionPolicy and the PodDisruptionBudget select its pods
	tolerations []corev1.Toleration
}

// account is the ServiceAccount with the eviction clock.
type account struct {
	renewed time.Time // zero if nobody has
	record  builtin.Record
	writer  string // who wrote last
}

// annotations are the annotations of the ServiceAccount.
func (a account) annotations() map[string]string {
	all := map[string]string{}
	if !a.record.Until.IsZero() {
		all[coexist.BacklogSince] = a.record.Since.Format(time.RFC3339)
		all[coexist.BacklogUntil] = a.record.Until.Format(time.RFC3339)
		all[coexist.BacklogSpared] = a.record.Spared
	}
	if !a.renewed.IsZero() {
		all[coexist.Annotation] = a.renewed.Format(time.RFC3339)
	}
	return all
}

func newCluster(workloads []*workload, on []string) *cluster {
	c := &cluster{
		now: time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC), nodes: map[string]*node{},
		pods: make([]*pod, len(workloads)), workloads: workloads, inForce: true,
	}
	for _, name := range nodeNames {
		c.nodes[name] = &node{name: name, version: "0"}
	}
	for i, w := range workloads {
		c.create(w, on[i])
		p := *c.pods[i]
		p.created = c.now.Add(-time.Hour)
		c.pods[i] = &p
	}
	return c
}

// taint sets the taints of a node.
func (c *cluster) taint(name string, taints []corev1.Taint) {
	c.serial++
	since := map[string]time.Time{}
	for _, t := range taints {
		since[t.Key] = c.now
		if known, continues := c.nodes[name].since[t.Key]; continues {
			since[t.Key] = known
		}
	}
	c.nodes[name] = &node{name: name, taints: taints, since: since, version: fmt.Sprint(c.serial)}
	for _, w := range c.watchers {
		w.nodeChanged(c.nodes[name])
	}
}

const letters = "bcd"

// create creates the pod of a workload on a node.
func (c *cluster) create(w *workload, on string) {
	c.serial++
	p := &pod{workload: w, uid: types.UID(fmt.Sprintf("%06d", c.serial)), node: on, tolerations: w.tolerations, created: c.now, mark: v1alpha1.NotMarked}
	p.name = w.name + "-0"
	if !w.keepsName {
		p.name = w.name + "-" + strings.Repeat(letters[c.generation:][:1], 5)
		c.generation = (c.generation + 1) % len(letters)
	}
	c.set(w, p)
}

// set replaces the pod of a workload.
func (c *cluster) set(w *workload, p *pod) {
	before := c.pods[w.number]
	c.pods[w.number] = p
	for _, watcher := range c.watchers {
		watcher.podChanged(before, p)
	}
}

// edit changes a pod.
func (c *cluster) edit(p *pod, change func(p *pod)) {
	edited := *p
	change(&edited)
	c.set(p.workload, &edited)
}

// delete makes a pod terminate.
func (c *cluster) delete(p *pod) {
	if !p.terminating {
		c.edit(p, func(p *pod) { p.terminating, p.ends = true, c.now.Add(tick) })
	}
}

// named returns the pod of a name, or nil.
func (c *cluster) named(name string) *pod {
	return c.find(func(p *pod) bool { return p.name == name })
}

// identified returns the pod of a UID, or nil.
func (c *cluster) identified(uid types.UID) *pod {
	return c.find(func(p *pod) bool { return p.uid == uid })
}

func (c *cluster) find(is func(p *pod) bool) *pod {
	for _, p := range c.pods {
		if p != nil && is(p) {
			return p
		}
	}
	return nil
}

// allowed returns how many disruptions the PodDisruptionBudget allows: one of its pods may be away.
func (c *cluster) allowed() int {
	allowed := 1
	for _, p := range c.pods {
		if p != nil && p.budgeted && p.terminating {
			allowed--
		}
	}
	return max(allowed, 0)
}

// fresh reports whether the eviction clock is fresh, and the policy that reads it is there.
func (c *cluster) fresh() bool {
	return c.inForce && !c.account.renewed.IsZero() && !c.now.After(c.account.renewed.Add(v1alpha1.EvictionClockValidFor))
}

// due reports whether a pod must leave its node at an instant that is not in the future: the rule of docs/concepts.md,
// written a second time.
func (c *cluster) due(p *pod, at time.Time) bool {
	on := c.nodes[p.node]
	return slices.ContainsFunc(on.taints, func(t corev1.Taint) bool {
		start := on.since[t.Key]
		if p.created.After(start) {
			start = p.created
		}
		counts := matching(p.tolerations, t)
		switch {
		case start.After(at):
			return false
		case counts < 0:
			return true
		}
		seconds := p.tolerations[counts].TolerationSeconds
		return seconds != nil && !at.Before(start.Add(time.Duration(*seconds)*time.Second))
	})
}

// matching returns the index of the first toleration that matches a taint, or -1.
func matching(all []corev1.Toleration, t corev1.Taint) int {
	return slices.IndexFunc(all, func(is corev1.Toleration) bool { return is.Key == "" || is.Key == t.Key })
}

// refusesMark returns why the admission policy refuses the built-in's mark on a pod; empty if it does not.
func (c *cluster) refusesMark(p *pod) string {
	if !c.inForce {
		return ""
	}
	type key struct {
		name, node            string
		terminating           bool
		created, now, renewed time.Time
		record                builtin.Record
		mark                  v1alpha1.Marker
	}
	is := key{p.name, p.node, p.terminating, p.created, c.now, c.account.renewed, c.account.record, p.mark}
	return coexistence().refuses(is, func() update {
		params := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Name: coexist.ServiceAccount, Annotations: c.account.annotations(),
		}}
		return update{p.object(c.now, p.mark), p.object(c.now, v1alpha1.MarkedByBuiltIn), params}
	})
}

// object returns a pod as the API has it while its status is updated, with a mark.
func (p *pod) object(now time.Time, mark v1alpha1.Marker) *corev1.Pod {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Namespace: "default", UID: p.uid, CreationTimestamp: metav1.Time{Time: p.created},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Time: &metav1.Time{Time: now}}},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Workload", Name: p.workload.name, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: p.node, Tolerations: p.tolerations},
	}
	if !p.keepsName {
		object.GenerateName = p.workload.name + "-"
	}
	if p.terminating {
		object.DeletionTimestamp = &metav1.Time{Time: now}
	}
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason,
		LastTransitionTime: metav1.Time{Time: now},
	}
	switch mark {
	case v1alpha1.MarkedByTaintkeeper:
		condition.Message = v1alpha1.MarkMessage
	case v1alpha1.MarkedByBuiltIn:
		condition.Message = "Taint manager: deleting due to NoExecute taint"
	default:
		return object
	}
	object.Status.Conditions = []corev1.PodCondition{condition}
	return object
}

// noExecute returns a NoExecute taint that is set now.
func (c *cluster) noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: c.now}}
}

// tolerates returns a toleration of taints with a key, or with any, for some seconds; indefinitely if these are
// negative.
func tolerates(key string, seconds int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}
