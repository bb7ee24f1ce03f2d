// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// act is one scene of the demo, on a node that has no taint when it begins.
type act struct {
	title string
	story []string
	node  string
	steps []step
}

// step changes the taints of the act's node.
type step struct {
	// after is counted from the first step of the act.
	after time.Duration
	// specs are the arguments of kubectl taint.
	specs []string
}

// The taint of a maintenance, as one would set it: new pods stay away, those that are there leave in their time.
var (
	setMaintenance  = []string{maintenance + "=soon:NoSchedule", maintenance + "=soon:NoExecute"}
	liftMaintenance = []string{maintenance + "-"}
)

var acts = []act{
	{
		title: "a taint that no workload tolerates",
		story: []string{"All pods leave at once, but for the node agent, which tolerates every taint."},
		node:  east1,
		steps: []step{{specs: []string{power + "=off:NoExecute"}}},
	},
	{
		title: "a taint that is tolerated for some seconds",
		story: []string{
			"Each pod leaves when the seconds of its toleration are over. Where several match, the first in the list counts.",
			"The DaemonSet puts its probe back on the node, and the seconds of the new pod count from its own binding.",
		},
		node:  west1,
		steps: []step{{specs: setMaintenance}},
	},
	{
		title: "a second taint, with shorter tolerations, while the first one counts",
		story: []string{"It brings evictions forward, and makes a pod leave that the first taint would never have moved."},
		node:  north1,
		steps: []step{{specs: setMaintenance}, {after: 2 * time.Second, specs: []string{heat + "=high:NoExecute"}}},
	},
	{
		title: "an untaint while evictions are pending",
		story: []string{"All that is pending is cancelled. The act goes on past the instants at which the pods were due."},
		node:  east2,
		steps: []step{{specs: setMaintenance}, {after: 2 * time.Second, specs: liftMaintenance}},
	},
}

// forecast is the timeline of an act that begins at an instant, if everything goes to plan.
func (a act) forecast(start time.Time) (timeline, error) {
	var planned timeline
	var current []corev1.Taint
	for _, s := range a.steps {
		edit, err := taints.ParseEdit(s.specs...)
		if err != nil {
			return nil, err
		}
		if current, err = edit.Apply(current, taints.KeepExisting); err != nil {
			return nil, err
		}
		planned = planned.next(start.Add(s.after), current)
	}
	return planned, nil
}
