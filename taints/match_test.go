// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

var (
	defaults    = taints.Matcher{}
	comparisons = taints.Matcher{ComparisonOperators: true}
)

const (
	maxInt64 = "9223372036854775807"
	minInt64 = "-9223372036854775808"
)

func TestToleratesByKeyEffectAndOperator(t *testing.T) {
	seconds := int64(-5)
	tests := []struct {
		name       string
		toleration corev1.Toleration
		taint      string
		want       bool
	}{
		{"Equal with the same value", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "1", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", true},
		{"Equal with another value", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "2", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", false},
		{"Equal compares letters, not numbers", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "01", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", false},
		{"Equal compares by case", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "X", Effect: corev1.TaintEffectNoExecute}, "a=x:NoExecute", false},
		{"Equal with both values empty", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Effect: corev1.TaintEffectNoExecute}, "a:NoExecute", true},
		{"Equal with no value for a taint with one", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", false},
		{"no operator means Equal, same value", corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", true},
		{"no operator means Equal, another value", corev1.Toleration{Key: "a", Value: "2", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", false},
		{"Exists for a taint with a value", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", true},
		{"Exists for a taint without a value", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, "a:NoExecute", true},
		{"Exists with a value, which validation refuses, ignores it", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Value: "2", Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", true},
		{"Exists with another key", corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}, "a=1:NoExecute", false},
		{"Exists with the key but not its prefix", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}, "example.com/a:NoExecute", false},
		{"Exists with no key matches every key", corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, "a=1:NoExecute", true},
		{"Exists with no key and another effect", corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, "a=1:NoExecute", false},
		{"Exists with neither key nor effect matches everything, NoSchedule", corev1.Toleration{Operator: corev1.TolerationOpExists}, "a=1:NoSchedule", true},
		{"Exists with neither key nor effect matches everything, PreferNoSchedule", corev1.Toleration{Operator: corev1.TolerationOpExists}, "a=1:PreferNoSchedule", true},
		{"Exists with neither key nor effect matches everything, NoExecute", corev1.Toleration{Operator: corev1.TolerationOpExists}, "a=1:NoExecute", true},
		{"no key with Equal, which validation refuses, compares the value alone", corev1.Toleration{Operator: corev1.TolerationOpEqual, Value: "1"}, "a=1:NoExecute", true},
		{"the empty toleration matches a taint with no value", corev1.Toleration{}, "a:NoExecute", true},
		{"the empty toleration does not match a taint with a value", corev1.Toleration{}, "a=1:NoExecute", false},
		{"no effect matches NoSchedule", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}, "a:NoSchedule", true},
		{"no effect matches PreferNoSchedule", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}, "a:PreferNoSchedule", true},
		{"no effect matches NoExecute", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}, "a:NoExecute", true},
		{"NoSchedule does not match PreferNoSchedule", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, "a:PreferNoSchedule", false},
		{"PreferNoSchedule does not match NoSchedule", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule}, "a:NoSchedule", false},
		{"NoExecute does not match NoSchedule", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, "a:NoSchedule", false},
		{"an operator of a later Kubernetes matches nothing", corev1.Toleration{Key: "a", Operator: "In", Value: "1"}, "a=1:NoExecute", false},
		{"tolerationSeconds play no part", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}, "a:NoExecute", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tainted := taint(t, test.taint)
			for _, matcher := range []taints.Matcher{defaults, comparisons} {
				if got := matcher.Tolerates(&test.toleration, &tainted); got != test.want {
					t.Errorf("%+v: %t, want %t", matcher, got, test.want)
				}
			}
		})
	}
}

func TestToleratesValuesThatACommandLineCannotHave(t *testing.T) {
	long := string(make([]byte, 1<<20))
	for name, value := range map[string]string{
		"letters from beyond ASCII": "schlüssel-🔥",
		"no UTF-8":                  "a\xff",
		"a megabyte of zero bytes":  long,
	} {
		t.Run(name, func(t *testing.T) {
			tainted := corev1.Taint{Key: value, Value: value, Effect: corev1.TaintEffectNoExecute}
			if !defaults.Tolerates(&corev1.Toleration{Key: value, Value: value}, &tainted) {
				t.Error("the same key and value do not match")
			}
			if defaults.Tolerates(&corev1.Toleration{Key: value, Value: value + "x"}, &tainted) {
				t.Error("another value matches")
			}
			if comparisons.Tolerates(&corev1.Toleration{Key: value, Operator: corev1.TolerationOpLt, Value: "1"}, &tainted) {
				t.Error("a value that is not a number is less than 1")
			}
		})
	}
}

