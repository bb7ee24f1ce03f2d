// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import "github.com/taintkeeper/taintkeeper/internal/readiness"

// Rows are what a page shows. Each has an ID. Instants are milliseconds since 1970 by the API server's clock; zero
// means none.

// headRow has everything that exists only once.
type headRow struct {
	ID        string `json:"id"`
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace,omitempty"`
	Nodes     int    `json:"nodes"`
	Tainted   int    `json:"tainted"`
	Pending   int    `json:"pending"`
	Evictions int    `json:"evictions"`
	// Held is how many of the pending pods EvictionPolicies hold when they are due.
	Held int `json:"held,omitempty"`
	// Idle says that Taintkeeper does not evict, and what that means. It is empty if Taintkeeper evicts, or if that is not
	// known.
	Idle string `json:"idle,omitempty"`
	// NodesRead and PodsRead are set once these have been read. Before that, zero does not mean none.
	NodesRead bool `json:"nodesRead"`
	PodsRead  bool `json:"podsRead"`
}

// sourceRow says how current a kind of object is.
type sourceRow struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Since is when a broken source was last current.
	Since int64 `json:"since,omitempty"`
	// Problem is a sentence, if there is one.
	Problem string `json:"problem,omitempty"`
}

type nodeRow struct {
	ID       string     `json:"id"`
	Zone     string     `json:"zone"`
	Ready    string     `json:"ready"`
	Cordoned bool       `json:"cordoned,omitempty"`
	Taints   []taintRow `json:"taints,omitempty"`
	// Pending is how many of its pods must leave. EvictionPolicies hold Kept of those when they are due. The first of the
	// others leaves at Next and the last at Last.
	Pending int   `json:"pending,omitempty"`
	Kept    int   `json:"kept,omitempty"`
	Next    int64 `json:"next,omitempty"`
	Last    int64 `json:"last,omitempty"`
	// Held says why it waits for its NoExecute taint, in the words of the event.
	Held string `json:"held,omitempty"`
}

type taintRow struct {
	Text  string `json:"text"`
	Since int64  `json:"since,omitempty"`
}

type zoneRow struct {
	ID       string          `json:"id"`
	Nodes    int             `json:"nodes"`
	NotReady int             `json:"notReady"`
	Tainted  int             `json:"tainted"`
	Pending  int             `json:"pending"`
	Held     int             `json:"held"`
	State    readiness.State `json:"state"`
	Why      string          `json:"why,omitempty"`
	// Unread is set while pods have not been read, when Pending is not known.
	Unread bool `json:"unread,omitempty"`
}

type pendingRow struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Due       int64  `json:"due"`
	Taint     string `json:"taint"`
	Tolerated string `json:"tolerated"`
	// HeldBy says which EvictionPolicy holds it when it is due, and why. It is empty if none does. Until is when policies
	// release it if nothing but the time changes.
	HeldBy   string `json:"heldBy,omitempty"`
	Until    int64  `json:"until,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Priority int32  `json:"priority"`
	// Pods is how many pods of the owner leave the node together, if the row is for several pods. Names lists all of them,
	// for the filter, and Some lists a few for people. Name, Due and Priority belong to the first one to leave.
	Pods  int    `json:"pods,omitempty"`
	Names string `json:"names,omitempty"`
	Some  string `json:"some,omitempty"`
}

type ruleRow struct {
	ID        string `json:"id"`
	Condition string `json:"condition"`
	Taint     string `json:"taint"`
	Selected  int32  `json:"selected"`
	Matching  int32  `json:"matching"`
	Tainted   int32  `json:"tainted"`
	Held      int32  `json:"held"`
	Most      string `json:"most,omitempty"`
	DryRun    bool   `json:"dryRun,omitempty"`
	// Problem says why it is not accepted, or why it holds.
	Problem string `json:"problem,omitempty"`
}

type evictionRow struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// At is when it was deleted. Due is when it had to leave, if that is known.
	At  int64 `json:"at"`
	Due int64 `json:"due,omitempty"`
	// Late is how many seconds At is after Due, to the second. It is absent if Due is.
	Late  *int64 `json:"late,omitempty"`
	By    string `json:"by"`
	Taint string `json:"taint,omitempty"`
	// Unknown says why Due is not known.
	Unknown string `json:"unknown,omitempty"`
}

type differenceRow struct {
	ID       string `json:"id"`
	Node     string `json:"node"`
	At       int64  `json:"at"`
	Kind     string `json:"kind"`
	Sentence string `json:"sentence"`
}
