// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/features"
	upstream "k8s.io/kubernetes/pkg/util/taints"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// rules are what is compared with upstream: package taints, or something that is wrong on purpose.
type rules struct {
	tolerates   func(toleration *corev1.Toleration, taint *corev1.Taint) bool
	first       func(tolerations []corev1.Toleration, taint *corev1.Taint) (index int, ok bool)
	untolerated func(taints []corev1.Taint, tolerations []corev1.Toleration) (taint corev1.Taint, found bool)
	count       func(taints []corev1.Taint, tolerations []corev1.Toleration) int
	normalize   func(counts []int) []int64
}

func ours(operators bool) rules {
	m := taints.Matcher{ComparisonOperators: operators}
	return rules{m.Tolerates, m.First, m.Untolerated, m.CountIntolerable, taints.Normalize}
}

// comparison compares rules with upstream, with the feature gate TaintTolerationComparisonOperators as it is set.
type comparison struct {
	rules

	comparisons bool
	scheduler   *scheduler
	// theirLog and ourLog take what either side says about the values.
	theirLog, ourLog *logbook
}

// compareWith sets the feature gate for the duration of the test.
func compareWith(t *testing.T, operators bool) comparison {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, operators)
	c := comparison{
		rules: ours(operators), comparisons: operators, scheduler: newScheduler(t, operators),
		theirLog: new(logbook), ourLog: new(logbook),
	}
	klog.SetLogger(c.ourLog.logger())
	t.Cleanup(klog.ClearLogger)
	return c
}

func property(check func(input) error) seed.Property[input] {
	return seed.Property[input]{Usual: 20000, Generate: generate, Check: check}
}

func TestMatchingAndSchedulingAreUpstreams(t *testing.T) {
	for gate, operators := range map[string]bool{"by default": false, "with Gt and Lt": true} {
		for name, check := range map[string]func(comparison, input) error{
			"a toleration matches the taints that it matches upstream":           comparison.checkPairs,
			"the first match is the one that upstream takes":                     comparison.checkFirst,
			"the taints with effect NoExecute are upstream's":                    comparison.checkNoExecute,
			"a node is refused by the taint and in the words of TaintToleration": comparison.checkFilter,
			"a cordoned node is refused as if it had the taint unschedulable":    comparison.checkCordon,
			"the nodes that are left are scored as by TaintToleration":           comparison.checkScore,
		} {
			t.Run(name+", "+gate, func(t *testing.T) {
				c := compareWith(t, operators)
				property(func(in input) error { return check(c, in) }).Hold(t)
				if c.ourLog.lines > 0 { // upstream logs an error for each value of Gt and Lt unless it is an integer
					t.Errorf("package taints wrote %d lines to the log, upstream %d", c.ourLog.lines, c.theirLog.lines)
				}
			})
		}
	}
	if taints.MaxNodeScore != fwk.MaxScore {
		t.Errorf("the best score is %d, the scheduler's is %d", taints.MaxNodeScore, fwk.MaxScore)
	}
}

func TestCountsOfAnySizeAreNormalizedAsByTaintToleration(t *testing.T) {
	seed.Property[[]int]{Usual: 50000, Generate: counts, Check: compareWith(t, false).checkNormalize}.Hold(t)
}

// checkPairs compares the answers for each toleration and each taint.
func (c comparison) checkPairs(in input) error {
	for _, toleration := range in.Tolerations {
		for _, taint := range in.taints() {
			ours := c.tolerates(&toleration, &taint)
			theirs := toleration.ToleratesTaint(c.theirLog.logger(), &taint, c.comparisons)
			rule := documented(toleration, taint, c.comparisons)
			if ours != theirs || ours != rule {
				return fmt.Errorf("toleration %+v matches taint %+v: ours %t, upstream %t, documented %t", toleration, taint, ours, theirs, rule)
			}
		}
	}
	return nil
}

