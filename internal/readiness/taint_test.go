// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheNoSchedulePartOfANode(t *testing.T) {
	for name, test := range map[string]struct {
		conditions map[corev1.NodeConditionType]corev1.ConditionStatus
		cordoned   bool
		want       []string
	}{
		"healthy":                     {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue, corev1.NodeDiskPressure: corev1.ConditionFalse}, false, nil},
		"not ready":                   {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}, false, []string{corev1.TaintNodeNotReady}},
		"silent":                      {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionUnknown, corev1.NodeDiskPressure: corev1.ConditionUnknown}, false, []string{corev1.TaintNodeUnreachable}},
		"cordoned":                    {nil, true, []string{corev1.TaintNodeUnschedulable}},
		"a foreign condition":         {map[corev1.NodeConditionType]corev1.ConditionStatus{"KernelDeadlock": corev1.ConditionTrue}, false, nil},
		"under pressure and cordoned": {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeMemoryPressure: corev1.ConditionTrue, corev1.NodePIDPressure: corev1.ConditionTrue}, true, []string{corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable}},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(test.conditions)
			node.Spec.Unschedulable = test.cordoned
			if got := noScheduleKeys(node); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRetaintKeepsWhatStaysAsItIsAndTouchesNothingElse(t *testing.T) {
	long := &metav1.Time{Time: noon.Add(-time.Hour)}
	current := []corev1.Taint{
		{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule, TimeAdded: long},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule, TimeAdded: long},
	}
	before := slices.Clone(current)
	got, changed := retaint(current, ownsNoSchedule, corev1.TaintEffectNoSchedule, []string{corev1.TaintNodePIDPressure, corev1.TaintNodeDiskPressure}, noon)
	want := []corev1.Taint{
		current[0], current[1], current[2],
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: noon}},
	}
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Errorf("changed: %t, -want +got:\n%s", changed, diff)
	}
	if diff := cmp.Diff(before, current); diff != "" {
		t.Errorf("the node's own list was modified:\n%s", diff)
	}
	if _, changed := retaint(current, ownsNoSchedule, corev1.TaintEffectNoSchedule, []string{corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure}, noon); changed {
		t.Error("a change, where nothing must change")
	}
}

func TestTheTaintThatIsLeftForReadinessCountsFromTheEarlierOfTheTwo(t *testing.T) {
	at := func(key string, seconds int) corev1.Taint {
		return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: after(seconds)}}
	}
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	undated := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute} }
	foreign := corev1.Taint{Key: "team", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: after(-1000)}}
	noSchedule := corev1.Taint{Key: unreachable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: after(-1000)}}
	for name, test := range map[string]struct {
		current, want []corev1.Taint
		keys          []string
	}{
		"one for the other":              {[]corev1.Taint{at(notReady, 10)}, []corev1.Taint{at(unreachable, 10)}, []string{unreachable}},
		"the earlier of both stays":      {[]corev1.Taint{at(notReady, 10), at(unreachable, 20)}, []corev1.Taint{at(notReady, 10)}, []string{notReady}},
		"the later of both stays":        {[]corev1.Taint{at(notReady, 10), at(unreachable, 20)}, []corev1.Taint{at(unreachable, 10)}, []string{unreachable}},
		"one without a timeAdded stays":  {[]corev1.Taint{at(notReady, 10), undated(unreachable)}, []corev1.Taint{at(unreachable, 10)}, []string{unreachable}},
		"one without a timeAdded leaves": {[]corev1.Taint{undated(notReady), at(unreachable, 20)}, []corev1.Taint{at(unreachable, 20)}, []string{unreachable}},
		"for one without a timeAdded":    {[]corev1.Taint{undated(notReady)}, []corev1.Taint{at(unreachable, 100)}, []string{unreachable}},
		"for one in the future":          {[]corev1.Taint{at(notReady, 200)}, []corev1.Taint{at(unreachable, 100)}, []string{unreachable}},
		"the first":                      {[]corev1.Taint{foreign, noSchedule}, []corev1.Taint{foreign, noSchedule, at(unreachable, 100)}, []string{unreachable}},
		"none is left":                   {[]corev1.Taint{at(notReady, 10), foreign}, []corev1.Taint{foreign}, nil},
		"nothing changes":                {[]corev1.Taint{undated(notReady)}, []corev1.Taint{undated(notReady)}, []string{notReady}},
		"it is not known which":          {[]corev1.Taint{at(notReady, 20), at(unreachable, 10)}, []corev1.Taint{at(notReady, 20), at(unreachable, 10)}, []string{notReady, unreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := retaintNoExecute(test.current, test.keys, after(100))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if want := !cmp.Equal(test.current, test.want); changed != want {
				t.Errorf("changed: %t, want %t", changed, want)
			}
		})
	}
}
