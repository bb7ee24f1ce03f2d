// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

func TestANodeIsRefusedByTheTaintAndInTheWordsOfTaintToleration(t *testing.T) {
	eachGate(t, func(t *testing.T, c comparison) { property(c.checkFilter).Hold(t) })
}

func TestACordonedNodeIsRefusedAsOneWithTheTaintUnschedulable(t *testing.T) {
	eachGate(t, func(t *testing.T, c comparison) { property(c.checkCordon).Hold(t) })
}

func TestTheNodesThatAreLeftAreScoredAsByTaintToleration(t *testing.T) {
	eachGate(t, func(t *testing.T, c comparison) { property(c.checkScore).Hold(t) })
}

func TestCountsOfAnySizeAreNormalizedAsByTaintToleration(t *testing.T) {
	compareWith(t, false).normalizing().Hold(t)
}

func TestTheBestScoreIsTheSchedulers(t *testing.T) {
	if taints.MaxNodeScore != fwk.MaxScore {
		t.Errorf("%d, the scheduler's is %d", taints.MaxNodeScore, fwk.MaxScore)
	}
}

func (c comparison) checkFilter(in input) error {
	pod := podWith(in.Tolerations)
	infos, err := snapshot(in.Nodes)
	if err != nil {
		return err
	}
	for i, node := range in.Nodes {
		theirs, ours := c.scheduler.filter(pod, infos[i]), c.refuses(node, in.Tolerations)
		if ours != theirs {
			return fmt.Errorf("what node %d is refused for (-upstream +ours):\n%s", i, cmp.Diff(theirs, ours))
		}
	}
	return nil
}

func (c comparison) refuses(node node, tolerations []corev1.Toleration) refusal {
	taint, found := c.ours.Untolerated(node.Taints, tolerations)
	if !found {
		return refusal{Taint: taint}
	}
	return refusal{Code: fwk.UnschedulableAndUnresolvable, Message: taints.UnschedulableMessage, Taint: taint}
}

// checkCordon: package taints has no word for spec.unschedulable. It is asked about the taint that stands for it, which
// node-lifecycle adds to every such node.
func (c comparison) checkCordon(in input) error {
	pod := podWith(in.Tolerations)
	infos, err := snapshot(in.Nodes)
	if err != nil {
		return err
	}
	for i, node := range in.Nodes {
		_, found := c.ours.Untolerated(taintsOfCordon(node), in.Tolerations)
		if theirs := c.scheduler.refusesCordoned(pod, infos[i]); found != theirs {
			return fmt.Errorf("node %d is refused: ours %t, upstream %t", i, found, theirs)
		}
	}
	return nil
}

func taintsOfCordon(node node) []corev1.Taint {
	if !node.Unschedulable {
		return nil
	}
	return []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
}

// checkScore scores the nodes that pass the filter, as the scheduler does, and then all of them.
func (c comparison) checkScore(in input) error {
	var passing []node
	for _, node := range in.Nodes {
		if _, found := c.ours.Untolerated(node.Taints, in.Tolerations); !found {
			passing = append(passing, node)
		}
	}
	if err := c.checkScoreOf(passing, in.Tolerations); err != nil {
		return fmt.Errorf("the nodes that pass: %w", err)
	}
	return c.checkScoreOf(in.Nodes, in.Tolerations)
}

func (c comparison) checkScoreOf(nodes []node, tolerations []corev1.Toleration) error {
	infos, err := snapshot(nodes)
	if err != nil {
		return err
	}
	raw, normalized, err := c.scheduler.score(podWith(tolerations), infos)
	if err != nil {
		return err
	}
	var counts []int
	var scores []int64
	for _, node := range nodes {
		count := c.ours.CountIntolerable(node.Taints, tolerations)
		counts, scores = append(counts, count), append(scores, int64(count))
	}
	if !slices.Equal(raw, scores) {
		return fmt.Errorf("intolerable taints of the nodes (-upstream +ours):\n%s", cmp.Diff(raw, scores))
	}
	if ours := c.ours.Normalize(counts); !slices.Equal(normalized, ours) {
		return fmt.Errorf("scores of the nodes (-upstream +ours):\n%s", cmp.Diff(normalized, ours))
	}
	return nil
}

func (c comparison) checkNormalize(counts []int) error {
	raw := make([]int64, len(counts))
	for i, count := range counts {
		raw[i] = int64(count)
	}
	theirs, err := c.scheduler.normalize(raw)
	if err != nil {
		return err
	}
	if ours := c.ours.Normalize(counts); !slices.Equal(theirs, ours) {
		return fmt.Errorf("normalized (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

func (c comparison) normalizing() seed.Property[[]int] {
	return seed.Property[[]int]{Usual: 50000, Generate: counts, Check: c.checkNormalize}
}
