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
	// fixes are the defects of kube-controller-manager v1.36.3 that Taintkeeper fixes, under the numbers of
	// docs/proofs.md.
	fixes section = iota
	// keeps is what users rely on, and a replacement can lose.
	keeps
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
func rows() []row { return slices.Concat(fixedRows(), keptRows()) }

func fixedRows() []row {
	return []row{
		{
			number:   1,
			scenario: "A node is untainted while most of the evictions from it still wait",
			should:   "No pod is deleted after the untaint",
			how: "200 pods on one node; tainted, and untainted 2 s later. Deletes that the API server accepted after it had " +
				"answered the untaint are counted in its audit log; for 1 s they may have been under way. " + atSameLimits,
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", untaintPods)},
				When:     []Step{Taint("tainted", "gone"), After(2 * time.Second), Untaint("tainted", "gone")},
				Promised: []Check{NoneAfterUntaint("tainted")},
			}},
		},
		{
			number:   2,
			scenario: "Many pods are due at once",
			should:   "The first leaves at once; two calls per pod",
			how: "150 pods on one node are due at once. The first and the last accepted delete, and the calls on pods, are read from the " +
				"audit log. Right is a first delete within 2 s and less than 2.5 calls per pod. " + atSameLimits,
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), Crowd("tainted", stormPods)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{storm},
			}},
		},
		{
			number:   3,
			scenario: "Deletes are refused for some seconds, by a webhook, a policy or an API server that restarts",
			should:   "The pod leaves once deletes are allowed again",
			issues:   []int{140639},
			how: "A ValidatingAdmissionPolicy refuses the delete of a pod that is due; 3 s later it is removed. Once a delete would be " +
				"accepted again, as a dry run shows, the pod is watched for 20 s. Right is at most 10 s, as a retry backs off.",
			stories: scenarios.Named("deletes refused"),
		},
		{
			number:   4,
			scenario: "What a deadline depends on changes while it runs",
			should:   "The state decides: the pod leaves at the earliest deadline that holds then",
			issues:   []int{102993, 108982},
			how: "Four pods: a taint tolerated for 600 s and a second one, tolerated for 3 s, a second after the first; two taints tolerated for 15 s and 5 s, " +
				"the second of which is removed after 2 s; tolerationSeconds changed after 2 s from 600 to 5, and from 5 to 15.",
			stories: scenarios.Named("second, shorter taint", "shorter one removed", "seconds shortened", "seconds lengthened"),
		},
		{
			number:   5,
			scenario: "The histogram of how long evictions take",
			should:   "It counts in seconds",
			pulls:    []int{141311, 141742},
			how: "Five pods are evicted, beside those of other scenarios, and `" + durationMetric + "` is scraped. " +
				"Right is that every sample is in one of the finite buckets, and a sum that fits.",
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
			how:      "A pod tolerates a taint for 18446744074 s, which as nanoseconds is more than 64 bits hold. It is watched for 10 s.",
			stories: []Scenario{{
				Given: []Step{Alone("patient", scene.Tolerating("gone", 18_446_744_074))},
				When:  []Step{Taint("patient", "gone")},
			}},
		},
		{
			number:   7,
			scenario: "A pod is replaced under its name, on a healthy node, while its eviction waits",
			should:   "The replacement stays",
			issues:   []int{107543, 125332},
			how: "80 pods on another node are due first, so that the pod's eviction waits. A second after its own taint the pod is deleted and made " +
				"anew on a node without taints. The new one is watched for 20 s. That a replacement on the tainted node can be skipped for ever is not " +
				"shown. " + atSameLimits,
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
			scenario: "Taints change under a pod that terminates",
			should:   "The pod is deleted once",
			how: "Five taints come, 1.5 s apart, to the node of a pod that tolerates none: the first ends it, and it terminates for longer than " +
				"that. Accepted deletes are counted in the audit log.",
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
			scenario: "A mirror pod, as a kubelet makes it of a static pod, on a tainted node",
			should:   "It is left alone",
			issues:   []int{42753, 96363, 121052},
			how: "The scenario plays the kubelet: the mirror pod comes back a second after each delete, for 10 s. A completed pod is on the same " +
				"node: both controllers delete those, which Taintkeeper keeps as it is.",
			stories: []Scenario{{
				Given:    []Step{Node("tainted"), mirrorPod, On("tainted", "completed"), Finish("completed", corev1.PodSucceeded)},
				When:     []Step{Taint("tainted", "gone")},
				Promised: []Check{mirrorStays},
			}},
		},
		{
			number:   10,
			scenario: "The controller restarts in mid-countdown",
			should:   "The pod leaves when it would have anyway, after 15 s",
			issues:   []int{108268},
			how:      "A pod tolerates a taint for 15 s. After 5 s the process is ended by SIGTERM and started again.",
			stories:  scenarios.Named("restart in mid-countdown"),
		},
		{
			number:   11,
			scenario: "A node is tainted while the controller runs without the node-lifecycle and the daemonset controller",
			should:   "The pod leaves",
			how: "kube-controller-manager runs with `--controllers=*,-node-lifecycle-controller,-daemonset-controller`, also beside Taintkeeper. A pod on a " +
				"node that is tainted then is watched for 10 s. A pod that is made on a node that is tainted already is evicted by both: that way needs no " +
				"index of pods by node.",
			stories: []Scenario{{
				Given:    []Step{Alone("due")},
				When:     []Step{Taint("due", "gone")},
				Promised: []Check{ByRule, says("Index with name spec.nodeName does not exist")},
			}},
		},
		{
			number:   12,
			scenario: "Thousands of pods are pending, then due at once",
			should:   "The number of goroutines does not follow that of the pods",
			how: "2,000 pods on one node, with a taint that they tolerate for 600 s, then with one that they do not. The most of three scrapes, a second " +
				"apart, of `go_goroutines` counts; memory is told and not judged. A timer per pending pod is not a goroutine and does not show. " + atSameLimits,
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
			how: "The controller reaches the API server through a proxy that holds back the watch of nodes and nothing else. The node is untainted, then a " +
				"pod is made on it, which is watched for 6 s. kube-controller-manager's controllers share one identity here, which the proxy has.",
			stories: scenarios.Named("pod seen before the untaint"),
		},
		{
			number:   14,
			scenario: "What the events say",
			should:   "'Cancelling deletion' only of pods that stay; events name the pod by its UID",
			how: "A pod whose eviction is pending is deleted by somebody else; another is evicted. Events are listed after 6 s. Without the UID " +
				"`kubectl describe pod` does not show an event. (See also opsgenie/kubernetes-event-exporter, pull request 193.)",
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
			scenario: "What an operator can see of evictions",
			should:   "How many are pending, how they ended, what would happen",
			how: "With an eviction pending, /metrics is searched for a gauge of pending evictions that is not 0 and for a label `result`, and `--help` for " +
				"`--dry-run`. That a dry run changes nothing is the matter of an integration test.",
			stories: []Scenario{{
				Given:    []Step{Alone("pending", scene.Tolerating("gone", scenarios.LongTime))},
				When:     []Step{Taint("pending", "gone"), After(2 * time.Second)},
				Promised: []Check{visibility},
			}},
		},
		{
			number:   16,
			scenario: "A toleration with Gt or Lt meets a value that is no integer",
			should:   "It does not match, and the log is silent",
			how: "With the feature gate TaintTolerationComparisonOperators on, as in all scenarios. A pod with ten tolerations with Gt, and one for " +
				"everything, is on a node with such a taint, whose taints change five times. Lines with the value are counted in the log.",
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

// keptRows are the scenarios of what a replacement must not lose.
func keptRows() []row {
	return []row{
		{
			section:  keeps,
			number:   17,
			scenario: "A webhook hangs while it is asked about the deletes of many pods",
			should:   "A pod on another node, which is not its concern, leaves when it is due",
			how: "200 pods of one node are due; a validating webhook on their DELETE (`timeoutSeconds: 10`, `failurePolicy: Fail`) does not answer. " +
				"When the first waits for it, another node is tainted, whose pod tolerates that for 5 s. Neither controller has a limit of calls per " +
				"second: kube-controller-manager runs with `--kube-api-qps=10000`, Taintkeeper with its defaults. By the API server's own flow control, which is " +
				"as it comes, calls of both share some 100 seats with all service accounts of kube-system: calls that hang keep theirs. How many there are depends on the " +
				"load of the minute before: in other runs the pod was up to 10 s late with Taintkeeper and 5 s with upstream.",
			stories: []Scenario{hang()},
		},
		{
			section:  keeps,
			number:   18,
			scenario: "A node is not ready, and becomes unreachable before the toleration ends",
			should:   "The pod leaves when the time is over that it tolerates, from the first taint on: 8 s and 18 s",
			how: "The scenario sets a node's condition Ready to False, 5 s later to Unknown, and in the second case every 5 s to the other of the two. The " +
				"node-lifecycle controller, which runs beside both, swaps the NoExecute taints accordingly, each with its own timeAdded. Times count from the first taint's.",
			stories: []Scenario{swaps("one swap", 1), swaps("three swaps", 3)},
		},
		{
			section:  keeps,
			number:   19,
			scenario: "The controller restarts after such a swap",
			should:   "The pod leaves when it would have anyway, after 12 s",
			how: "As in 18, with one swap; a second after it the process is ended by SIGTERM and started again. With kube-controller-manager the " +
				"node-lifecycle controller restarts, too. See also 10.",
			stories: []Scenario{{
				Given: []Step{Alone("counted", scene.ToleratingNotReady(12)...)},
				When:  []Step{unwell("counted"), At("counted", 5*time.Second), unheard("counted"), After(time.Second), Restart},
			}},
		},
		{
			section:  keeps,
			number:   20,
			scenario: "A node is untainted while a DELETE waits for the answer of a webhook",
			should:   "The pod stays; 'Cancelling deletion' is said only of pods that stay",
			how: "A validating webhook admits the DELETE of a pod after 6 s. 2 s after it is asked the node is untainted, and the pod watched for 10 s; then " +
				"events are listed.",
			stories: []Scenario{cancelInFlight()},
		},
		{
			section:  keeps,
			number:   21,
			scenario: "The clock of the controller's machine is five minutes ahead",
			should:   "Pods leave after the 8 s that they tolerate",
			how: "The process is built with a package `time` whose wall clock can be set while it runs, and whose monotonic clock goes on. Two pods tolerate a " +
				"taint, set with timeAdded as by the node-lifecycle controller, for 8 s. 2 s after the first pod's taint the clock is set five minutes " +
				"ahead; then the node of the second is tainted.",
			stories: []Scenario{{
				Given:    []Step{Alone("stepped", scene.Tolerating("gone", 8)), Alone("ahead", scene.Tolerating("gone", 8))},
				When:     []Step{stampedTaint("stepped"), After(2 * time.Second), clockAhead, stampedTaint("ahead")},
				Promised: []Check{ByRule, clockIsWrong},
			}},
		},
		{
			section:  keeps,
			number:   22,
			scenario: "Somebody takes timeAdded off a taint again and again",
			should:   "They are not fought, and the pod leaves after the 12 s that it tolerates",
			how: "A taint is set without timeAdded; for 20 s the scenario looks every 50 ms whether it has one, and takes it off. Writes of the node are counted " +
				"in the audit log. Right is at most 8.",
			stories: []Scenario{{
				Given:    []Step{Alone("managed", scene.Tolerating("gone", 12)), untainted("managed")},
				When:     []Step{Taint("managed", "gone"), unstamped("managed", 20*time.Second)},
				Promised: []Check{ByRule, fewWrites("managed")},
			}},
		},
	}
}

const atSameLimits = "Both controllers have the same limits, 20 calls per second and bursts of 30: upstream's default; Taintkeeper's default is none."

// act is some scenarios that are played side by side, because they do not disturb one another.
type act struct {
	launch launch
	rows   []int
}

// programme returns the acts, in order. A scenario that restarts the contestant, or fills its client's queue, has it
// for itself. After scenario 7, which does not wait until the queue is empty, the process starts again. Scenario 17
// follows a busy act: the API server lends seats by the load of the minute before. Alongside ours, the controllers that
// scenario 11 switches off stay off.
func programme() []act {
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
	}
}
