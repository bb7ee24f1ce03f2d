// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// section is what a row is about.
type section int

const (
	// fixes are the defects of kube-controller-manager v1.37.2 that Taintkeeper fixes, under the numbers of
	// test/README.md.
	fixes section = iota
	// keeps is what users rely on, and a replacement can break.
	keeps
	// nodes are the defects of the node-lifecycle controller that came with Kubernetes 1.37.
	nodes
)

// row is a scenario.
type row struct {
	section  section
	number   int
	scenario string
	should   string
	// issues are upstream's, in kubernetes/kubernetes; pulls are pull requests there.
	issues, pulls []int
	// how says how it is measured.
	how string
	// stories are played side by side.
	stories []Scenario
}

// rows returns all scenarios, in order.
func rows() []row { return slices.Concat(fixedRows(), keptRows(), nodeRows()) }

func fixedRows() []row {
	return []row{
		{
			number:   1,
			scenario: "A node is untainted while its evictions wait",
			should:   "No pod is deleted after the untaint",
			how:      "200 pods, untainted after 2 s. Deletes within 1 s after the untaint do not count.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", untaintPods)},
				When:     []Step{Taint("tainted", "gone"), After(2 * time.Second), Untaint("tainted", "gone")},
				Promised: []Check{NoneAfterUntaint("tainted")},
			}},
		},
		{
			number:   2,
			scenario: "Many pods are due at once",
			should:   "The first leaves immediately; two calls per pod",
			how:      "150 pods. Right means a first delete within 4 s and fewer than 2.5 calls per pod.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", stormPods)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{storm},
			}},
		},
		{
			number:   3,
			scenario: "Deletes are refused for some seconds",
			should:   "The pod leaves once they are allowed again",
			issues:   []int{140639},
			how: "A ValidatingAdmissionPolicy refuses for 3 s. Right means that the pod leaves within 10 s after a dry-run " +
				"delete is accepted again, which allows for backoff.",
			stories: scenarios.Named("deletes refused"),
		},
		{
			number:   4,
			scenario: "Taints or tolerationSeconds change during a countdown",
			should:   "The earliest deadline still in force counts",
			issues:   []int{102993, 108982},
			how: "A taint is tolerated for 600 s, and another one, set 1 s later, for 3 s. Two taints are tolerated for 15 s " +
				"and 5 s, and the second goes after 2 s. After 2 s, tolerationSeconds change from 600 to 5, or from 5 to 15.",
			stories: scenarios.Named("second, shorter taint", "shorter one removed", "seconds shortened", "seconds lengthened"),
		},
		{
			number:   5,
			scenario: "The histogram of eviction durations",
			should:   "It counts seconds",
			pulls:    []int{141311, 141742},
			how:      "`" + durationMetric + "`. Right means that every sample is in a finite bucket and that the sum is plausible.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", 5)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{ByRule, durations},
			}},
		},
		{
			number:   6,
			scenario: "tolerationSeconds of 585 years",
			should:   "The pod stays",
			how:      "18446744074 s, more nanoseconds than fit into 64 bits.",
			stories: []Scenario{{
				Given: []Step{Alone("patient", scene.Tolerating("gone", 18_446_744_074))},
				When:  []Step{Taint("patient", "gone")},
			}},
		},
		{
			number:   7,
			scenario: "A pod is replaced by one with its name, on a healthy node, while its eviction waits",
			should:   "The replacement stays",
			issues:   []int{107543, 125332},
			how:      "80 pods on another node are due first. A second after its taint, the pod is deleted and recreated.",
			stories: []Scenario{{
				Given: []Step{Node("crowded"), Crowd("crowded", queuePods), Node("healthy"), Alone("database-0")},
				When: []Step{
					Taint("crowded", "gone"), After(time.Second), Taint("database-0", "gone"), After(time.Second),
					waits("database-0"), Delete("database-0"), On("healthy", "database-0"),
				},
				Promised: []Check{Stays("database-0")},
				Watched:  20 * time.Second,
			}},
		},
		{
			number:   8,
			scenario: "Taints change while a pod is terminating",
			should:   "The pod is deleted once",
			how:      "Five taints, 1.5 s apart; the first evicts the pod.",
			stories: []Scenario{{
				Given: []Step{Alone("slow")},
				When: []Step{
					every(1500*time.Millisecond, Taint("slow", "one"), Taint("slow", "two"), Taint("slow", "three"),
						Taint("slow", "four"), Taint("slow", "five")),
				},
			}},
		},
		{
			number:   9,
			scenario: "The mirror pod of a static pod is on a tainted node",
			should:   "It is left alone",
			issues:   []int{42753, 96363, 121052},
			how: "The scenario recreates the mirror pod a second after each delete, as a kubelet does. Both controllers delete the " +
				"completed pod on the same node, Taintkeeper on purpose.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), mirrorPod, On("tainted", "completed"), Finish("completed", corev1.PodSucceeded)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{mirrorStays},
			}},
		},
		{
			number:   10,
			scenario: "The controller restarts during a countdown",
			should:   "The pod leaves after 15 s, as it would without a restart",
			issues:   []int{108268},
			how:      "The process gets SIGTERM after 5 s, and a new one starts.",
			stories:  scenarios.Named("restart in mid-countdown"),
		},
		{
			number:   11,
			scenario: "A node is tainted while the node-lifecycle and daemonset controllers are off",
			should:   "The pod leaves",
			how: "`--controllers=*,-node-lifecycle-controller,-daemonset-controller`, also alongside Taintkeeper. The pod ran " +
				"before the taint: both controllers evict pods created on an already tainted node.",
			stories: []Scenario{{
				Given:    []Step{Alone("due")},
				When:     []Step{Taint("due", "gone")},
				Promised: []Check{ByRule, says("Index with name spec.nodeName does not exist")},
			}},
		},
		{
			number:   12,
			scenario: "Thousands of pods are pending, then due at once",
			should:   "The number of goroutines does not grow",
			how: "2,000 pods of one node get a taint that they tolerate for 600 s, then one that they do not tolerate. The highest of " +
				"three scrapes of `go_goroutines` counts; memory is not judged.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", crowd, scene.Tolerating("soon", scenarios.LongTime))},
				Promised: []Check{goroutines},
			}},
		},
		{
			number:   13,
			scenario: "The controller sees a new pod before it sees that its node was untainted",
			should:   "The pod stays",
			issues:   []int{119862, 139992},
			how: "The pod \"before\" is evicted. A proxy then delays only the watch of nodes; upstream's controllers share its " +
				"identity here. The node is untainted, and \"after\" is created on it.",
			stories: scenarios.Named("pod seen before the untaint"),
		},
		{
			number:   14,
			scenario: "Events",
			should:   "'Cancelling deletion' only for pods that stay; events carry the pod's UID",
			how: "One pod's eviction is pending when another client deletes it; another pod is evicted. `kubectl describe pod` " +
				"shows only events with the UID.",
			stories: []Scenario{{
				Given: []Step{Alone("pending", goneAtOnce, scene.Tolerating("gone", scenarios.LongTime)), On("pending", "due")},
				When: []Step{
					Taint("pending", "gone"), Gone("due"), After(time.Second), Delete("pending"),
					After(6 * time.Second), // events are written in the background, at a rate that is limited
				},
				Promised: []Check{cancelledNot("pending"), marked("due")},
			}},
		},
		{
			number:   15,
			scenario: "What operators can see",
			should:   "How many evictions are pending, how they ended, and what would happen",
			how:      "In /metrics, a gauge of pending evictions that is not 0 and a label `result`; in `--help`, `--dry-run`.",
			stories: []Scenario{{
				Given:    []Step{Alone("pending", scene.Tolerating("gone", scenarios.LongTime))},
				When:     []Step{Taint("pending", "gone"), After(2 * time.Second)},
				Promised: []Check{visibility},
			}},
		},
		{
			number:   16,
			scenario: "A toleration with Gt or Lt meets a value that is not an integer",
			should:   "It does not match, and nothing is logged",
			how: "Ten Gt tolerations, and one that matches everything. The node's taints change five times; log lines with the value " +
				"are counted.",
			stories: []Scenario{{
				Given: []Step{Alone("choosy", comparing("quality", 10))},
				When: []Step{
					every(time.Second, junkTaint("choosy"),
						Taint("choosy", "one"), Taint("choosy", "two"), Taint("choosy", "three"), Taint("choosy", "four")),
				},
				Promised: []Check{ByRule, silent(junk)},
			}},
		},
	}
}

