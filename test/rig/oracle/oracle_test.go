// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// sec is the instant the given number of seconds after the beginning of a certain second.
func sec(seconds float64) time.Time {
	return time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func at(seconds float64) oracle.Span { return oracle.At(sec(seconds)) }

func between(from, to float64) oracle.Span { return oracle.Span{From: sec(from), To: sec(to)} }

var never = oracle.At(oracle.Never)

// taint is a NoExecute taint; if an instant is given it has that as its timeAdded.
func taint(key, value string, timeAdded ...float64) corev1.Taint {
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}
	for _, added := range timeAdded {
		t.TimeAdded = &metav1.Time{Time: sec(added)}
	}
	return t
}

// tolerating tolerates a value of a key, or all with "*", for some seconds or, if none are given, indefinitely.
func tolerating(key, value string, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoExecute}
	if value == "*" {
		t.Operator, t.Value = corev1.TolerationOpExists, ""
	}
	for _, s := range seconds {
		t.TolerationSeconds = &s
	}
	return t
}

// version is a node that is seen with some taints at an instant.
func version(when oracle.Span, taints ...corev1.Taint) oracle.Version {
	return oracle.Version{At: when, Taints: taints}
}

func ours(v oracle.Version) oracle.Version {
	v.Ours = true
	return v
}

func follow(versions []oracle.Version) []oracle.Taint {
	var taints []oracle.Taint
	for _, v := range versions {
		taints = oracle.Next(taints, v)
	}
	return taints
}

func TestFromWhenATaintCounts(t *testing.T) {
	off, now := taint("off", ""), taint("off", "now")
	added := func(seconds float64) corev1.Taint { return taint("off", "", seconds) }
	sick := func(seconds float64) corev1.Taint { return taint(corev1.TaintNodeNotReady, "", seconds) }
	silent := func(seconds float64) corev1.Taint { return taint(corev1.TaintNodeUnreachable, "", seconds) }
	seen := func(when float64, taints ...corev1.Taint) oracle.Version { return version(at(when), taints...) }
	for name, test := range map[string]struct {
		versions []oracle.Version
		since    oracle.Span // of the first taint in the last version
		record   float64
	}{
		"without timeAdded from its sight":                   {[]oracle.Version{seen(10.3, off)}, at(10.3), 10},
		"with one from the end of that second":               {[]oracle.Version{seen(10.3, added(4))}, at(5), 4},
		"or from its sight within the second":                {[]oracle.Version{seen(10.3, added(10))}, at(10.3), 10},
		"with one in the future from its sight":              {[]oracle.Version{seen(10.3, added(60))}, at(10.3), 10},
		"and still when that is past":                        {[]oracle.Version{seen(10.3, added(60)), seen(70, added(60))}, at(10.3), 10},
		"that is given one by the controller as before":      {[]oracle.Version{seen(10.9, off), ours(seen(11.2, added(3)))}, at(10.9), 3},
		"that is given one by others from then":              {[]oracle.Version{seen(10.9, off), seen(11.2, added(3))}, at(4), 3},
		"that loses its timeAdded as before":                 {[]oracle.Version{seen(10.3, added(4)), seen(20, off)}, at(5), 4},
		"whose timeAdded is moved on as before":              {[]oracle.Version{seen(10.3, added(4)), seen(20.5, added(15))}, at(5), 4},
		"whose timeAdded is moved into the future as before": {[]oracle.Version{seen(10.3, added(4)), seen(20.5, added(70))}, at(5), 4},
		"whose timeAdded is moved back from there":           {[]oracle.Version{seen(10.3, added(10)), seen(20.5, added(2))}, at(3), 2},
		"that a controller writes next to another as before": {[]oracle.Version{seen(10.3, off), ours(seen(20, off, now))}, at(10.3), 10},

		"with another value again":                            {[]oracle.Version{seen(10.3, off), seen(20.3, now)}, at(20.3), 20},
		"with another value and the same timeAdded as before": {[]oracle.Version{seen(10.3, added(10)), seen(20, taint("off", "now", 10))}, at(10.3), 10},
		"but not if that was later than it should have been":  {[]oracle.Version{seen(10.3, added(4)), seen(20.3, added(15)), seen(20.4, taint("off", "now", 15))}, at(16), 15},
		"with another value and no timeAdded in common":       {[]oracle.Version{seen(10.3, off), seen(10.4, taint("off", "now", 10))}, at(10.4), 10},

		"that was not-ready and is unreachable as before": {[]oracle.Version{seen(10.3, sick(10)), seen(30, silent(30))}, at(10.3), 10},
		"that was both and is unreachable as before":      {[]oracle.Version{seen(10.3, sick(10)), seen(30, sick(10), silent(30)), seen(31, silent(30))}, at(10.3), 10},
		"that is both from the earlier":                   {[]oracle.Version{seen(30.3, silent(30), sick(10))}, at(11), 10},
		"that was not-ready and is another one again":     {[]oracle.Version{seen(10.3, sick(10)), seen(30.5, added(30))}, at(30.5), 30},
		"that was off in between again":                   {[]oracle.Version{seen(10.3, sick(10)), seen(20, off), seen(30.5, silent(30))}, at(30.5), 30},

		"that came with a call from its beginning or its end": {[]oracle.Version{version(between(10.9, 11.2), off)}, between(10.9, 11.2), 10},
		"or at the latest from the end of its second":         {[]oracle.Version{version(between(10.9, 11.2), added(10))}, between(10.9, 11), 10},
		"and for a clock that is behind so much later":        {[]oracle.Version{{At: at(30), Taints: []corev1.Taint{added(10)}, Behind: 5 * time.Second}}, between(11, 16), 10},
		"and never after the sight":                           {[]oracle.Version{{At: at(30), Taints: []corev1.Taint{added(10)}, Behind: time.Hour}}, between(11, 30), 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := follow(test.versions)[0]
			if got.Since != test.since || !got.Record.Equal(sec(test.record)) {
				t.Errorf("it counts from %v and should have timeAdded %v, want %v and %v", got.Since, got.Record, test.since, sec(test.record))
			}
		})
	}
}

