// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// ForecastConfig configures a Forecast.
type ForecastConfig struct {
	// Client lists and watches nodes.
	Client kubernetes.Interface
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the API server's, as the answers to Client tell it; nil: this machine's alone is believed.
	Clock *apicall.Clock
}

// Forecast is the half of an Evictor that observes: it watches the nodes, says which pods have to leave them and when,
// and changes nothing. It is safe for concurrent use.
type Forecast struct {
	nodes *nodes
	judge judge
}

// NewForecast makes a Forecast, which knows nothing before Run.
func NewForecast(config ForecastConfig) (*Forecast, error) {
	if config.Client == nil {
		return nil, errors.New("a Forecast needs a Client")
	}
	if config.Clock == nil {
		config.Clock = &apicall.Clock{}
	}
	nodes, err := newNodes(config.Client, config.Clock)
	if err != nil {
		return nil, fmt.Errorf("prepare the watch of nodes: %w", err)
	}
	nodes.neverStamped = true
	return &Forecast{nodes: nodes, judge: judge{rule: config.Rule, clock: config.Clock}}, nil
}

// Run watches the nodes until the context ends.
func (f *Forecast) Run(ctx context.Context) error {
	f.nodes.informer.RunWithContext(ctx)
	return nil
}

// HasSynced reports whether the first list of nodes is complete.
func (f *Forecast) HasSynced() bool { return f.nodes.handler.HasSynced() }

// Synced is done when the first list of nodes is complete.
func (f *Forecast) Synced() cache.DoneChecker { return f.nodes.handler.HasSyncedChecker() }

// Subscribe calls the function with the name of every node whose NoExecute taints change, and with those of the nodes
// that have some now. The function must return quickly.
func (f *Forecast) Subscribe(changed func(node string)) { f.nodes.subscribe(changed) }

// Listed is when the newest list of nodes began. What happened between two lists was not seen as it happened.
func (f *Forecast) Listed() time.Time { return time.Unix(0, f.nodes.listed.Load()) }

// Exists reports whether there is a node of that name.
func (f *Forecast) Exists(node string) bool { return f.nodes.exists(node) }

// Taints returns the NoExecute taints of a node, with the instants from which they count. They are read, never modified.
func (f *Forecast) Taints(node string) []verdict.Taint {
	tainted, ok := f.nodes.get(node)
	if !ok {
		return nil
	}
	return tainted.facts.byOurs
}

// Over returns the verdict over a pod on its node, if it has to leave.
func (f *Forecast) Over(pod *podcache.Pod) (verdict.Verdict, bool) {
	tainted, ok := f.nodes.get(pod.Node)
	if !ok {
		return verdict.Verdict{}, false
	}
	return f.judge.over(pod, tainted)
}
