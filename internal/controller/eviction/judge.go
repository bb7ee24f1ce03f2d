// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// judge decides which pods must leave, and when, on the timeline of its clock.
type judge struct {
	rule  verdict.Rule
	clock *timeline.Clock
}

// over returns the verdict over a pod on a node with the given taints, if it must leave. Mirror pods can only be ended
// by their kubelet (kubernetes/kubernetes#96363), and terminating ones leave already.
func (j judge) over(pod *podcache.Pod, tainted []verdict.Taint) (verdict.Verdict, bool) {
	if pod.Flags&(podcache.Mirror|podcache.Terminating) != 0 {
		return verdict.Verdict{}, false
	}
	v := j.rule.Decide(pod.Rule(), tainted)
	return v, v.Leaves
}

// due reports whether a pod on a node with the given taints must leave now.
func (j judge) due(pod *podcache.Pod, tainted []verdict.Taint) bool {
	v, _ := j.over(pod, tainted)
	return v.DueAt(j.clock.Now())
}