func TestToleratesComparesIntegersWhenAskedTo(t *testing.T) {
	tests := []struct {
		name                   string
		toleration, taintValue string
		gt, lt                 bool
	}{
		{"the taint's value is the greater", "5", "6", true, false},
		{"the taint's value is the lesser", "5", "4", false, true},
		{"equal values", "5", "5", false, false},
		{"numbers, not letters", "9", "10", true, false},
		{"negative numbers", "-10", "-9", true, false},
		{"across zero", "-1", "1", true, false},
		{"zero and zero", "0", "0", false, false},
		{"just below the greatest int64", maxInt64, "9223372036854775806", false, true},
		{"the greatest int64 and itself", maxInt64, maxInt64, false, false},
		{"just above the least int64", minInt64, "-9223372036854775807", true, false},
		{"the least int64 and itself", minInt64, minInt64, false, false},
		{"from one border to the other", minInt64, maxInt64, true, false},
		{"from the other border to the one", maxInt64, minInt64, false, true},
		{"the toleration exceeds int64", "9223372036854775808", "1", false, false},
		{"the taint exceeds int64", "1", "9223372036854775808", false, false},
		{"the toleration is below int64", "-9223372036854775809", "1", false, false},
		{"the taint is below int64", "1", "-9223372036854775809", false, false},
		{"an empty toleration", "", "1", false, false},
		{"an empty taint", "1", "", false, false},
		{"words", "five", "six", false, false},
		{"a fraction", "1.5", "2", false, false},
		{"an exponent", "1", "1e3", false, false},
		{"hexadecimal digits", "1", "0x10", false, false},
		{"a leading zero", "1", "02", false, false},
		{"a plus sign", "+1", "2", false, false},
		{"minus zero", "-0", "1", false, false},
		{"a lonely minus sign", "1", "-", false, false},
		{"a blank", " 1", "2", false, false},
		{"an underscore", "1", "1_000", false, false},
		{"digits of another script", "1", "٢", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tainted := corev1.Taint{Key: "a", Value: test.taintValue, Effect: corev1.TaintEffectNoExecute}
			for operator, want := range map[corev1.TolerationOperator]bool{corev1.TolerationOpGt: test.gt, corev1.TolerationOpLt: test.lt} {
				toleration := corev1.Toleration{Key: "a", Operator: operator, Value: test.toleration}
				if got := comparisons.Tolerates(&toleration, &tainted); got != want {
					t.Errorf("%s with the operators on: %t, want %t", operator, got, want)
				}
				if defaults.Tolerates(&toleration, &tainted) {
					t.Errorf("%s with the operators off matches", operator)
				}
			}
		})
	}
	t.Run("key and effect must still match", func(t *testing.T) {
		tainted := corev1.Taint{Key: "a", Value: "2", Effect: corev1.TaintEffectNoExecute}
		for _, toleration := range []corev1.Toleration{
			{Key: "b", Operator: corev1.TolerationOpGt, Value: "1"},
			{Key: "a", Operator: corev1.TolerationOpGt, Value: "1", Effect: corev1.TaintEffectNoSchedule},
		} {
			if comparisons.Tolerates(&toleration, &tainted) {
				t.Errorf("%+v matches", toleration)
			}
		}
	})
}

// Kubernetes 1.37 logs an error at every evaluation of Gt and Lt with a value that is not an integer. Taintkeeper does not:
// with many pods on a tainted node it would be one line for each of them, again and again.
func TestToleratesLogsNothingAboutJunkUnlikeUpstream(t *testing.T) {
	toleration := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "junk"}
	tainted := corev1.Taint{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute}

	lines := 0
	upstream := funcr.New(func(string, string) { lines++ }, funcr.Options{})
	toleration.ToleratesTaint(upstream, &tainted, true)
	if lines != 1 {
		t.Errorf("upstream logs %d lines, want 1: is this fix still one?", lines)
	}

	if written := stderrOf(t, func() { comparisons.Tolerates(&toleration, &tainted) }); written != "" {
		t.Errorf("Tolerates writes to standard error: %s", written)
	}
}

