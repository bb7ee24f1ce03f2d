// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
			play: playHang,
		},
		{
			section:  keeps,
			number:   18,
			scenario: "A node is not ready, and becomes unreachable before the toleration ends",
			should:   "The pod leaves when the time is over that it tolerates, from the first taint on: 8 s and 18 s",
			how: "The scenario sets a node's condition Ready to False, 5 s later to Unknown, and in the second case every 5 s to the other of the two. The " +
				"node-lifecycle controller, which runs beside both, swaps the NoExecute taints accordingly, each with its own timeAdded. Times count from the first taint's.",
			play: playSwaps,
		},
		{
			section:  keeps,
			number:   19,
			scenario: "The controller restarts after such a swap",
			should:   "The pod leaves when it would have anyway, after 12 s",
			how: "As in 18, with one swap; a second after it the process is ended by SIGTERM and started again. With kube-controller-manager the " +
				"node-lifecycle controller restarts, too. See also 10.",
			play: playSwapAndRestart,
		},
		{
			section:  keeps,
			number:   20,
			scenario: "A node is untainted while a DELETE waits for the answer of a webhook",
			should:   "The pod stays; 'Cancelling deletion' is said only of pods that stay",
			how: "A validating webhook admits the DELETE of a pod after 6 s. 2 s after it is asked the node is untainted, and the pod watched for 10 s; then " +
				"events are listed.",
			play: playCancelInFlight,
		},
		{
			section:  keeps,
			number:   21,
			scenario: "The clock of the controller's machine is five minutes ahead",
			should:   "Pods leave after the 8 s that they tolerate",
			how: "The process is built with a package `time` whose wall clock can be set while it runs, and whose monotonic clock goes on. Two pods tolerate a " +
				"taint, set with timeAdded as by the node-lifecycle controller, for 8 s. 2 s after the first pod's taint the clock is set five minutes " +
				"ahead; then the node of the second is tainted.",
			play: playClock,
		},
		{
			section:  keeps,
			number:   22,
			scenario: "Somebody takes timeAdded off a taint again and again",
			should:   "They are not fought, and the pod leaves after the 12 s that it tolerates",
			how: "A taint is set without timeAdded; for 20 s the scenario looks every 50 ms whether it has one, and takes it off. Writes of the node are counted " +
				"in the audit log. Right is at most 8.",
			play: playRival,
		},
	}
}