// checkFirst compares the first match for each taint with the lists that upstream's taint-eviction controller makes.
// They name the tolerations, and all of them only when every taint is tolerated, so they are asked for each taint alone
// and for all together.
func (c comparison) checkFirst(in input) error {
	for i, taint := range in.taints() {
		_, ours := c.first(in.Tolerations, &taint)
		if theirs := scheduling.TolerationsTolerateTaint(c.theirLog.logger(), in.Tolerations, &taint, c.comparisons); ours != theirs {
			return fmt.Errorf("taint %+v is tolerated: ours %t, upstream %t", taint, ours, theirs)
		}
		if err := c.checkMatches(in.taints()[i:i+1], in.Tolerations); err != nil {
			return err
		}
	}
	return c.checkMatches(in.taints(), in.Tolerations)
}

func (c comparison) checkMatches(all []corev1.Taint, tolerations []corev1.Toleration) error {
	theyAll, theirs := helper.GetMatchingTolerations(c.theirLog.logger(), all, tolerations)
	weAll, ours := true, []corev1.Toleration{}
	for _, taint := range all {
		index, ok := c.first(tolerations, &taint)
		if !ok {
			weAll, ours = false, nil // upstream names none of them then
			break
		}
		ours = append(ours, tolerations[index])
	}
	if weAll != theyAll || !slices.Equal(theirs, ours) {
		return fmt.Errorf("all of the taints %+v are tolerated: ours %t, upstream %t; by (-upstream +ours):\n%s", all, weAll, theyAll, cmp.Diff(theirs, ours))
	}
	return nil
}