// stderrOf returns what f writes to standard error, where klog and the standard loggers of Go go by default.
func stderrOf(t *testing.T, f func()) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	f()
	os.Stderr = before
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func TestFirstFindsTheFirstInListOrder(t *testing.T) {
	ten, sixty := int64(10), int64(60)
	other := corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}
	forTen := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &ten}
	forSixty := corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: &sixty}
	forever := corev1.Toleration{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute}
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		want        int
	}{
		{"no tolerations", nil, -1},
		{"none that matches", []corev1.Toleration{other, other}, -1},
		{"the only one", []corev1.Toleration{forTen}, 0},
		{"others are passed over", []corev1.Toleration{other, other, forTen}, 2},
		{"the first of several, though it is the longer one", []corev1.Toleration{forSixty, forTen}, 0},
		{"the first of several, though it is the shorter one", []corev1.Toleration{forTen, forSixty}, 0},
		{"the first of several, though a later one has no limit", []corev1.Toleration{other, forTen, forever}, 1},
		{"the first of several, though a later one is more precise", []corev1.Toleration{forSixty, forever}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tainted := taint(t, "a=1:NoExecute")
			index, ok := defaults.First(test.tolerations, &tainted)
			if index != test.want || ok != (test.want >= 0) {
				t.Errorf("First = %d, %t, want %d", index, ok, test.want)
			}
		})
	}
	t.Run("Gt is passed over unless the operators are on", func(t *testing.T) {
		tainted := taint(t, "a=2:NoExecute")
		tolerations := []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpGt, Value: "1"}, forTen}
		if index, _ := defaults.First(tolerations, &tainted); index != 1 {
			t.Errorf("off: First = %d, want 1", index)
		}
		if index, _ := comparisons.First(tolerations, &tainted); index != 0 {
			t.Errorf("on: First = %d, want 0", index)
		}
	})
}

func TestNoExecuteKeepsOrderAndTimes(t *testing.T) {
	for name, test := range map[string]struct{ all, want string }{
		"no taints":                  {"", ""},
		"none of them":               {"a:NoSchedule b:PreferNoSchedule", ""},
		"all of them":                {"b:NoExecute a=1:NoExecute", "b:NoExecute a=1:NoExecute"},
		"some of them":               {"b:NoExecute a:NoSchedule a:NoExecute c:PreferNoSchedule", "b:NoExecute a:NoExecute"},
		"one key with every effect":  {"a:NoSchedule a:PreferNoSchedule a:NoExecute", "a:NoExecute"},
		"the last is the only other": {"a:NoExecute b:NoSchedule", "a:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			got := taints.NoExecute(list(t, test.all))
			if diff := cmp.Diff(list(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	tolerations := []corev1.Toleration{
		{Key: "x", Operator: corev1.TolerationOpExists},
		{Key: "a", Operator: corev1.TolerationOpLt, Value: "5"},
		{Key: "a", Operator: corev1.TolerationOpEqual, Value: "5", Effect: corev1.TaintEffectNoSchedule},
		{Key: "a", Operator: corev1.TolerationOpGt, Value: "5"},
	}
	all := list(t, "a=10:PreferNoSchedule x:NoSchedule a=3:NoExecute y:NoExecute")
	for name, f := range map[string]func(){
		"Tolerates":        func() { comparisons.Tolerates(&tolerations[3], &all[0]) },
		"First, found":     func() { comparisons.First(tolerations, &all[0]) },
		"First, missed":    func() { defaults.First(tolerations, &all[3]) },
		"Untolerated":      func() { comparisons.Untolerated(all, tolerations) },
		"CountIntolerable": func() { comparisons.CountIntolerable(all, tolerations) },
		"NoExecute, none":  func() { taints.NoExecute(all[:2]) },
	} {
		t.Run(name, func(t *testing.T) {
			if allocations := testing.AllocsPerRun(1000, f); allocations != 0 {
				t.Errorf("%v allocations a call, want none", allocations)
			}
		})
	}
}

func BenchmarkFirst(b *testing.B) {
	tolerations := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	tainted := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	b.ReportAllocs()
	for b.Loop() {
		defaults.First(tolerations, &tainted)
	}
}
