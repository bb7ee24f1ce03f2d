// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheAdmissionPoliciesMatchOnTheNamesThatAreWritten(t *testing.T) {
	file, err := os.ReadFile("../../config/coexistence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		EvictionClock, EvictionClockAnnotation, BacklogUntilAnnotation, BacklogSinceAnnotation, BacklogSparedAnnotation,
		HoldingAdmissionPolicy, TaintEvictionReason, markPrefix,
	} {
		if !strings.Contains(string(file), "'"+name+"'") && !strings.Contains(string(file), "name: "+name+"\n") {
			t.Errorf("config/coexistence.yaml does not have %s", name)
		}
	}
}

func TestWhatAConditionSaysIsReadBack(t *testing.T) {
	const upstreams = "Taint manager: deleting due to NoExecute taint"
	for name, test := range map[string]struct {
		condition corev1.PodCondition
		marker    Marker
		why       string
	}{
		"an eviction of ours":         {corev1.PodCondition{Status: "True", Message: MarkMessage}, MarkedByTaintkeeper, ""},
		"one of the built-in":         {corev1.PodCondition{Status: "True", Message: upstreams}, MarkedByBuiltIn, ""},
		"an eviction of another kind": {corev1.PodCondition{Status: "True", Reason: "EvictionByEvictionAPI"}, NotMarked, ""},
		"a refusal":                   {corev1.PodCondition{Status: "False", Message: RefusedMessage("webhook w")}, NotMarked, "the deletion is refused (webhook w)"},
		"a policy":                    {corev1.PodCondition{Status: "False", Message: StaysMessage("a; b")}, NotMarked, "a; b"},
		"a mark that was taken off":   {corev1.PodCondition{Status: "False", Message: UnmarkMessage}, NotMarked, ""},
		"ours, reset after 2 minutes": {corev1.PodCondition{Status: "False", Message: MarkMessage}, NotMarked, ""},
		"another condition":           {corev1.PodCondition{Type: "Ready", Status: "False", Message: RefusedMessage("w")}, NotMarked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.condition
			if c.Type == "" {
				c.Type = corev1.DisruptionTarget
			}
			if c.Reason == "" {
				c.Reason = TaintEvictionReason
			}
			if got := MarkerOf(&c); got != test.marker {
				t.Errorf("marker %d, want %d", got, test.marker)
			}
			pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, c}}}
			if got := WhyItStays(pod); got != test.why {
				t.Errorf("it stays because %q, want %q", got, test.why)
			}
		})
	}
}

func TestWhatAnEventSaysIsReadBack(t *testing.T) {
	if !IsCancellingText(CancellingText+"a/b") || IsCancellingText(MarkingText+"a/b") {
		t.Error("only one of the two texts says that a pod stays")
	}
	if !IsDryRunText(MarkingText+"a/b"+DryRunSuffix) || IsDryRunText(MarkingText+"a/b") {
		t.Error("only one of the two texts is of a dry run")
	}
}

func TestTheActionOfAnEventIsReadBack(t *testing.T) {
	due := time.Date(2026, time.March, 1, 12, 0, 0, 123e6, time.UTC)
	longest := strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63) + "=" + strings.Repeat("c", 63) + ":NoExecute"
	for name, test := range map[string]struct {
		action EventAction
		want   string
		read   EventAction
	}{
		"an eviction": {
			EventAction{Due: due, Taint: "k=v:NoExecute"}, "Evict due=2026-03-01T12:00:00.123Z taint=k=v:NoExecute",
			EventAction{Due: due, Taint: "k=v:NoExecute"},
		},
		"a cancellation": {
			EventAction{Cancels: true, Due: due}, "Cancel due=2026-03-01T12:00:00.123Z", EventAction{Cancels: true, Due: due},
		},
		"the longest taint": {
			EventAction{Due: due, Taint: longest}, "Evict due=2026-03-01T12:00:00.123Z taint=" + longest[:84] + "...",
			EventAction{Due: due, Taint: longest[:84] + "..."},
		},
		"due in the far future": {
			EventAction{Cancels: true, Due: due.AddDate(10000, 0, 0)}, "Cancel", EventAction{Cancels: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.action.String()
			if got != test.want || len(got) > 128 {
				t.Errorf("it is %q of %d bytes, want %q", got, len(got), test.want)
			}
			if read, ok := ParseEventAction(got); !ok || !read.Due.Equal(test.read.Due) || read.Cancels != test.read.Cancels || read.Taint != test.read.Taint {
				t.Errorf("it is read as %+v, want %+v", read, test.read)
			}
		})
	}
	for _, of := range []string{"", "Binding", "Evict due=soon", "Evictions"} {
		if read, ok := ParseEventAction(of); ok {
			t.Errorf("%q is read as %+v", of, read)
		}
	}
}

func TestALeaderIsReadBackOnlyForTheHolderThatWroteIt(t *testing.T) {
	leader := Leader{Version: "v1.2.3", Controllers: []string{"eviction", "node-health"}, Coexists: true, MonitorGrace: 50 * time.Second}
	const identity = "taintkeeper-5d8-abcde_7f6b0c1e-1f4b-4b0e-9a44-0d8c3f1f5a10"
	for name, test := range map[string]struct {
		holder *string
		labels map[string]string
		told   bool
	}{
		"it leads":               {new(identity), leader.Labels(identity), true},
		"nobody leads":           {new(""), leader.Labels(identity), false},
		"nobody has ever led":    {nil, nil, false},
		"an older version leads": {new(identity), map[string]string{VersionLabel: "v1.0.0"}, false},
		"an older version leads after a newer one": {new("taintkeeper-5d8-abcde_2"), leader.Labels(identity), false},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}, Spec: coordinationv1.LeaseSpec{HolderIdentity: test.holder}}
		switch got := LeaderOf(lease); {
		case (got != nil) != test.told:
			t.Errorf("%s: it says %v", name, got)
		case got != nil && !reflect.DeepEqual(*got, leader):
			t.Errorf("%s: it says %v, want %v", name, *got, leader)
		}
	}
}
