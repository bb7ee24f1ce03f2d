// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// VerdictsConfig configures Verdicts.
type VerdictsConfig struct {
	// Nodes are the nodes. The caller runs the cache.
	Nodes *nodecache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process. The default is a Clock of its own, which sees no Date headers.
	Clock *timeline.Clock
}

// Verdicts are the part of an Evictor that observes. They follow the nodes, say which pods must leave them and when,
// and change nothing. They are safe for concurrent use.
type Verdicts struct {
	judge
}

// NewVerdicts makes Verdicts from the cache of nodes.
func NewVerdicts(config VerdictsConfig) *Verdicts {
	if config.Clock == nil {
		config.Clock = &timeline.Clock{}
	}
	return &Verdicts{judge{nodes: config.Nodes, rule: config.Rule, clock: config.Clock}}
}

// Subscribe calls the function with the name of every node whose NoExecute taints change, and with those of the nodes
// that have some now. The function must return quickly.
func (v *Verdicts) Subscribe(changed func(node string)) { v.nodes.SubscribeTaints(changed) }

// Listed is when the newest list of nodes began. What happened between two lists was not seen as it happened.
func (v *Verdicts) Listed() time.Time { return v.nodes.Listed() }

// Exists reports whether there is a node of that name.
func (v *Verdicts) Exists(node string) bool { return v.nodes.Exists(node) }

// Taints returns the NoExecute taints of a node, with the instants from which they count. They are read, never
// modified.
func (v *Verdicts) Taints(node string) []verdict.Taint {
	tainted, ok := v.nodes.Tainted(node)
	if !ok {
		return nil
	}
	return tainted.NoExecute
}

// Over returns the verdict on a pod on its node, if it must leave.
func (v *Verdicts) Over(pod *podcache.Pod) (verdict.Verdict, bool) {
	tainted, ok := v.nodes.Tainted(pod.Node)
	if !ok {
		return verdict.Verdict{}, false
	}
	return v.over(pod, tainted.NoExecute)
}