func TestWhenAPodIsDue(t *testing.T) {
	both := []oracle.Version{version(at(10), taint("off", ""), taint("soon", ""))}
	one := []oracle.Version{version(at(10), taint("off", ""))}
	values := func(list ...string) []oracle.Version {
		var all []oracle.Version
		for i, value := range list {
			all = append(all, version(at(float64(10+2*i)), taint("off", value)))
		}
		return all
	}
	for name, test := range map[string]struct {
		node        []oracle.Version
		bound       oracle.Span
		tolerations []corev1.Toleration
		want        oracle.Span
	}{
		"no taint":                       {nil, at(0), nil, never},
		"a taint with another effect":    {[]oracle.Version{version(at(10), corev1.Taint{Key: "off", Effect: corev1.TaintEffectNoSchedule})}, at(0), nil, never},
		"no toleration":                  {both, at(0), nil, at(10)},
		"no toleration, bound later":     {both, at(12), nil, at(12)},
		"seconds count from the binding": {one, at(12), []corev1.Toleration{tolerating("off", "*", 5)}, at(17)},
		"seconds count from the taint":   {one, between(2, 3), []corev1.Toleration{tolerating("off", "*", 5)}, at(15)},
		"the earliest counts":            {both, at(0), []corev1.Toleration{tolerating("off", "*", 5), tolerating("soon", "*", 2)}, at(12)},
		"the first that matches counts":  {one, at(0), []corev1.Toleration{tolerating("else", "*"), tolerating("off", "*", 5), tolerating("off", "*", 1), tolerating("off", "*")}, at(15)},
		"indefinitely":                   {one, at(0), []corev1.Toleration{tolerating("off", "*")}, never},
		"one of two taints indefinitely": {both, at(0), []corev1.Toleration{tolerating("off", "*"), tolerating("soon", "*", 9)}, at(19)},
		"negative seconds":               {one, at(0), []corev1.Toleration{tolerating("off", "*", math.MinInt64)}, at(10)},
		"more seconds than there are":    {one, at(0), []corev1.Toleration{tolerating("off", "*", math.MaxInt64)}, oracle.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))},
		"bounds":                         {[]oracle.Version{version(between(10, 11), taint("off", ""))}, at(0), []corev1.Toleration{tolerating("off", "*", 5)}, between(15, 16)},

		"an earlier value's deadline stays":  {values("a", "b", "a"), at(0), []corev1.Toleration{tolerating("off", "*", 5)}, at(15)},
		"the later value's is the earlier":   {values("a", "b"), at(0), []corev1.Toleration{tolerating("off", "a", 9), tolerating("off", "b", 1)}, at(13)},
		"not past a value tolerated forever": {values("a", "b", "a"), at(0), []corev1.Toleration{tolerating("off", "a", 5), tolerating("off", "b")}, at(19)},
		"not with a value tolerated forever": {values("a", "b"), at(0), []corev1.Toleration{tolerating("off", "a", 5), tolerating("off", "b")}, never},
		"not with one that is not tolerated": {values("a", "b"), at(0), []corev1.Toleration{tolerating("off", "a", 1)}, at(12)},
		"not for a pod that came after it":   {values("a", "b"), at(13), []corev1.Toleration{tolerating("off", "*", 5)}, at(18)},
		"nor is it due by the earlier value": {values("a", "b"), at(13), []corev1.Toleration{tolerating("off", "a", 1), tolerating("off", "b", 5)}, at(18)},
		"perhaps for one that came with it":  {values("a", "b"), between(11, 13), []corev1.Toleration{tolerating("off", "*", 5)}, between(16, 18)},
	} {
		t.Run(name, func(t *testing.T) {
			got := oracle.Rule{}.Due(oracle.Pod{Tolerations: test.tolerations, Bound: test.bound}, follow(test.node))
			if got != test.want {
				t.Errorf("due %v, want %v", got, test.want)
			}
		})
	}
}

