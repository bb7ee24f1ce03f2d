// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// judge decides which pods have to leave, and when: by this machine's clock and by the API server's, whichever is
// later.
type judge struct {
	rule  verdict.Rule
	clock *apicall.Clock
}

// facts are the NoExecute taints of a node, as the rule takes them.
type facts struct {
	byOurs    []verdict.Taint // as they count by this machine's clock
	byServers []verdict.Taint // the same by the API server's
}

func (f *facts) add(r run) {
	f.byOurs = append(f.byOurs, r.Taint)
	f.byServers = append(f.byServers, r.byServer)
}

// over returns the verdict over a pod on a tainted node, if it has to leave. Its due instant is one of this machine's
// clock, and not the last word: by the API server's it is the earliest that can be, as each answer moves what is known
// of that clock.
func (j judge) over(pod *podcache.Pod, tainted *node) (verdict.Verdict, bool) {
	v := j.byOurs(tainted.facts, pod)
	if v.Leaves {
		v.Due = later(v.Due, j.clock.Ours(j.byServers(tainted.facts, pod).Due.Truncate(time.Second)))
	}
	return v, v.Leaves
}

// soonest is the instant at which a pod has to leave by this machine's clock or by the API server's, whichever comes
// first: the built-in may have either.
func (j judge) soonest(pod *podcache.Pod, tainted *node) (due time.Time, leaves bool) {
	v := j.byOurs(tainted.facts, pod)
	return earlier(v.Due, j.clock.Ours(j.byServers(tainted.facts, pod).Due)), v.Leaves
}

// byOurs returns the verdict by this machine's clock alone. Mirror pods can only be ended by their kubelet
// (kubernetes/kubernetes#96363), and terminating ones leave already.
func (j judge) byOurs(f facts, pod *podcache.Pod) verdict.Verdict {
	if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
		return verdict.Verdict{}
	}
	return j.rule.Decide(pod.Rule(), f.byOurs)
}

// byServers returns the verdict by the API server's clock alone.
func (j judge) byServers(f facts, pod *podcache.Pod) verdict.Verdict {
	return j.rule.Decide(pod.RuleAsRecorded(), f.byServers)
}

// dueByServers returns when a pod that leaves is due by the API server's clock, given the verdict by this machine's. A
// Date tells the second. What lies within it is left to this machine's clock if the two agree, and agreed when the
// countdown began.
func (j judge) dueByServers(f facts, pod *podcache.Pod, byOurs verdict.Verdict) time.Time {
	due := j.byServers(f, pod).Due
	if j.clock.Offset() == 0 && byOurs.Due.Sub(due).Abs() < time.Second {
		due = due.Truncate(time.Second)
	}
	return due
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
