// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// BuiltIn is what has to know how the built-in controller's backlog grows, in a cluster in which that runs and an
// admission policy keeps it from evicting; see coexist.Account. It is called concurrently.
type BuiltIn interface {
	// Decided tells what was decided about a node, before any pod is evicted because of it. It returns at once.
	Decided(decision NodeDecision)
	// Recorded returns once all that was told is recorded in the cluster. No pod may be evicted before: if this process
	// is killed, the record alone keeps the built-in from deleting pods that took the name of evicted ones. The error
	// says why it cannot be recorded; then the built-in is left to evict.
	Recorded(ctx context.Context) error
}

// NodeDecision is what was decided about the pods of a node, as far as it concerns the built-in: it tries each pod that
// is due, and again at each change of the node's NoExecute taints.
type NodeDecision struct {
	Node string
	// Tries is how many evictions the built-in has begun since the last decision, From the instant at which the first of
	// these pods was due.
	Tries int
	From  time.Time
	// Spared are the pods that the built-in has tried and that stay; Stay are the others that stay.
	Spared, Stay []types.UID
}

// alone is the BuiltIn of a cluster in which the built-in does not run.
type alone struct{}

func (alone) Decided(NodeDecision)           {}
func (alone) Recorded(context.Context) error { return nil }

// notRecordedError says that an eviction waits until the built-in's backlog is recorded. It hides what kind of error
// that was: nobody has refused the eviction of this pod.
type notRecordedError struct{ cause error }

// Error implements error.
func (e notRecordedError) Error() string {
	return "no pod is evicted before the built-in controller's backlog is recorded: " + e.cause.Error()
}

// tellBuiltIn tells what the built-in does about the pods of a node, and notes in the next decision which taints it has
// tried them for. It sees all states of the node, also those that came and went between two decisions.
func (d *decider) tellBuiltIn(name string, at time.Time, previous, next decision) {
	states := d.nodes.takeReplaced(name)
	if tainted, ok := d.nodes.get(name); ok {
		states = append(states, replaced{tainted, at})
	}
	if len(states) == 0 && len(previous) == 0 {
		return
	}
	told := NodeDecision{Node: name}
	for _, pod := range d.pods.OnNode(name) {
		if pod.Flags.Has(podcache.Terminating) {
			continue
		}
		tried := d.tries(&told, pod, previous[pod.UID].tried, states)
		switch is, leaves := next[pod.UID]; {
		case leaves && !is.due.After(at):
			is.tried = tried
			next[pod.UID] = is
		case tried.IsZero():
			told.Stay = append(told.Stay, pod.UID)
		default:
			told.Spared = append(told.Spared, pod.UID)
		}
	}
	d.builtIn.Decided(told)
}

// tries counts the states of its node for which the built-in has tried a pod since the last decision, and returns the
// taints of which it has tried it last; zero if it never has.
func (d *decider) tries(told *NodeDecision, pod *podcache.Pod, tried time.Time, states []replaced) time.Time {
	for _, seen := range states {
		v, leaves := d.judge.over(pod, seen.state)
		if !leaves || v.Due.After(seen.at) || seen.state.changed.Equal(tried) {
			continue
		}
		tried = seen.state.changed
		told.Tries++
		told.From = earliest(told.From, v.Due)
	}
	return tried
}
