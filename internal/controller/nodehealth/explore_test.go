// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/explore"
)

// In these worlds every history was walked, and none breaks a promise.
func TestEveryHistoryOfFourNodes(t *testing.T) {
	nodes := []string{nodeDies, zoneDies, nodeResumes, saysReady, losesLease, isReplaced}
	troubles := []string{string(apiDown), string(leasesHang), string(nodesHang), string(processHang)}
	for name, world := range map[string]struct {
		smallSize
		long bool
	}{
		"one of everything, in any order": {smallSize{1, slices.Concat(nodes, troubles, []string{restart, breaks, refuse}), false}, false},
		"two of silence and new watches": {
			smallSize{2, []string{nodeDies, breaks, restart, losesLease}, true}, false,
		},
		"two of silence and blindness":       {smallSize{2, append(troubles, nodeDies), true}, true},
		"a hang between silence and its end": {smallSize{3, []string{nodeDies, string(processHang), nodeResumes}, true}, true},
		"a late watch between news and silence": {
			smallSize{3, []string{nodeDies, string(leasesHang), saysReady}, true}, true,
		},
		"two of silence and other news": {smallSize{2, []string{nodeDies, saysReady, isReplaced, refuse}, true}, true},
		"two of silence and its end":    {smallSize{2, []string{nodeDies, zoneDies, nodeResumes, restart}, true}, true},
	} {
		if world.long && testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			begin := func() explore.World { return newSmallWorld(world.smallSize) }
			is := explore.Search{New: begin, Until: func(string) bool { return true }}.Walk()
			t.Logf("%d states, %d steps, at most %d in a history", is.States, is.Steps, is.Depth)
			for promise, history := range is.Broken {
				t.Errorf("%s:\n%s", promise, strings.Join(history.Timeline(begin), "\n"))
			}
		})
	}
}