func (comparison) checkNoExecute(in input) error {
	theirs := upstream.TaintSetFilter(in.taints(), func(taint *corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute })
	if ours := taints.NoExecute(in.taints()); !slices.Equal(theirs, ours) {
		return fmt.Errorf("the taints with effect NoExecute (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

func (c comparison) checkFilter(in input) error {
	for i, node := range in.Nodes {
		theirs, ours := c.scheduler.filter(in.Tolerations, node), refusal{}
		if taint, found := c.untolerated(node.Taints, in.Tolerations); found {
			ours = refusal{Code: fwk.UnschedulableAndUnresolvable, Message: taints.UnschedulableMessage, Taint: taint}
		}
		if ours != theirs {
			return fmt.Errorf("what node %d is refused for (-upstream +ours):\n%s", i, cmp.Diff(theirs, ours))
		}
	}
	return nil
}

// checkCordon: package taints has no word for spec.unschedulable. It is asked about the taint that stands for it, which
// node-lifecycle adds to every such node.
func (c comparison) checkCordon(in input) error {
	cordon := []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	for i, node := range in.Nodes {
		_, ours := c.untolerated(cordon, in.Tolerations)
		ours = ours && node.Unschedulable
		if theirs := c.scheduler.refusesCordoned(in.Tolerations, node); ours != theirs {
			return fmt.Errorf("node %d is refused: ours %t, upstream %t", i, ours, theirs)
		}
	}
	return nil
}

// checkScore scores the nodes that pass the filter, as the scheduler does, and then all of them.
func (c comparison) checkScore(in input) error {
	var passing []node
	for _, node := range in.Nodes {
		if _, found := c.untolerated(node.Taints, in.Tolerations); !found {
			passing = append(passing, node)
		}
	}
	if err := c.checkScoreOf(passing, in.Tolerations); err != nil {
		return fmt.Errorf("the nodes that pass: %w", err)
	}
	return c.checkScoreOf(in.Nodes, in.Tolerations)
}

func (c comparison) checkScoreOf(nodes []node, tolerations []corev1.Toleration) error {
	raw, normalized := c.scheduler.score(tolerations, nodes)
	var counts []int
	var scores []int64
	for _, node := range nodes {
		count := c.count(node.Taints, tolerations)
		counts, scores = append(counts, count), append(scores, int64(count))
	}
	if !slices.Equal(raw, scores) {
		return fmt.Errorf("intolerable taints of the nodes (-upstream +ours):\n%s", cmp.Diff(raw, scores))
	}
	if ours := c.normalize(counts); !slices.Equal(normalized, ours) {
		return fmt.Errorf("scores of the nodes (-upstream +ours):\n%s", cmp.Diff(normalized, ours))
	}
	return nil
}

func (c comparison) checkNormalize(counts []int) error {
	raw := make([]int64, len(counts))
	for i, count := range counts {
		raw[i] = int64(count)
	}
	theirs := c.scheduler.normalize(raw)
	if ours := c.normalize(counts); !slices.Equal(theirs, ours) {
		return fmt.Errorf("normalized (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

// documented is the rule as Kubernetes documents it for pods (and KEP-5471 for Gt and Lt), with nothing in common with
// upstream's code but the types.
func documented(toleration corev1.Toleration, taint corev1.Taint, comparisons bool) bool {
	if toleration.Effect != "" && toleration.Effect != taint.Effect || toleration.Key != "" && toleration.Key != taint.Key {
		return false
	}
	switch toleration.Operator {
	case "Exists":
		return true
	case "Equal", "":
		return taint.Value == toleration.Value
	case "Gt", "Lt":
		is, wants := int64Of(taint.Value), int64Of(toleration.Value)
		return comparisons && is != nil && wants != nil && is.Cmp(wants) == map[corev1.TolerationOperator]int{"Gt": 1, "Lt": -1}[toleration.Operator]
	}
	return false
}

// canonical is an integer as people write it: no plus, no leading zeros, no minus zero, nothing around it.
var canonical = regexp.MustCompile(`\A(0|-?[1-9][0-9]*)\z`)

// int64Of reads an integer. It is nil for what is not one, or does not fit an int64.
func int64Of(text string) *big.Int {
	integer, ok := new(big.Int).SetString(text, 10)
	if !ok || !canonical.MatchString(text) || !integer.IsInt64() {
		return nil
	}
	return integer
}

// A comparison that finds nothing wrong with wrong rules proves nothing.
func TestWrongRulesAreFoundAndTheirInputMadeSmall(t *testing.T) {
	right := ours(true)
	for name, test := range map[string]struct {
		wrong                      func(*rules)
		check                      func(comparison, input) error
		nodes, taints, tolerations int // of the smallest input
	}{
		"Gt and Lt are off": {func(r *rules) { r.tolerates = ours(false).tolerates }, comparison.checkPairs, 1, 1, 1},
		"the last toleration is taken": {func(r *rules) {
			r.first = func(tolerations []corev1.Toleration, taint *corev1.Taint) (int, bool) {
				for i := range slices.Backward(tolerations) {
					if right.tolerates(&tolerations[i], taint) {
						return i, true
					}
				}
				return -1, false
			}
		}, comparison.checkFirst, 1, 1, 2},
		"NoExecute does not keep pods away": {func(r *rules) {
			r.untolerated = func(all []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
				all = slices.DeleteFunc(slices.Clone(all), func(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute })
				return right.untolerated(all, tolerations)
			}
		}, comparison.checkFilter, 1, 1, 0},
		"a cordon cannot be tolerated": {func(r *rules) {
			r.untolerated = func(all []corev1.Taint, _ []corev1.Toleration) (corev1.Taint, bool) {
				return right.untolerated(all, nil)
			}
		}, comparison.checkCordon, 1, 0, 1},
		"equal counts get nothing": {func(r *rules) {
			r.normalize = func(counts []int) []int64 {
				if slices.ContainsFunc(counts, func(count int) bool { return count != counts[0] }) {
					return taints.Normalize(counts)
				}
				return make([]int64, len(counts))
			}
		}, comparison.checkScore, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := compareWith(t, true)
			test.wrong(&c.rules)
			smallest, _ := property(func(in input) error { return test.check(c, in) }).MustFind(t, 5000)
			all := 0
			for _, node := range smallest.Nodes {
				all += len(node.Taints)
			}
			if len(smallest.Nodes) != test.nodes || all != test.taints || len(smallest.Tolerations) != test.tolerations {
				t.Errorf("not the smallest input that shows it: %+v", smallest)
			}
		})
	}
}
