// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/features"
	upstream "k8s.io/kubernetes/pkg/util/taints"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// rules are what is compared with upstream: package taints, or something that is wrong on purpose, to test the
// comparison.
type rules interface {
	Tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool
	First(tolerations []corev1.Toleration, taint *corev1.Taint) (index int, ok bool)
	Untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) (taint corev1.Taint, found bool)
	CountIntolerable(taints []corev1.Taint, tolerations []corev1.Toleration) int
	Normalize(counts []int) []int64
}

// ours is package taints.
type ours struct{ taints.Matcher }

func (ours) Normalize(counts []int) []int64 { return taints.Normalize(counts) }

// comparison compares rules with upstream, with the feature gate TaintTolerationComparisonOperators as it is set.
type comparison struct {
	ours        rules
	comparisons bool
	scheduler   *scheduler
	// theirLog and ourLog take what either side says about the values.
	theirLog, ourLog *lineCounter
}

func property(check func(input) error) seed.Property[input] {
	return seed.Property[input]{Usual: 20000, Generate: generate, Check: check}
}

// compareWith sets the feature gate for the duration of the test.
func compareWith(t *testing.T, operators bool) comparison {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TaintTolerationComparisonOperators, operators)
	c := comparison{
		ours: ours{taints.Matcher{ComparisonOperators: operators}}, comparisons: operators, scheduler: newScheduler(t, operators),
		theirLog: new(lineCounter), ourLog: new(lineCounter),
	}
	klog.SetLogger(c.ourLog.logger())
	t.Cleanup(klog.ClearLogger)
	return c
}

func eachGate(t *testing.T, test func(t *testing.T, c comparison)) {
	t.Run("by default", func(t *testing.T) { test(t, compareWith(t, false)) })
	t.Run("with Gt and Lt", func(t *testing.T) { test(t, compareWith(t, true)) })
}

func TestATolerationMatchesTheTaintsThatItMatchesUpstream(t *testing.T) {
	eachGate(t, func(t *testing.T, c comparison) {
		property(c.checkPairs).Hold(t)
		if c.ourLog.lines > 0 {
			t.Errorf("package taints wrote %d lines to the log", c.ourLog.lines)
		}
		t.Logf("listed difference: upstream logged %d errors about values of Gt and Lt that are no integers", c.theirLog.lines)
	})
}

func TestTheFirstMatchIsTheOneThatUpstreamTakes(t *testing.T) {
	eachGate(t, func(t *testing.T, c comparison) { property(c.checkFirst).Hold(t) })
}

func TestTheTaintsWithEffectNoExecuteAreUpstreams(t *testing.T) {
	property(checkNoExecute).Hold(t)
}

// checkPairs compares the answers for each toleration and each taint.
func (c comparison) checkPairs(in input) error {
	for _, toleration := range in.Tolerations {
		for _, taint := range in.taints() {
			ours := c.ours.Tolerates(&toleration, &taint)
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
		_, ours := c.ours.First(in.Tolerations, &taint)
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
	weAll, ours := c.matches(all, tolerations)
	if weAll != theyAll {
		return fmt.Errorf("all of the taints %+v are tolerated: ours %t, upstream %t", all, weAll, theyAll)
	}
	if !slices.Equal(theirs, ours) {
		return fmt.Errorf("the first tolerations that match (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

// matches gives the first match of each taint, or nothing at all when one of the taints has none.
func (c comparison) matches(all []corev1.Taint, tolerations []corev1.Toleration) (ok bool, list []corev1.Toleration) {
	list = []corev1.Toleration{}
	for _, taint := range all {
		index, ok := c.ours.First(tolerations, &taint)
		if !ok {
			return false, []corev1.Toleration{}
		}
		list = append(list, tolerations[index])
	}
	return true, list
}

func checkNoExecute(in input) error {
	theirs := upstream.TaintSetFilter(in.taints(), func(taint *corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute })
	ours := taints.NoExecute(in.taints())
	if !slices.Equal(theirs, ours) {
		return fmt.Errorf("the taints with effect NoExecute (-upstream +ours):\n%s", cmp.Diff(theirs, ours))
	}
	return nil
}

// lineCounter is a log that keeps nothing but the number of its lines. It is not safe for concurrent use.
type lineCounter struct {
	lines int
}

func (c *lineCounter) logger() logr.Logger { return logr.New(c) }

func (c *lineCounter) Init(logr.RuntimeInfo)          {}
func (c *lineCounter) Enabled(int) bool               { return true }
func (c *lineCounter) Info(int, string, ...any)       { c.lines++ }
func (c *lineCounter) Error(error, string, ...any)    { c.lines++ }
func (c *lineCounter) WithValues(...any) logr.LogSink { return c }
func (c *lineCounter) WithName(string) logr.LogSink   { return c }

// canonical is an integer as people write it: no plus, no leading zeros, no minus zero, nothing around it.
var canonical = regexp.MustCompile(`\A(0|-?[1-9][0-9]*)\z`)

// documented is the rule as Kubernetes documents it for pods (and KEP-5471 for Gt and Lt), with nothing in common with
// upstream's code but the types.
func documented(toleration corev1.Toleration, taint corev1.Taint, comparisons bool) bool {
	matchesEffect := toleration.Effect == "" || toleration.Effect == taint.Effect
	matchesKey := toleration.Key == "" || toleration.Key == taint.Key
	return matchesEffect && matchesKey && documentedValue(toleration, taint.Value, comparisons)
}

func documentedValue(toleration corev1.Toleration, value string, comparisons bool) bool {
	switch toleration.Operator {
	case "Exists":
		return true
	case "Equal", "":
		return value == toleration.Value
	case "Gt":
		return comparisons && compare(value, toleration.Value) == greater
	case "Lt":
		return comparisons && compare(value, toleration.Value) == less
	default:
		return false
	}
}

type order int

const (
	incomparable order = iota
	less
	equal
	greater
)

// compare puts two integers in order. What is not one, or does not fit an int64, has no order.
func compare(a, b string) order {
	x, okX := int64Of(a)
	y, okY := int64Of(b)
	if !okX || !okY {
		return incomparable
	}
	return equal + order(x.Cmp(y))
}

func int64Of(text string) (*big.Int, bool) {
	if !canonical.MatchString(text) {
		return nil, false
	}
	integer, ok := new(big.Int).SetString(text, 10)
	return integer, ok && integer.IsInt64()
}
