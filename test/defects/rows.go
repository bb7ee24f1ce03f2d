// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
)

// section is what a row is about.
type section int

const (
	// fixes are the defects of kube-controller-manager v1.36.3 that Taintkeeper fixes, under the numbers of
	// docs/evaluation.md.
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
	how  string
	play func(context.Context, *scene) (finding, error)
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
			play: playUntaint,
		},
		{
			number:   2,
			scenario: "Many pods are due at once",
			should:   "The first leaves at once; two calls per pod",
			how: "150 pods on one node are due at once. The first and the last accepted delete, and the calls on pods, are read from the " +
				"audit log. Right is a first delete within 2 s and less than 2.5 calls per pod. " + atSameLimits,
			play: playStorm,
		},
		{
			number:   3,
			scenario: "Deletes are refused for some seconds, by a webhook, a policy or an API server that restarts",
			should:   "The pod leaves once deletes are allowed again",
			issues:   []int{140639},
			how: "A ValidatingAdmissionPolicy refuses the delete of a pod that is due; 3 s later it is removed. Once a delete would be " +
				"accepted again, as a dry run shows, the pod is watched for 20 s. Right is at most 10 s, as a retry backs off.",
			play: playRefusal,
		},
		{
			number:   4,
			scenario: "What a deadline depends on changes while it runs",
			should:   "The state decides: the pod leaves at the earliest deadline that holds then",
			issues:   []int{102993, 108982},
			how: "Four pods: a taint tolerated for 600 s and a second one, tolerated for 3 s, a second later; two taints tolerated for 15 s and 5 s, " +
				"the second of which is removed after 2 s; tolerationSeconds changed after 2 s from 600 to 5, and from 5 to 15.",
			play: playChanges,
		},
		{
			number:   5,
			scenario: "The histogram of how long evictions take",
			should:   "It counts in seconds",
			pulls:    []int{141311, 141742},
			how: "Five pods are evicted, beside those of other scenarios, and `" + durationMetric + "` is scraped. " +
				"Right is that every sample is in one of the finite buckets, and a sum that fits.",
			play: playDuration,
		},
		{
			number:   6,
			scenario: "tolerationSeconds of 585 years",
			should:   "The pod stays",
			how:      "A pod tolerates a taint for 18446744074 s, which as nanoseconds is more than 64 bits hold. It is watched for 10 s.",
			play:     playOverflow,
		},
		{
			number:   7,
			scenario: "A pod is replaced under its name, on a healthy node, while its eviction waits",
			should:   "The replacement stays",
			issues:   []int{107543, 125332},
			how: "80 pods on another node are due first, so that the pod's eviction waits. A second after its own taint the pod is deleted and made " +
				"anew on a node without taints. The new one is watched for 20 s. That a replacement on the tainted node can be skipped for ever is not " +
				"shown. " + atSameLimits,
			play: playReplacement,
		},
		{
			number:   8,
			scenario: "Taints change under a pod that terminates",
			should:   "The pod is deleted once",
			how: "Five taints come, 1.5 s apart, to the node of a pod that tolerates none: the first ends it, and it terminates for longer than " +
				"that. Accepted deletes are counted in the audit log.",
			play: playTerminating,
		},
		{
			number:   9,
			scenario: "A mirror pod, as a kubelet makes it of a static pod, on a tainted node",
			should:   "It is left alone",
			issues:   []int{42753, 96363, 121052},
			how: "The scenario plays the kubelet: the mirror pod comes back a second after each delete, for 10 s. A completed pod is on the same " +
				"node: both controllers delete those, which Taintkeeper keeps as it is.",
			play: playMirror,
		},
		{
			number:   10,
			scenario: "The controller restarts in mid-countdown",
			should:   "The pod leaves when it would have anyway, after 15 s",
			issues:   []int{108268},
			how:      "A pod tolerates a taint for 15 s. Well before they are over, when 19 is ready for it, the process is ended by SIGTERM and started again.",
			play:     playRestart,
		},
		{
			number:   11,
			scenario: "A node is tainted while the controller runs without the node-lifecycle and the daemonset controller",
			should:   "The pod leaves",
			how: "kube-controller-manager runs with `--controllers=*,-node-lifecycle-controller,-daemonset-controller`, also beside Taintkeeper. A pod on a " +
				"node that is tainted then is watched for 10 s. A pod that is made on a node that is tainted already is evicted by both: that way needs no " +
				"index of pods by node.",
			play: playAlone,
		},
		{
			number:   12,
			scenario: "Thousands of pods are pending, then due at once",
			should:   "The number of goroutines does not follow that of the pods",
			how: "2,000 pods on one node, with a taint that they tolerate for 600 s, then with one that they do not. The most of three scrapes, a second " +
				"apart, of `go_goroutines` counts; memory is told and not judged. A timer per pending pod is not a goroutine and does not show. " + atSameLimits,
			play: playCrowd,
		},
		{
			number:   13,
			scenario: "The controller sees a new pod before it sees that its node was untainted",
			should:   "The pod stays",
			issues:   []int{119862, 139992},
			how: "The controller reaches the API server through a proxy that holds back the watch of nodes and nothing else. The node is untainted, then a " +
				"pod is made on it, which is watched for 6 s. kube-controller-manager's controllers share one identity here, which the proxy has.",
			play: playLag,
		},
		{
			number:   14,
			scenario: "What the events say",
			should:   "'Cancelling deletion' only of pods that stay; events name the pod by its UID",
			how: "A pod whose eviction is pending is deleted by somebody else; another is evicted. Events are listed after 6 s. Without the UID " +
				"`kubectl describe pod` does not show an event. (See also opsgenie/kubernetes-event-exporter, pull request 193.)",
			play: playEvents,
		},
		{
			number:   15,
			scenario: "What an operator can see of evictions",
			should:   "How many are pending, how they ended, what would happen",
			how: "With an eviction pending, /metrics is searched for a gauge of pending evictions that is not 0 and for a label `result`, and `--help` for " +
				"`--dry-run`. That a dry run changes nothing is the matter of an integration test.",
			play: playVisibility,
		},
		{
			number:   16,
			scenario: "A toleration with Gt or Lt meets a value that is no integer",
			should:   "It does not match, and the log is silent",
			how: "With the feature gate TaintTolerationComparisonOperators on, as in all scenarios. A pod with ten tolerations with Gt, and one for " +
				"everything, is on a node with such a taint, whose taints change five times. Lines with the value are counted in the log.",
			play: playJunk,
		},
	}
}

const atSameLimits = "Both controllers have the same limits, 20 calls per second and bursts of 30: upstream's default; Taintkeeper's default is none."

// act is some scenarios that are played side by side, because they do not disturb one another.
type act struct {
	launch launch
	rows   []int
}

// programme returns the acts, in order. Those scenarios that restart the contestant do it together. Those that fill the
// client's queue have it for themselves; after scenario 7, which does not wait until it is empty, the process starts
// anew. Beside ours, the controllers that scenario 11 switches off stay off.
func programme() []act {
	return []act{
		{usual, []int{3, 4, 5, 6, 8, 9, 14, 15, 16, 18, 20, 22}},
		{usual, []int{10, 19}},
		{unlimited, []int{17}},
		{limited, []int{1}},
		{limited, []int{2}},
		{limited, []int{7}},
		{alone, []int{11}},
		{lagging, []int{13}},
		{settable, []int{21}},
		{limited, []int{12}},
	}
}
