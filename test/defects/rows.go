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
			scenario: "A node is untainted while most of its evictions are still waiting",
			should:   "No pod is deleted after the untaint",
			how: "A node with 200 pods is tainted, and untainted 2 s later. Deletes count if the API server accepted " +
				"them more than 1 s after it answered the untaint, according to the audit log. " + atSameLimits,
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
			how: "150 pods on one node are due at once. Deletes and calls are counted in the audit log. Right means a " +
				"first delete within 4 s and fewer than 2.5 calls per pod. " + atSameLimits,
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", stormPods)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{storm},
			}},
		},
		{
			number:   3,
			scenario: "Deletes are refused for some seconds, by a webhook, a policy or a restarting API server",
			should:   "The pod leaves once deletes are allowed again",
			issues:   []int{140639},
			how: "A ValidatingAdmissionPolicy refuses the delete of a due pod and is removed 3 s later. Right means that the " +
				"pod leaves within 10 s after a dry-run delete is accepted again, which allows for backoff.",
			stories: scenarios.Named("deletes refused"),
		},
		{
			number:   4,
			scenario: "Taints or tolerationSeconds change during a countdown",
			should:   "The earliest deadline that still holds counts",
			issues:   []int{102993, 108982},
			how: "Four pods. One tolerates a taint for 600 s, and a second later its node gets a second taint, which it " +
				"tolerates for 3 s. One tolerates two taints for 15 s and 5 s, and the second is removed after 2 s. On " +
				"the other two, tolerationSeconds change after 2 s, from 600 to 5 and from 5 to 15.",
			stories: scenarios.Named("second, shorter taint", "shorter one removed", "seconds shortened", "seconds lengthened"),
		},
		{
			number:   5,
			scenario: "The histogram of eviction durations",
			should:   "It counts seconds",
			pulls:    []int{141311, 141742},
			how: "Five pods are evicted, along with those of other scenarios, and `" + durationMetric + "` is scraped. " +
				"Right means that every sample is in a finite bucket and that the sum is plausible.",
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
			how: "A pod tolerates a taint for 18446744074 s, more nanoseconds than fit into 64 bits. It is watched for " +
				"10 s.",
			stories: []Scenario{{
				Given: []Step{Alone("patient", scene.Tolerating("gone", 18_446_744_074))},
				When:  []Step{Taint("patient", "gone")},
			}},
		},
		{
			number:   7,
			scenario: "A pod is replaced under the same name, on a healthy node, while its eviction waits",
			should:   "The replacement stays",
			issues:   []int{107543, 125332},
			how: "80 pods on another node are due first, so the pod's eviction waits. A second after its own taint " +
				"the pod is deleted and recreated on a node without taints. The new pod is watched for 20 s. " + atSameLimits,
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
			scenario: "Taints change while a pod terminates",
			should:   "The pod is deleted once",
			how: "The node of a pod that tolerates nothing gets five taints, 1.5 s apart, while the pod terminates because " +
				"of the first. Accepted deletes are counted in the audit log.",
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
			how: "The scenario acts as the kubelet: it recreates the mirror pod a second after each delete, for 10 s. " +
				"Both controllers delete the completed pod on the same node, which Taintkeeper does on purpose.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), mirrorPod, On("tainted", "completed"), Finish("completed", corev1.PodSucceeded)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{mirrorStays},
			}},
		},
		{
			number:   10,
			scenario: "The controller restarts during a countdown",
			should:   "The pod leaves after 15 s, as without a restart",
			issues:   []int{108268},
			how:      "A pod tolerates a taint for 15 s. After 5 s the process gets SIGTERM and restarts.",
			stories:  scenarios.Named("restart in mid-countdown"),
		},
		{
			number:   11,
			scenario: "A node is tainted while the node-lifecycle and daemonset controllers are off",
			should:   "The pod leaves",
			how: "kube-controller-manager runs with " +
				"`--controllers=*,-node-lifecycle-controller,-daemonset-controller`, also alongside Taintkeeper. The node " +
				"of a running pod is tainted, and the pod is watched for 10 s. Pods created on an already tainted node " +
				"need no index, and both controllers evict them.",
			stories: []Scenario{{
				Given:    []Step{Alone("due")},
				When:     []Step{Taint("due", "gone")},
				Promised: []Check{ByRule, says("Index with name spec.nodeName does not exist")},
			}},
		},
		{
			number:   12,
			scenario: "Thousands of pods are pending, then due at once",
			should:   "The number of goroutines does not grow with the number of pods",
			how: "A node with 2,000 pods gets a taint that they tolerate for 600 s, then one that they do not tolerate. The " +
				"highest of three scrapes of `go_goroutines`, a second apart, counts; memory is shown but not judged. " +
				atSameLimits,
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
			how: "A pod (before) is evicted from a tainted node. A proxy then delays the controller's watch of nodes and " +
				"nothing else. The node is untainted, and another pod (after) is created on it and watched for 10 s. " +
				"kube-controller-manager's controllers share the proxy's identity here.",
			stories: scenarios.Named("pod seen before the untaint"),
		},
		{
			number:   14,
			scenario: "Events",
			should:   "'Cancelling deletion' only for pods that stay; events carry the pod's UID",
			how: "Another client deletes a pod whose eviction is pending; another pod is evicted. Events are listed " +
				"after 6 s. `kubectl describe pod` shows only events with the UID.",
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
			how: "With an eviction pending, /metrics is searched for a gauge of pending evictions that is not 0 and " +
				"for a label `result`, and `--help` for `--dry-run`.",
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
			how: "The feature gate TaintTolerationComparisonOperators is on, as in all scenarios. A pod with ten Gt " +
				"tolerations and one that matches everything is on a node whose taint has a non-integer value. The node's " +
				"taints change five times, and log lines with the value are counted.",
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
			should:   "A pod on another node, which the webhook does not select, leaves when it is due",
			how: "200 pods of one node are due, and a validating webhook on their DELETE (`timeoutSeconds: 10`, " +
				"`failurePolicy: Fail`) does not answer. 21 s after the first call, another node gets a taint, which its " +
				"pod tolerates for 5 s. Neither controller limits the rate of its calls: kube-controller-manager runs with " +
				"`--kube-api-qps=10000`, Taintkeeper with its defaults. Hanging calls occupy the controller's seats in the " +
				"API server's flow control, which adjusts their number every 10 s. A pod that is due before that " +
				"may be up to 10 s late.",
			stories: []Scenario{hang()},
		},
		{
			section:  keeps,
			number:   18,
			scenario: "A node is not ready, then becomes unreachable during the countdown",
			should:   "The pods leave 8 s and 18 s after the first taint, as their tolerations say",
			how: "The scenario sets a node's condition Ready to False and 5 s later to Unknown; in the second case " +
				"it keeps switching every 5 s. The node-lifecycle controller, which runs next to both, swaps the " +
				"NoExecute taints, each with its own timeAdded. Times count from the first taint.",
			stories: []Scenario{swaps("one swap", 1), swaps("three swaps", 3)},
		},
		{
			section:  keeps,
			number:   19,
			scenario: "The controller restarts after such a swap",
			should:   "The pod leaves after 12 s, as without a restart",
			how: "As in 18, with one swap. A second later the process gets SIGTERM and restarts. In " +
				"kube-controller-manager, the node-lifecycle controller restarts too.",
			stories: []Scenario{{
				Given: []Step{Alone("counted", scene.ToleratingNotReady(12)...)},
				When:  []Step{unwell("counted"), At("counted", 5*time.Second), unheard("counted"), After(time.Second), Restart},
			}},
		},
		{
			section:  keeps,
			number:   20,
			scenario: "A node is untainted while a DELETE waits for a webhook's answer",
			should:   "The pod stays; 'Cancelling deletion' only for pods that stay",
			how: "A validating webhook admits the DELETE of a pod after 6 s. The node is untainted 2 s after the " +
				"webhook is called, and the pod is watched for 10 s. Then events are listed.",
			stories: []Scenario{cancelInFlight()},
		},
		{
			section:  keeps,
			number:   21,
			scenario: "The clock of the controller's machine is five minutes ahead",
			should:   "Pods leave after the 8 s that they tolerate",
			how: "The program is built with a modified `time` package, whose wall clock can be set; its monotonic clock " +
				"is not affected. Two pods tolerate a taint for 8 s, set with timeAdded as the node-lifecycle controller " +
				"does. 2 s after the first pod's taint, the clock is set five minutes ahead; then the second pod's node " +
				"is tainted.",
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
			should:   "The controller does not fight it, and the pod leaves after the 12 s that it tolerates",
			how: "A taint is set without timeAdded. For 20 s the scenario checks every 50 ms whether it has one, " +
				"and removes it. Writes to the node are counted in the audit log; at most 8 are allowed.",
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
			should:   "The node becomes Unknown after 20 s, like the other silent node",
			how: "Both nodes fall silent at once, and 6 s later a client sets an annotation of the Lease of one of them. " + inSilence +
				" Upstream's feature gate is NodeControllerLeaseCircuitBreaker: it compares the version of the Lease with the one of the last renewal.",
			stories: []Scenario{silentNodes(2, "silent-0")},
		},
		{
			section:  nodes,
			number:   24,
			scenario: "200 nodes fall silent at once",
			should:   "All become Unknown after 20 s",
			how: "The leases of 200 nodes are renewed, and then no more. " + inSilence +
				" Since 1.37, upstream reads the Lease of every silent node in every pass.",
			stories: []Scenario{silentNodes(200, "")},
		},
	}
}

const inSilence = "Both controllers run with `--node-monitor-grace-period=20s`. Upstream checks all nodes every 5 s, its default, so right " +
	"means that each node is Unknown 20 to 29 s after the last renewal of its Lease. Nodes are watched for 110 s."

const atSameLimits = "Both controllers run with upstream's default limits of 20 calls per second and bursts of 30."

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
