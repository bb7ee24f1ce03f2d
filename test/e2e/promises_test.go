// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// promises are what the README promises (the rows of its table, and what it lists), and what docs/proofs.md and
// test/README.md say is proved, each with at least one story.
var promises = map[string][]string{
	"1,000 pods are due at once":                                           {"many pods are due at once"},
	"The node is untainted while evictions wait":                           {"untainted while evictions wait"},
	"The node gets a second taint, which the pod tolerates for less time":  {"second, shorter taint"},
	"The controller restarts during a countdown":                           {"restart in mid-countdown"},
	"A webhook briefly refuses the delete":                                 {"deletes refused"},
	"A pod is replaced by one with the same name while its eviction waits": {"replaced under its name while its eviction waits"},
	"Predicts": {
		"a plan comes true", "a replacement starts where the plan says", "a simulation of an outage comes true",
		"leaving and the board show a pod that will leave",
		"a restart of kube-controller-manager begins a countdown again, and the report says so",
	},
	"Evicts on time": {
		"every eviction is ours, and the built-in marks no pod", "Taintkeeper dies, and the built-in evicts again",
		"a silent node is tainted in one write, and its return takes both taints in one",
		"a rule turns a condition into a taint, and back",
	},
	"Holds when you say so": {
		"a policy holds pods until it is deleted", "a policy asks a PodDisruptionBudget", "a policy sets a pace",
		"a breaker stops evictions when too many pods are due, until they are not", "a pause stops evictions until it is over",
	},

	"Simulations":                    {"a simulation of an outage comes true"},
	"Eviction policies":              {"a policy holds pods until it is deleted", "a policy asks a PodDisruptionBudget"},
	"Rules":                          {"a rule turns a condition into a taint, and back"},
	"Node health":                    {"a silent node is tainted in one write, and its return takes both taints in one"},
	"Kubernetes' own e2e tests":      {"a taint that nobody tolerates", "seconds count from the taint", "untaint"},
	"Kubernetes' own code":           {"pods that are nobody's to evict", "finished pods leave as upstream lets them"},
	"every history of a small world": {"untainted while evictions wait", "Taintkeeper dies, and the built-in evicts again"},
	"each known defect": {
		"seconds that overflow", "pod seen before the untaint", "deleted while pending",
		"the metrics say what is ahead, and how late evictions were, in seconds",
	},
	"plan":       {"a plan comes true"},
	"simulation": {"a simulation of an outage comes true"},
	"faults, restarts and kills": {
		"the API server restarts while pods are due", "the leader is killed in mid-countdown, and its standby keeps the deadlines",
	},
	"real kubelets and containers": {"a policy holds pods until it is deleted"},
	"stop during a storm":          {"an untaint and a clean stop in a storm: the built-in deletes nothing that stays"},

	"When a pod is due":    {"seconds lengthened", "shorter one removed", "replacement on the tainted node"},
	"How a pod leaves":     {"deletes refused", "untainted while pending"},
	"timeAdded and clocks": {"restart in mid-countdown"},
	"The Backlog":          {"many pods are due at once"},
	"Which controllers run": {
		"the leader is killed in mid-countdown, and its standby keeps the deadlines",
	},
	"What a plan counts": {"a plan comes true", "a simulation of an outage comes true"},
	"Coexistence":        {"an untaint and a clean stop in a storm: the built-in deletes nothing that stays"},
}

// aboutTests is what docs/proofs.md says about the tests, and no story can show.
const aboutTests = "changes to the code"

func TestEveryPromiseHasAStory(t *testing.T) {
	made := promised(t)
	for _, promise := range made {
		if len(promises[promise]) == 0 && promise != aboutTests {
			t.Errorf("no story shows that Taintkeeper keeps this promise: %q", promise)
		}
	}
	var names []string
	for _, s := range slices.Concat(scenarios.All, evictions, policies, policiesOfTheNextLeader,
		scenarios.Nodes, nodes, shadows, nextToTheBuiltIn) {
		names = append(names, s.Name)
	}
	for promise, stories := range promises {
		if !slices.Contains(made, promise) {
			t.Errorf("no page makes the promise %q any longer", promise)
		}
		for _, story := range stories {
			if !slices.Contains(names, story) {
				t.Errorf("there is no story %q for the promise %q", story, promise)
			}
		}
	}
}

// promised are the promises that the pages make.
func promised(t *testing.T) (all []string) {
	t.Helper()
	find := func(page, pattern string) {
		text, err := os.ReadFile("../../" + page)
		await.Must(t, err)
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing like %q", page, pattern)
		}
		for _, match := range found {
			all = append(all, match[1])
		}
	}
	find("README.md", `(?m)^\| ([^|]+?) \|(?:[^|]*\|){3}\n`)
	find("README.md", `(?m)^- \*\*\[?([^]*]+)\]?`)
	find("docs/proofs.md", `(?m)^\| (?:Does|Is|Do) [^|]*?\[([^]]+)\][^|]*\? \|`)
	find("test/README.md", `(?m)^\| ([^|]+?) \| tests, in `)
	return slices.DeleteFunc(all, func(promise string) bool {
		return strings.HasPrefix(promise, "---") || strings.HasPrefix(promise, "Kubernetes v")
	})
}
