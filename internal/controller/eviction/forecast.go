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

// ForecastConfig configures a Forecast.
type ForecastConfig struct {
	// Nodes are the nodes. The caller runs the cache.
	Nodes *nodecache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process. The default is a Clock of its own, which hears no Date.
	Clock *timeline.Clock
}

// Forecast is the half of an Evictor that observes: it follows the nodes, says which pods must leave them and when,
// and changes nothing. It is safe for concurrent use.
type Forecast struct {
	nodes nodes
	judge judge
}

// NewForecast makes a Forecast, which knows what the cache of nodes knows.
func NewForecast(config ForecastConfig) *Forecast {
	if config.Clock == nil {
		config.Clock = &timeline.Clock{}
	}
	return &Forecast{nodes: nodes{config.Nodes}, judge: judge{rule: config.Rule, clock: config.Clock}}
}

// Subscribe calls the function with the name of every node whose NoExecute taints change, and with those of the nodes
// that have some now. The function must return quickly.
func (f *Forecast) Subscribe(changed func(node string)) { f.nodes.subscribe(changed) }

// Listed is when the newest list of nodes began. What happened between two lists was not seen as it happened.
func (f *Forecast) Listed() time.Time { return f.nodes.Listed() }

// Exists reports whether there is a node of that name.
func (f *Forecast) Exists(node string) bool { return f.nodes.exists(node) }

// Taints returns the NoExecute taints of a node, with the instants from which they count. They are read, never
// modified.
func (f *Forecast) Taints(node string) []verdict.Taint {
	tainted, ok := f.nodes.get(node)
	if !ok {
		return nil
	}
	return tainted.NoExecute
}

// Over returns the verdict over a pod on its node, if it must leave.
func (f *Forecast) Over(pod *podcache.Pod) (verdict.Verdict, bool) {
	tainted, ok := f.nodes.get(pod.Node)
	if !ok {
		return verdict.Verdict{}, false
	}
	return f.judge.over(pod, tainted.NoExecute)
}
