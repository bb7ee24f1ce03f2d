// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// instant is the instant of a history as the API writes it: to the second, rounded down.
func instant(at time.Duration) *metav1.Time {
	return &metav1.Time{Time: arena.Epoch.Add(at).Truncate(time.Second)}
}

// history is what happens in a cluster, no matter which contestant evicts there.
type history struct {
	Nodes []nodeSpec    // that are there from the beginning
	Pods  []podSpec     // that are there from the beginning
	Start time.Duration // when the contestant starts for the first time
	Steps []step        // in the order of their instants, which all differ
}

// step is one thing that happens. No step but a restart concerns the contestant itself.
type step struct {
	At time.Duration
	Do action
}

type nodeSpec struct {
	Name   string
	Taints []corev1.Taint
}

// podSpec is a pod as it is created. Its UID names it in a history; several pods can have one name,
// one after the other.
type podSpec struct {
	UID, Name, Node string
	Tolerations     []corev1.Toleration
	Created         time.Duration  // recorded by the API to the second
	Scheduled       *time.Duration // recorded by the API to the second; nil without condition PodScheduled
	Grace           int64          // terminationGracePeriodSeconds
	Phase           corev1.PodPhase
	Mirror          bool
	Terminating     bool // created so: only for pods that are there from the beginning
	Held            bool // by a finalizer: once terminating it stays until it is removed by force
}

func (p podSpec) object() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: p.Name, UID: types.UID(p.UID), Generation: 1,
			CreationTimestamp: *instant(p.Created),
		},
		Spec: corev1.PodSpec{
			NodeName: p.Node, Tolerations: p.Tolerations, TerminationGracePeriodSeconds: &p.Grace,
		},
		Status: corev1.PodStatus{Phase: p.Phase},
	}
	if p.Scheduled != nil {
		pod.Status.Conditions = []corev1.PodCondition{scheduled(*p.Scheduled)}
	}
	if p.Mirror {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of a static pod"}
	}
	if p.Held {
		pod.Finalizers = []string{"example.com/held"}
	}
	if p.Terminating {
		pod.DeletionTimestamp = instant(p.Created + 2*sec)
	}
	return pod
}

func scheduled(at time.Duration) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *instant(at)}
}

// action is what a step does.
type action interface{ String() string }

type (
	// setTaint adds a taint to a node, or changes the one with its key and effect. Without a
	// timeAdded it drops the one there was, as kubectl does.
	setTaint struct {
		Node  string
		Taint corev1.Taint
	}
	// changeValue changes the value of a taint and leaves its timeAdded.
	changeValue struct{ Node, Key, Value string }
	// retime changes the timeAdded of a NoExecute taint, if the node has it.
	retime struct {
		Node, Key string
		TimeAdded *time.Duration // nil: it is dropped
	}
	// swap puts a NoExecute taint with timeAdded into the place of another, in one write.
	swap struct {
		Node, From, To string
		TimeAdded      time.Duration
	}
	// untaint removes the taints with a key.
	untaint struct{ Node, Key string }
	// removeNode removes a node. Its pods stay, as if the pod garbage collection had not come yet.
	removeNode struct{ Node string }
	// addNode adds a node, which may have the name of one that was removed.
	addNode struct{ Node nodeSpec }
	// create creates a pod. A pod with the same name is removed first, by force.
	create struct{ Pod podSpec }
	// createUnseen does the same while the watch of pods is interrupted, so that the contestant
	// finds the new pod instead of the old one when it lists again, after blindFor.
	createUnseen struct{ Pod podSpec }
	// bind binds a pod to a node.
	bind struct {
		UID, Node string
		Condition bool // PodScheduled is set, as the API server sets it
	}
	// remove deletes a pod.
	remove struct {
		UID   string
		Force bool // at once, finalizer or not
	}
	// tolerate replaces the tolerations of a pod.
	tolerate struct {
		UID         string
		Tolerations []corev1.Toleration
	}
	// finish ends a pod's containers.
	finish struct {
		UID   string
		Phase corev1.PodPhase
	}
	// restart kills the contestant and starts it again after a while.
	restart struct{ Down time.Duration }
)

// blindFor is how long a contestant does not see pods after an interruption. It is longer than
// client-go's first backoff.
const blindFor = 2 * sec

// occasion is an instant at which something that the history decides is to be done.
type occasion struct {
	at   time.Duration
	step *step // nil: the contestant starts
}

// occasions returns the steps and the starts of the contestant in their order.
func (h *history) occasions() []occasion {
	all := []occasion{{at: h.Start}}
	for i := range h.Steps {
		all = append(all, occasion{h.Steps[i].At, &h.Steps[i]})
		if restart, ok := h.Steps[i].Do.(restart); ok {
			all = append(all, occasion{at: h.Steps[i].At + restart.Down})
		}
	}
	slices.SortStableFunc(all, func(a, b occasion) int { return cmp.Compare(a.at, b.at) })
	return all
}

// startsAt reports whether the contestant starts at an instant.
func (h *history) startsAt(at time.Duration) bool {
	return slices.ContainsFunc(h.occasions(), func(o occasion) bool { return o.step == nil && o.at == at })
}

// end is when the history is over: when every countdown that is meant to end has ended, even one that restarts at the
// last occasion.
func (h *history) end() time.Duration {
	occasions := h.occasions()
	return occasions[len(occasions)-1].at + longestCountdown + 5*sec
}

// longestCountdown is the longest tolerationSeconds that a history waits for.
const longestCountdown = 31 * sec

// specs returns all pods of the history.
func (h *history) specs() []podSpec {
	all := slices.Clone(h.Pods)
	for _, s := range h.Steps {
		switch do := s.Do.(type) {
		case create:
			all = append(all, do.Pod)
		case createUnseen:
			all = append(all, do.Pod)
		}
	}
	return all
}