// keptRows are the scenarios of what a replacement must not break.
func keptRows() []row {
	return []row{
		{
			section:  keeps,
			number:   17,
			scenario: "A webhook hangs on the deletes of many pods",
			should:   "A pod that it does not select, on another node, leaves when due",
			how: "200 pods of one node; the webhook (`timeoutSeconds: 10`, `failurePolicy: Fail`) does not answer. The other node " +
				"gets its taint, tolerated for 5 s, 21 s after the first call: hanging calls occupy seats, whose number the API " +
				"server adjusts every 10 s, so a pod due earlier may be 10 s late. kube-controller-manager runs with " +
				"`--kube-api-qps=10000`, Taintkeeper with its defaults, so neither limits its calls.",
			stories: []Scenario{hang()},
		},
		{
			section:  keeps,
			number:   18,
			scenario: "A node is not ready, then becomes unreachable during the countdown",
			should:   "The pods leave 8 s and 18 s after the first taint",
			how: "Ready becomes False, 5 s later Unknown, and in the second case switches every 5 s. The node-lifecycle controller, " +
				"which runs alongside both, swaps the NoExecute taints, each with its own timeAdded.",
			stories: []Scenario{swaps("one swap", 1), swaps("three swaps", 3)},
		},
		{
			section:  keeps,
			number:   19,
			scenario: "The controller restarts after such a swap",
			should:   "The pod leaves after 12 s, as it would without a restart",
			how:      "Like 18 with one swap; a second later the process restarts, and with it upstream's node-lifecycle controller.",
			stories: []Scenario{{
				Given: []Step{Alone("counted", scene.ToleratingNotReady(12)...)},
				When:  []Step{unwell("counted"), At("counted", 5*time.Second), unheard("counted"), After(time.Second), Restart},
			}},
		},
		{
			section:  keeps,
			number:   20,
			scenario: "A node is untainted while a DELETE waits for a webhook's response",
			should:   "The pod stays; 'Cancelling deletion' only for pods that stay",
			how:      "The webhook is called, the untaint comes 2 s later, and the webhook admits the DELETE 6 s after the call.",
			stories:  []Scenario{cancelInFlight()},
		},
		{
			section:  keeps,
			number:   21,
			scenario: "The clock of the controller's machine is five minutes ahead",
			should:   "Pods leave after the tolerated 8 s",
			how: "A modified `time` package sets the wall clock; the monotonic clock is not affected. Taints have a timeAdded. The " +
				"clock is set 2 s after the first pod's taint (stepped) and before the second pod's (ahead).",
			stories: []Scenario{{
				Given:    []Step{Alone("stepped", scene.Tolerating("gone", 8)), Alone("ahead", scene.Tolerating("gone", 8))},
				When:     []Step{stampedTaint("stepped"), After(2 * time.Second), clockAhead, stampedTaint("ahead")},
				Promised: []Check{ByRule, clockIsWrong},
			}},
		},
		{
			section:  keeps,
			number:   22,
			scenario: "Another client keeps removing timeAdded from a taint",
			should:   "No fight; the pod leaves after the tolerated 12 s",
			how:      "For 20 s, the scenario looks every 50 ms and removes timeAdded. At most 8 writes to the node are allowed.",
			stories: []Scenario{{
				Given:    []Step{Alone("managed", scene.Tolerating("gone", 12)), untainted("managed")},
				When:     []Step{Taint("managed", "gone"), unstamped("managed", 20*time.Second)},
				Promised: []Check{ByRule, fewWrites("managed")},
			}},
		},
	}
}

