// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Room is the room for pods in a cluster that changes: each call changes what later calls see. It is not safe for
// concurrent use.
type Room struct {
	scheduler  *scheduler
	storage    storage
	equals     register
	nodes      map[string]*corev1.Node
	stale      bool // there are changes that plugins have not been told about
	changes    int  // the number of changes
	remembered []*shape
	unlimited  budget
}

// mostRemembered limits the shapes for which a Room remembers what nodes said. Each needs some bytes per node.
const mostRemembered = 100

// NewRoom returns the room in a cluster. It lives as long as the context. Pods must have UIDs that are unique.
func NewRoom(ctx context.Context, cluster *state.Cluster, pods []*corev1.Pod) (*Room, error) {
	r := &Room{
		storage: storageOf(cluster), equals: register{groups: map[string]*group{}, shapes: map[string]*shape{}},
		nodes: map[string]*corev1.Node{}, unlimited: budget{limit: math.MaxInt},
	}
	for _, node := range cluster.Nodes {
		r.nodes[node.Name] = node
	}
	nodes := slices.SortedFunc(maps.Values(r.nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	if r.scheduler, err = newScheduler(ctx, cluster, nodes, pods); err != nil {
		return nil, fmt.Errorf("ask where pods would go: %w", err)
	}
	return r, nil
}

// Update replaces a node that has changed.
func (r *Room) Update(node *corev1.Node) {
	r.scheduler.updateNode(r.nodes[node.Name], node)
	r.nodes[node.Name] = node
	r.change()
}

// Terminate marks a pod as terminating. It still occupies its room.
func (r *Room) Terminate(pod *corev1.Pod) error {
	r.change()
	return r.scheduler.terminate(pod)
}

// Remove removes a pod from its node.
func (r *Room) Remove(pod *corev1.Pod) error {
	r.change()
	return r.scheduler.remove(pod)
}

func (r *Room) change() {
	r.stale = true
	r.changes++
}

// Place puts a pod on the node that the scheduler would choose, and returns its name. If no node takes the pod, it
// returns why. Only is the only node that a DaemonSet's pod may go to, and empty for other pods.
func (r *Room) Place(ctx context.Context, pod *corev1.Pod, only string) (node, why string, err error) {
	successor := *pod
	successor.Spec.ResourceClaims = nil
	l := &leaver{pod: pod, successor: &successor, only: only}
	l.leaveOut(r.storage)
	if err := r.enter(l); err != nil {
		return "", "", err
	}
	if l.group.stillRefuses(r.changes) {
		return "", nowhere(l.group.last), nil
	}
	if r.stale {
		if err := r.scheduler.update(); err != nil {
			return "", "", err
		}
		r.stale = false
	}
	q := question{scheduler: r.scheduler, pod: l.successor, group: l.group, only: only, budget: &r.unlimited}
	said, state, err := q.ask(ctx)
	if err != nil {
		return "", "", fmt.Errorf("the scheduler cannot be asked: %w", err)
	}
	if len(said.fits) == 0 {
		l.group.last, l.group.changes = said, r.changes
		return "", nowhere(said), nil
	}
	if node, err = r.scheduler.place(ctx, state, l, said.fits); err != nil {
		return "", "", fmt.Errorf("the scheduler cannot place it: %w", err)
	}
	r.changes++
	return node, "", nil
}

// enter finds the group and the shape of a pod. It remembers the answers of nodes for the most recent shapes.
func (r *Room) enter(l *leaver) error {
	if err := r.equals.enter(l); err != nil {
		return err
	}
	shape := l.group.shape
	if shape.left++; slices.Contains(r.remembered, shape) {
		return nil
	}
	if r.remembered = append(r.remembered, shape); len(r.remembered) > mostRemembered {
		r.remembered[0].known = nil
		r.remembered = slices.Delete(r.remembered, 0, 1)
	}
	return nil
}

func nowhere(said *answer) string {
	return sentence.Part(0, said.asked, "node", "takes", "take") + " it: " + said.why() + "."
}