func TestGtAndLtAreBehindAGate(t *testing.T) {
	taints := follow([]oracle.Version{version(at(10), taint("off", "7"))})
	above := tolerating("off", "5")
	above.Operator = corev1.TolerationOpGt
	pod := oracle.Pod{Tolerations: []corev1.Toleration{above}, Bound: at(0)}
	for gate, want := range map[bool]oracle.Span{false: at(10), true: never} {
		if got := (oracle.Rule{ComparisonOperators: gate}).Due(pod, taints); got != want {
			t.Errorf("with the gate %t due %v, want %v", gate, got, want)
		}
	}
}

func TestWhatBecomesOfAPod(t *testing.T) {
	off, soon := taint("off", ""), taint("soon", "")
	minute := []corev1.Toleration{tolerating("off", "*", 60), tolerating("soon", "*", 5)}
	on := []oracle.State{{At: at(0), Tolerations: minute}}
	for name, test := range map[string]struct {
		node      []oracle.Version
		pod       []oracle.State
		due       oracle.Span
		cancelled []oracle.Span
	}{
		"it leaves":                             {[]oracle.Version{version(at(10), off)}, on, at(70), nil},
		"an untaint in time lets it stay":       {[]oracle.Version{version(at(10), off), version(at(69))}, on, never, []oracle.Span{at(70)}},
		"an untaint after it is due does not":   {[]oracle.Version{version(at(10), off), version(at(71))}, on, at(70), nil},
		"an untaint when it is due may":         {[]oracle.Version{version(at(10), off), version(between(69, 71))}, on, oracle.Span{From: sec(70), To: oracle.Never}, []oracle.Span{at(70)}},
		"a shorter taint brings it forward":     {[]oracle.Version{version(at(10), off), version(at(20), off, soon)}, on, at(25), []oracle.Span{at(70)}},
		"and its removal pushes it back":        {[]oracle.Version{version(at(10), off), version(at(20), off, soon), version(at(22), off)}, on, at(70), []oracle.Span{at(70), at(25)}},
		"a taint that changes nothing does not": {[]oracle.Version{version(at(10), soon), version(at(11), off, soon)}, on, at(15), nil},
		"seconds that change count from where they did": {
			[]oracle.Version{version(at(10), off)}, append(slices.Clip(on), oracle.State{At: at(20), Tolerations: []corev1.Toleration{tolerating("off", "*", 30)}}), at(40), []oracle.Span{at(70)},
		},
		"and not before they changed": {
			[]oracle.Version{version(at(10), off)}, append(slices.Clip(on), oracle.State{At: at(20)}), at(20), []oracle.Span{at(70)},
		},
		"one that somebody deletes is spared": {
			[]oracle.Version{version(at(10), off)}, append(slices.Clip(on), oracle.State{At: at(20), Spared: true}), never, []oracle.Span{at(70)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := oracle.Rule{}.Promise(test.node, at(0), test.pod)
			if got.Due != test.due || !slices.Equal(got.Cancelled, test.cancelled) {
				t.Errorf("due %v, cancelled %v, want %v, %v", got.Due, got.Cancelled, test.due, test.cancelled)
			}
		})
	}
}

func TestAPodIsNotDueBeforeItIsMade(t *testing.T) {
	made := between(20, 22)
	pod := []oracle.State{{At: made, Tolerations: []corev1.Toleration{tolerating("off", "*", 60)}}}
	got := oracle.Rule{}.Promise([]oracle.Version{version(at(10), taint("off", ""))}, made, pod)
	if got.Due != between(80, 82) || len(got.Cancelled) > 0 {
		t.Errorf("due %v, cancelled %v, want 80 to 82 s, and none", got.Due, got.Cancelled)
	}
}
