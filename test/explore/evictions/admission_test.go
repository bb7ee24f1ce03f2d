// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
)

// The conditions DisruptionTarget that writers of the status of a pod leave.
var (
	unmarked  = corev1.PodCondition{}
	byBuiltIn = corev1.PodCondition{
		Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
	}
	byUs = corev1.PodCondition{
		Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taintkeeper: deleting due to NoExecute taint",
	}
	byPreemption = corev1.PodCondition{
		Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "default-scheduler: preempting",
	}
)

// with changes a condition.
func with(c corev1.PodCondition, change func(*corev1.PodCondition)) corev1.PodCondition {
	change(&c)
	return c
}

func notNow(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }

// TestTheAdmissionPolicyRefusesMarksOfTheBuiltInWhileTheClockIsFresh asks the policy of config/coexistence.yaml, as the
// API server does, about patches of a pod's status.
func TestTheAdmissionPolicyRefusesMarksOfTheBuiltInWhileTheClockIsFresh(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	// A patch may have only the message, if the condition has changed since the built-in read the pod.
	messageAlone := func(c *corev1.PodCondition) { c.Message = byBuiltIn.Message }
	takenBack := with(with(byUs, notNow), func(c *corev1.PodCondition) { c.Message = "Taintkeeper: does not have to leave now" })
	ahead := func(c *corev1.PodCondition) { c.LastTransitionTime = metav1.NewTime(now.Add(5 * time.Minute)) }
	for _, test := range []struct {
		name          string
		before, after corev1.PodCondition
		renewed       time.Duration // ago
		refused       bool
	}{
		{"a mark", unmarked, byBuiltIn, 0, true},
		{"a mark of a pod that we have marked", byUs, byBuiltIn, 0, true},
		{"a mark of a pod that is preempted", byPreemption, byBuiltIn, 0, true},
		{"our mark", unmarked, byUs, 0, false},
		{"its message alone, on a mark that we took back", takenBack, with(takenBack, messageAlone), 0, true},
		{"its message alone, on a mark that the disruption controller took back", with(unmarked, notNow), with(with(unmarked, notNow), messageAlone), 0, true},
		{"its message alone, on our mark by a clock that is ahead", with(byUs, ahead), with(with(byUs, ahead), messageAlone), 0, true},
		{"what a kubelet writes about a pod that was marked before", byBuiltIn, byBuiltIn, 0, false},
		{"what a kubelet writes about a pod that stays", with(byBuiltIn, notNow), with(byBuiltIn, notNow), 0, false},
		{"a mark that is taken back", byBuiltIn, with(byBuiltIn, notNow), 0, false},
		{"a mark that is set again", with(byBuiltIn, notNow), byBuiltIn, 0, true},
		{"a mark 30 s after the clock was renewed", unmarked, byBuiltIn, 30 * time.Second, true},
		{"a mark 31 s after the clock was renewed", unmarked, byBuiltIn, 31 * time.Second, false},
		{"a mark 30 s before the clock was renewed", unmarked, byBuiltIn, -30 * time.Second, false},
		{"a mark 29 s before the clock was renewed", unmarked, byBuiltIn, -29 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := map[string]string{coexist.Annotation: now.Add(-test.renewed).Format(time.RFC3339)}
			wantRefused(t, test.refused, &corev1.Pod{}, test.before, test.after, now, clock)
		})
	}
}

// TestWhileTheBacklogLastsTheBuiltInMayMarkWhatCannotBeAnotherPod asks it while the clock is stale.
func TestWhileTheBacklogLastsTheBuiltInMayMarkWhatCannotBeAnotherPod(t *testing.T) {
	const node = "n"
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name, generateName string, owned bool) *corev1.Pod {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: generateName}, Spec: corev1.PodSpec{NodeName: node}}
		if owned {
			made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
		}
		made.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
		return made
	}
	fixed, random, digits := pod("web-0", "", true), pod("web-x7k2p", "web-", true), pod("web-24567", "web-", true)
	leaving := fixed.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	backlog := func(since, until time.Duration, spared string) map[string]string {
		return map[string]string{
			coexist.BacklogSince: now.Add(since).Format(time.RFC3339), coexist.BacklogUntil: now.Add(until).Format(time.RFC3339),
			coexist.BacklogSpared: spared,
		}
	}
	// The storm began an hour ago, before the pod was created, or just now, after it.
	const younger, older = -time.Hour, 0
	for _, test := range []struct {
		name         string
		pod          *corev1.Pod
		since, until time.Duration
		spared       string
		refused      bool
	}{
		{"a younger pod whose name comes again", fixed, younger, 5 * time.Minute, "", true},
		{"one that is older than the storm", fixed, older, 5 * time.Minute, "", false},
		{"one that is older than the storm and is terminating", leaving, older, 5 * time.Minute, "", true},
		{"one with a random name from its controller", random, younger, 5 * time.Minute, "", false},
		{"one whose random name is all digits, as a StatefulSet's can be", digits, younger, 5 * time.Minute, "", true},
		{"one with a random name and no owner", pod("web-x7k2q", "web-", false), younger, 5 * time.Minute, "", true},
		{"an older pod on a spared node", random, older, 5 * time.Minute, "other " + node, true},
		{"an older pod on a node whose name is only a part of a spared one's", random, older, 5 * time.Minute, node + "0 0" + node, false},
		{"an older pod where all nodes are spared", random, older, 5 * time.Minute, "*", true},
		{"at the end of the backlog", fixed, younger, 0, "*", false},
		{"just before its end", fixed, younger, time.Second, "*", true},
		{"an end that is nearly ten minutes ahead", fixed, younger, 10*time.Minute - time.Second, "", true},
		{"an end that is ten minutes ahead", fixed, younger, 10 * time.Minute, "*", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantRefused(t, test.refused, test.pod, unmarked, byBuiltIn, now, backlog(test.since, test.until, test.spared))
		})
	}
	for _, name := range []string{coexist.BacklogSince, coexist.BacklogUntil} {
		t.Run("an instant that cannot be read: "+name, func(t *testing.T) {
			unreadable := backlog(younger, 5*time.Minute, "")
			unreadable[name] = "soon"
			wantRefused(t, false, fixed, unmarked, byBuiltIn, now, unreadable)
		})
	}
}

// wantRefused asks the policy about a change of a pod's condition at an instant.
func wantRefused(t *testing.T, refused bool, pod *corev1.Pod, before, after corev1.PodCondition, now time.Time, annotations map[string]string) {
	t.Helper()
	of := func(condition corev1.PodCondition) *corev1.Pod {
		is := pod.DeepCopy()
		if condition.Status != "" {
			condition.Type = corev1.DisruptionTarget
			is.Status.Conditions = []corev1.PodCondition{condition}
		}
		return is
	}
	changed := of(after)
	stamped := metav1.NewTime(now)
	changed.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationUpdate, Time: &stamped}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	said := coexistence().validate(update{before: of(before), after: changed, params: account})
	if (said != "") != refused {
		t.Errorf("with %v it is refused: %q, want %t", annotations, said, refused)
	}
}
