// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// judge decides which pods have to leave, and when: by this machine's clock and by the API server's, whichever is later.
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

// over returns the verdict over a pod on a tainted node, if it has to leave. Its due instant is one of this machine's clock. Mirror pods can only
// be ended by their kubelet (kubernetes/kubernetes#96363), and terminating ones leave already.
func (j judge) over(pod *podcache.Pod, tainted *node) (verdict.Verdict, bool) {
	if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
		return verdict.Verdict{}, false
	}
	v := j.byOurs(tainted.facts, pod)
	if v.Leaves {
		v.Due = later(v.Due, j.clock.Ours(j.byServers(tainted.facts, pod).Due.Truncate(time.Second)))
	}
	return v, v.Leaves
}

// byOurs returns the verdict by this machine's clock alone.
func (j judge) byOurs(f facts, pod *podcache.Pod) verdict.Verdict {
	return j.rule.Decide(pod.Rule(), f.byOurs)
}

// byServers returns the verdict by the API server's clock alone, to the second.
func (j judge) byServers(f facts, pod *podcache.Pod) verdict.Verdict {
	return j.rule.Decide(pod.RuleAsRecorded(), f.byServers)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