// nodeRows are the scenarios of nodes that fall silent.
func nodeRows() []row {
	return []row{
		{
			section:  nodes,
			number:   23,
			scenario: "A client writes to the Lease of a node that has just fallen silent, without renewing it",
			should:   "The node becomes Unknown after 20 s, like the other node",
			how: "6 s after two nodes fell silent, a client sets an annotation of one Lease. Upstream's feature gate " +
				"NodeControllerLeaseCircuitBreaker compares the Lease's version with that of the last renewal.",
			stories: []Scenario{silentNodes(2, "silent-0")},
		},
		{
			section:  nodes,
			number:   24,
			scenario: "200 nodes fall silent at once",
			should:   "All become Unknown after 20 s",
			how:      "Since 1.37, upstream reads the Lease of every silent node in every pass.",
			stories:  []Scenario{silentNodes(200, "")},
		},
	}
}

// act is some scenarios that are played side by side, because they do not disturb one another.
type act struct {
	launch launch
	rows   []int
}

// program returns the acts, in order. A scenario that restarts the contestant, or fills its client's queue, has it to
// itself. After scenario 7, which does not wait until the queue is empty, the process starts again. Scenario 17 follows
// a busy act: the API server lends seats by the load of the minute before. Alongside ours, the controllers that
// scenario 11 switches off stay off. Scenarios of silent nodes are the last, because the node of the canaries is
// silent, too.
func program() []act {
	return []act{
		{usual, []int{3, 4, 5, 6, 8, 9, 14, 15, 16, 18, 20, 22}},
		{unlimited, []int{17}},
		{usual, []int{10}},
		{usual, []int{19}},
		{limited, []int{1}},
		{limited, []int{2}},
		{limited, []int{7}},
		{alone, []int{11}},
		{lagging, []int{13}},
		{settable, []int{21}},
		{limited, []int{12}},
		{watching, []int{23}},
		{watching, []int{24}},
	}
}
