// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// act is a scenario, the namespace that gives its nodes their names, and what is printed before it.
type act struct {
	namespace string
	story     []string
	Scenario
}

// promised is what each act promises. An act with a plan must also go as planned.
var (
	promised = []Check{ByRule, ByContestant}
	planned  = []Check{ByRule, ByContestant, asForeseen}
)

// agent lets a pod tolerate every taint, as node agents do.
var agent = scene.Indefinitely("")

// silent is the zone that falls silent in the last act.
var silent = newZone("a-1", "a-2")

var acts = []act{
	{"east", []string{"All pods leave at once except the node agent, which tolerates every taint."}, Scenario{
		Name: "a taint that no workload tolerates",
		Given: []Step{
			Simulated("1", "2"), replicas("1", "web", 2, scene.Tolerating("maintenance", 5)), On("1", "plain"),
			On("1", "careful", scene.Indefinitely("maintenance")), On("1", "agent", agent), replicas("2", "elsewhere", 2),
			foresee("power=off:NoExecute"),
		},
		When:     []Step{kubectlTaint("power=off:NoExecute")},
		Promised: planned,
	}},
	{"west", []string{
		"Each pod leaves when its toleration expires. If several tolerations match, the first in the list counts.",
		"The probe is replaced on the node, and the new pod's seconds count from its own binding.",
	}, Scenario{
		Name: "a taint that is tolerated for some seconds",
		Given: []Step{
			Simulated("1"), replicas("1", "web", 3, scene.Tolerating("maintenance", 5)), On("1", "fragile"),
			On("1", "hasty", scene.Tolerating("maintenance", 2)), On("1", "probe-a", scene.Tolerating("maintenance", 3)),
			On("1", "shadowed", scene.Tolerating("maintenance", 4), scene.Indefinitely("maintenance")),
			On("1", "settled", scene.Indefinitely("maintenance")), On("1", "agent", agent),
			foresee("maintenance=soon:NoExecute"),
		},
		When: []Step{
			kubectlTaint("maintenance=soon:NoExecute"),
			Gone("probe-a"), On("1", "probe-b", scene.Tolerating("maintenance", 3)),
		},
		Promised: planned,
	}},
	{"north", []string{
		"It brings evictions forward, and evicts a pod that tolerates the first taint indefinitely.",
	}, Scenario{
		Name: "a second taint, with shorter tolerations, while the first one counts",
		Given: []Step{
			Simulated("1"), replicas("1", "web", 2, scene.Tolerating("maintenance", 6), scene.Tolerating("heat", 2)),
			On("1", "db", scene.Tolerating("maintenance", 8)), On("1", "agent", agent),
			On("1", "heat-shy", scene.Indefinitely("maintenance"), scene.Tolerating("heat", 1)),
			On("1", "steady", scene.Indefinitely("maintenance"), scene.Indefinitely("heat")),
		},
		When: []Step{
			kubectlTaint("maintenance=soon:NoExecute"), At("1", 2*time.Second),
			foresee("heat=high:NoExecute"), kubectlTaint("heat=high:NoExecute"),
		},
		Promised: planned,
	}},
	{"south", []string{
		"All pending evictions are cancelled. The act continues until after the pods would have been due.",
	}, Scenario{
		Name: "an untaint while evictions are pending",
		Given: []Step{
			Simulated("1"), replicas("1", "web", 3, scene.Tolerating("maintenance", 5)), On("1", "agent", agent),
			On("1", "brisk", scene.Tolerating("maintenance", 3)), On("1", "calm", scene.Tolerating("maintenance", 4)),
		},
		When: []Step{
			kubectlTaint("maintenance=soon:NoExecute"), At("1", 2*time.Second), kubectlTaint("maintenance-"),
		},
		Promised: promised,
	}},
	{"zone", []string{
		fmt.Sprintf("Taintkeeper sets the taints: NoSchedule once a node has been silent for %d s, and NoExecute at the",
			int(grace.Seconds())),
		fmt.Sprintf("zone's rate, one node every %d s. Here, pods without tolerations of their own have %d s instead of 300 s.",
			int(taintEvery.Seconds()), int(tolerated.Seconds())),
		"The zone comes back before the other pods of the second node are due, so they stay.",
	}, Scenario{
		Name: "the kubelets of a zone fall silent, and come back",
		Given: []Step{
			Simulated("a-1", "a-2", "b-1"), replicas("a-1", "web", 2), replicas("a-2", "db", 2), replicas("b-1", "elsewhere", 2),
			On("a-1", "nimble", scene.Tolerating(unreachable, 1)), On("a-1", "agent", agent),
			On("a-2", "brisk", scene.Tolerating(unreachable, 1)), On("a-2", "loyal", scene.Indefinitely(unreachable)),
			foreseeSilence(silent.nodes...),
		},
		When: []Step{
			silent.silence, silent.followUntil(silent.oneIsEmpty), silent.resume, silent.followUntil(silent.untainted),
		},
		Promised: append([]Check{silent.inTurn, neverTainted("b-1")}, planned...),
	}},
}
