// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var (
	now, hourAgo        = statetest.Now, statetest.HourAgo
	node, pod           = statetest.Node, statetest.Pod
	tolerating, ownedBy = statetest.Tolerating, statetest.OwnedBy
	static              = statetest.Static
	on                  = statetest.On
)

// explained is the explanation of a subject now.
func explained(subject explain.Subject) *cliv1alpha1.Explanation {
	subject.At = now
	return explain.Explain(subject)
}

// tolerates appends tolerations, given as in a pod's manifest: key, value, effect and seconds.
func tolerates(all ...corev1.Toleration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, all...) }
}

func exists(key string, effect corev1.TaintEffect, seconds ...int64) corev1.Toleration {
	toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	if len(seconds) > 0 {
		toleration.TolerationSeconds = &seconds[0]
	}
	return toleration
}

func equals(key, value string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Value: value, Effect: effect}
}

func TestAnExplanationTellsThePodsApartOverWhichNoTaintDecides(t *testing.T) {
	terminating := func(pod *corev1.Pod) { pod.DeletionTimestamp = &hourAgo }
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	unbound := func(pod *corev1.Pod) { pod.Spec.NodeName = "" }
	tainted := node("n", "k:NoExecute")
	for name, test := range map[string]struct {
		subject explain.Subject
		state   cliv1alpha1.PodState
		leaves  bool
	}{
		"a pod on its node":                       {explain.Subject{Pod: pod("p"), Node: tainted}, cliv1alpha1.PodBound, true},
		"a static pod":                            {explain.Subject{Pod: pod("p", static), Node: tainted}, cliv1alpha1.PodStatic, false},
		"a static pod that is terminating":        {explain.Subject{Pod: pod("p", static, terminating), Node: tainted}, cliv1alpha1.PodStatic, false},
		"a terminating pod":                       {explain.Subject{Pod: pod("p", terminating), Node: tainted}, cliv1alpha1.PodTerminating, false},
		"a finished pod's object goes":            {explain.Subject{Pod: pod("p", finished), Node: tainted}, cliv1alpha1.PodFinished, true},
		"a pod that failed before it had a node":  {explain.Subject{Pod: pod("p", finished, unbound)}, cliv1alpha1.PodFinished, false},
		"a pod whose node is gone":                {explain.Subject{Pod: pod("p"), NodeGone: true}, cliv1alpha1.PodNodeGone, false},
		"a pod whose node could not be read":      {explain.Subject{Pod: pod("p")}, cliv1alpha1.PodNodeUnknown, false},
		"a pod that has no node yet":              {explain.Subject{Pod: pod("p", unbound), Nodes: []*corev1.Node{tainted}}, cliv1alpha1.PodPending, false},
		"a finished pod whose node is gone":       {explain.Subject{Pod: pod("p", finished), NodeGone: true}, cliv1alpha1.PodNodeGone, false},
		"a pending pod that is being deleted too": {explain.Subject{Pod: pod("p", unbound, terminating)}, cliv1alpha1.PodTerminating, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(test.subject)
			if e.State != test.state || e.Leaves != test.leaves {
				t.Errorf("it is %s and leaves: %t; want %s, %t", e.State, e.Leaves, test.state, test.leaves)
			}
			decided := test.state == cliv1alpha1.PodBound || test.state == cliv1alpha1.PodFinished || test.state == cliv1alpha1.PodPending
			if (e.Reason == "") != decided {
				t.Errorf("the reason is %q", e.Reason)
			}
		})
	}
}

func TestWhoElseWroteTheTolerationsOfAPodIsNoted(t *testing.T) {
	for manager, want := range map[string]bool{"kubectl-edit": true, "kube-controller-manager": false} {
		written := pod("p")
		written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:tolerations":{}}}`)}}
		notes := strings.Join(explained(explain.Subject{Pod: written, Node: node("n")}).Notes, " ")
		if got := strings.Contains(notes, "last written by "+manager+"."); got != want {
			t.Errorf("%s: the notes are %q", manager, notes)
		}
	}
}

func TestTheOriginOfATolerationSaysWhatIsKnown(t *testing.T) {
	k := exists("k", "")
	template := &state.Template{Kind: "ReplicaSet", Name: "rs", Tolerations: []corev1.Toleration{k}}
	written := &state.Template{Kind: "ReplicaSet", Name: "rs", Tolerations: []corev1.Toleration{k}, Writers: []string{"helm", "kubectl-edit"}}
	owned := ownedBy("ReplicaSet", "rs")
	for want, subject := range map[string]explain.Subject{
		"the template of ReplicaSet rs":                                        {Pod: pod("p", owned), Template: template},
		"the template of ReplicaSet rs, written by helm, kubectl-edit":         {Pod: pod("p", owned), Template: written},
		"from the owner's template, which could not be read, or from a policy": {Pod: pod("p", owned)},
		"the pod has no owner: added by its creator or a policy":               {Pod: pod("p")},
		"not in the template of ReplicaSet rs: added by a policy, a webhook, or someone who changed the pod": {
			Pod: pod("p", owned), Template: &state.Template{Kind: "ReplicaSet", Name: "rs"},
		},
	} {
		tolerates(k)(subject.Pod)
		if got := explained(subject).Tolerations[0].OriginDetail; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestATolerationAfterOneThatMatchesTheSameTaintsNeverCounts(t *testing.T) {
	e := explained(explain.Subject{
		Node: node("n", "k=1:NoExecute", "s:NoSchedule"),
		Pod: pod("p", tolerates(
			exists("k", corev1.TaintEffectNoExecute, 3700),
			equals("k", "1", corev1.TaintEffectNoExecute),
			exists("", corev1.TaintEffectNoSchedule),
			exists("s", corev1.TaintEffectNoSchedule),
			exists("k", ""),
		)),
	})
	var shadowed []int
	for _, toleration := range e.Tolerations {
		by := -1
		if toleration.ShadowedBy != nil {
			by = *toleration.ShadowedBy
		}
		shadowed = append(shadowed, by)
	}
	if want := []int{-1, 0, -1, 2, -1}; !slices.Equal(shadowed, want) {
		t.Errorf("they are shadowed by %v, want %v", shadowed, want)
	}
	if got, want := e.Taints[0].Shadowed, []int{1, 4}; !slices.Equal(got, want) || *e.Taints[0].Toleration != 0 {
		t.Errorf("taint k is matched too late by %v, want %v", got, want)
	}
	if got, want := e.Taints[1].Shadowed, []int{3}; !slices.Equal(got, want) || *e.Taints[1].Toleration != 2 {
		t.Errorf("taint s is matched too late by %v, want %v", got, want)
	}
}

func TestOnlyATaintThatLetsAPendingPodInSaysWhenItWouldLeave(t *testing.T) {
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		taint []string
		want  *int64
	}{
		"tolerated for a while":                    {pending(tolerating("k", 60)), []string{"k:NoExecute"}, new(int64(60))},
		"tolerated indefinitely":                   {pending(tolerating("k")), []string{"k:NoExecute"}, nil},
		"tolerated for a while, and another not":   {pending(tolerating("k", 60)), []string{"k:NoExecute", "other:NoSchedule"}, nil},
		"not tolerated":                            {pending(), []string{"k:NoExecute"}, nil},
		"tolerated for less than no time, at once": {pending(tolerating("k", -5)), []string{"k:NoExecute"}, new(int64(0))},
	} {
		class := explained(explain.Subject{Pod: test.pod, Nodes: []*corev1.Node{node("a", test.taint...)}}).NodeClasses[0]
		if diff := cmp.Diff(test.want, class.LeavesAfterSeconds); diff != "" {
			t.Errorf("%s: the seconds (-want +got):\n%s", name, diff)
		}
	}
	one := explained(explain.Subject{Pod: pending(), Nodes: []*corev1.Node{node("a", "k:NoSchedule"), node("b", "k:NoSchedule", "l:NoSchedule")}})
	if one.Changes[0].What != "Add a toleration for k:NoSchedule." || one.Changes[1].What != "Add tolerations for k:NoSchedule, l:NoSchedule." {
		t.Errorf("the changes are %q and %q", one.Changes[0].What, one.Changes[1].What)
	}
}

func TestAPodIsDueItsTolerationSecondsAfterTheLaterOfItsTaintAndItsBinding(t *testing.T) {
	boundAt := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second).Add(-ago))}}
		}
	}
	added := func(ago *time.Duration) *corev1.Node {
		node := node("n", "k:NoExecute")
		if node.Spec.Taints[0].TimeAdded = nil; ago != nil {
			node.Spec.Taints[0].TimeAdded = new(metav1.NewTime(now.Truncate(time.Second).Add(-*ago)))
		}
		return node
	}
	const second = 750 * time.Millisecond // until the end of the current second
	for name, test := range map[string]struct {
		node                *corev1.Node
		pod                 *corev1.Pod
		since, bound, start time.Duration // before now
		sinceFrom           cliv1alpha1.TimeSource
		boundFrom           cliv1alpha1.TimeSource
		due                 time.Duration // after now
	}{
		"the taint is later": {
			added(new(time.Minute)), pod("p", boundAt(time.Hour), tolerating("k", 300)),
			time.Minute - second, time.Hour - second, time.Minute - second, cliv1alpha1.FromTimeAdded, cliv1alpha1.FromPodScheduled, 4*time.Minute + second,
		},
		"the binding is later": {
			added(new(time.Hour)), pod("p", boundAt(time.Minute), tolerating("k", 300)),
			time.Hour - second, time.Minute - second, time.Minute - second, cliv1alpha1.FromTimeAdded, cliv1alpha1.FromPodScheduled, 4*time.Minute + second,
		},
		"the scheduler had refused it before": {
			added(new(time.Minute)), pod("p", boundAt(time.Hour), func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }),
			time.Minute - second, time.Hour - second, time.Minute - second, cliv1alpha1.FromTimeAdded, cliv1alpha1.FromCreationTimestamp, -time.Minute + second,
		},
		"it was created by a clock that is ahead": {
			added(new(time.Minute)), pod("p", func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) }),
			time.Minute - second, 0, 0, cliv1alpha1.FromTimeAdded, cliv1alpha1.FromNow, 0,
		},
		"nobody wrote down when the taint came": {
			added(nil), pod("p", tolerating("k", 300)),
			0, time.Hour - second, 0, cliv1alpha1.FromNow, cliv1alpha1.FromCreationTimestamp, 5 * time.Minute,
		},
		"the taint comes from a clock that is ahead": {
			added(new(-time.Hour)), pod("p"),
			0, time.Hour - second, 0, cliv1alpha1.FromNow, cliv1alpha1.FromCreationTimestamp, 0,
		},
		"nothing tolerates it": {
			added(new(time.Minute)), pod("p"),
			time.Minute - second, time.Hour - second, time.Minute - second, cliv1alpha1.FromTimeAdded, cliv1alpha1.FromCreationTimestamp, -time.Minute + second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explained(explain.Subject{Pod: test.pod, Node: test.node}).Timing
			want := &cliv1alpha1.Timing{
				Since: metav1.NewMicroTime(now.Add(-test.since)), SinceFrom: test.sinceFrom,
				Bound: metav1.NewMicroTime(now.Add(-test.bound)), BoundFrom: test.boundFrom,
				Start: metav1.NewMicroTime(now.Add(-test.start)),
				Due:   metav1.NewMicroTime(now.Add(test.due)),
			}
			if len(test.pod.Spec.Tolerations) > 0 {
				want.TolerationSeconds = test.pod.Spec.Tolerations[0].TolerationSeconds
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the clock (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExplanationSaysHowAPodToleratesEachTaintOfItsNode(t *testing.T) {
	for name, test := range map[string]struct {
		tolerations []corev1.Toleration
		taint       string
		tolerated   cliv1alpha1.Tolerance
		due         bool
		matches     string // of the first and second toleration
	}{
		"not at all":                           {nil, "k:NoExecute", cliv1alpha1.ToleratedNotAtAll, true, ""},
		"for a while":                          {[]corev1.Toleration{exists("k", "", 5)}, "k:NoExecute", cliv1alpha1.ToleratedForAWhile, true, "1/1"},
		"indefinitely":                         {[]corev1.Toleration{exists("k", "")}, "k:NoExecute", cliv1alpha1.ToleratedIndefinitely, false, "1/1"},
		"seconds count for NoExecute alone":    {[]corev1.Toleration{exists("k", "", 5)}, "k:NoSchedule", cliv1alpha1.ToleratedIndefinitely, false, "1/1"},
		"no NoSchedule taint evicts":           {nil, "k:NoSchedule", cliv1alpha1.ToleratedNotAtAll, false, ""},
		"of two that match only one counts":    {[]corev1.Toleration{exists("k", ""), exists("", "", 5)}, "k:NoExecute", cliv1alpha1.ToleratedIndefinitely, false, "1/1 1/0"},
		"one that does not match never counts": {[]corev1.Toleration{exists("l", ""), exists("k", "")}, "k:NoExecute", cliv1alpha1.ToleratedIndefinitely, false, "0/0 1/1"},
	} {
		e := explained(explain.Subject{Pod: pod("p", tolerates(test.tolerations...)), Node: node("n", test.taint)})
		if got := e.Taints[0]; got.Tolerated != test.tolerated || (got.Due != nil) != test.due {
			t.Errorf("%s: tolerated %s, due at %v; want %s, due: %t", name, got.Tolerated, got.Due, test.tolerated, test.due)
		}
		var matches []string
		for _, toleration := range e.Tolerations {
			matches = append(matches, fmt.Sprint(len(toleration.Matches), "/", len(toleration.Counts)))
		}
		if got := strings.Join(matches, " "); got != test.matches {
			t.Errorf("%s: matches and counts are %q, want %q", name, got, test.matches)
		}
	}
}

func TestOneTolerationCoversAnotherIfItMatchesEveryTaintThatTheOtherMatches(t *testing.T) {
	all, every := allTolerations(), everyTaint()
	matcher := taints.Matcher{}
	for _, one := range all {
		for _, other := range all {
			matches := func(t corev1.Toleration) func(corev1.Taint) bool {
				return func(taint corev1.Taint) bool { return matcher.Tolerates(&t, &taint) }
			}
			if !slices.ContainsFunc(every, matches(other)) {
				continue // it matches nothing at all
			}
			wants := !slices.ContainsFunc(every, func(taint corev1.Taint) bool { return matches(other)(taint) && !matches(one)(taint) })
			if got := explain.Covers(one, other); got != wants {
				t.Errorf("%+v covers %+v: %t, want %t", one, other, got, wants)
			}
		}
	}
}

func allTolerations() []corev1.Toleration {
	operators := []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule}
	var all []corev1.Toleration
	for _, key := range []string{"", "a", "b"} {
		for _, operator := range operators {
			for _, value := range []string{"", "1"} {
				for _, effect := range effects {
					all = append(all, corev1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
				}
			}
		}
	}
	return all
}

func everyTaint() []corev1.Taint {
	var every []corev1.Taint
	for _, key := range []string{"a", "b", "unheard"} {
		for _, value := range []string{"", "1", "2", "unheard"} {
			for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule} {
				every = append(every, corev1.Taint{Key: key, Value: value, Effect: effect})
			}
		}
	}
	return every
}

func TestTheOriginOfATolerationFollowsFromTheTemplateOrItsForm(t *testing.T) {
	replicaSet, daemonSet := ownedBy("ReplicaSet", "rs"), ownedBy("DaemonSet", "ds")
	burstable := func(pod *corev1.Pod) { pod.Status.QOSClass = corev1.PodQOSBurstable }
	bestEffort := func(pod *corev1.Pod) { pod.Status.QOSClass = corev1.PodQOSBestEffort }
	requesting := func(name corev1.ResourceName) func(*corev1.Pod) {
		requests := corev1.ResourceList{name: resource.MustParse("1")}
		return func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
		}
	}
	gpu := requesting("example.com/gpu")
	empty := &state.Template{Kind: "ReplicaSet", Name: "rs"}
	template := &state.Template{Kind: "ReplicaSet", Name: "rs", Tolerations: []corev1.Toleration{exists("k", "a"), equals("v", "1", "a"), equals("w", "", "a")}}
	defaults := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"scheduler.alpha.kubernetes.io/defaultTolerations": `[{"key":"team","value":"a"}]`,
	}}}
	notReady := exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, 300)
	notReadyMinute := exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, 60)
	pressure := exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	resourceGPU := exists("example.com/gpu", corev1.TaintEffectNoSchedule)
	for name, test := range map[string]struct {
		toleration corev1.Toleration
		subject    explain.Subject
		origin     cliv1alpha1.TolerationOrigin
		certain    bool
	}{
		"the template has it": {
			notReady, explain.Subject{Pod: pod("p", replicaSet), Template: &state.Template{Tolerations: []corev1.Toleration{notReady}}}, cliv1alpha1.OriginTemplate, true,
		},
		"Equal is the operator that is meant without one": {
			corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual},
			explain.Subject{Pod: pod("p", replicaSet), Template: &state.Template{Tolerations: []corev1.Toleration{{Key: "k"}}}}, cliv1alpha1.OriginTemplate, true,
		},
		"another key than the template's":            {exists("other", "a"), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"another effect than the template's":         {exists("k", "b"), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"another operator than the template's":       {equals("k", "", "a"), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"Exists for the template's Equal":            {exists("w", "a"), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"another value than the template's":          {equals("v", "2", "a"), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"more seconds than the template's":           {exists("k", "a", 5), explain.Subject{Pod: pod("p"), Template: template}, cliv1alpha1.OriginUnknown, false},
		"a default's key with another value":         {equals("team", "b", ""), explain.Subject{Pod: pod("p"), Namespace: defaults}, cliv1alpha1.OriginUnknown, false},
		"a namespace without defaults":               {equals("team", "a", ""), explain.Subject{Pod: pod("p"), Namespace: &corev1.Namespace{}}, cliv1alpha1.OriginUnknown, false},
		"NoExecute of a request":                     {exists("example.com/gpu", corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", gpu), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"everything of a static pod":                 {exists("", ""), explain.Subject{Pod: pod("p", static)}, cliv1alpha1.OriginManifest, true},
		"NoExecute of a static pod, one key":         {exists("k", corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", static)}, cliv1alpha1.OriginManifest, true},
		"a daemon's not-ready:NoSchedule":            {exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), explain.Subject{Pod: pod("p", daemonSet)}, cliv1alpha1.OriginUnknown, false},
		"a daemon's disk-pressure:NoExecute":         {exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", daemonSet)}, cliv1alpha1.OriginUnknown, false},
		"memory-pressure:NoExecute":                  {exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", burstable), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"memory-pressure without a QoS class":        {pressure, explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"300 seconds of another effect":              {exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule, 300), explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"300 seconds of corev1.TaintNodeUnreachable": {exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, 300), explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginDefaultTolerationSeconds, true},
		"300 seconds behind another key":             {notReady, explain.Subject{Pod: pod("p", tolerating("other")), Template: empty}, cliv1alpha1.OriginDefaultTolerationSeconds, true},
		"300 seconds behind the same key":            {notReady, explain.Subject{Pod: pod("p", tolerating(corev1.TaintNodeNotReady)), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"a request in Kubernetes' own domain":        {exists("kubernetes.io/batch", corev1.TaintEffectNoSchedule), explain.Subject{Pod: pod("p", requesting("kubernetes.io/batch")), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"300 seconds behind another effect": {
			notReady, explain.Subject{Pod: pod("p", tolerates(exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule))), Template: empty},
			cliv1alpha1.OriginDefaultTolerationSeconds, true,
		},
		"300 seconds that the template does not have": {
			notReady, explain.Subject{Pod: pod("p", replicaSet), Template: empty}, cliv1alpha1.OriginDefaultTolerationSeconds, true,
		},
		"300 seconds, and no template":                {notReady, explain.Subject{Pod: pod("p")}, cliv1alpha1.OriginDefaultTolerationSeconds, false},
		"60 seconds that the template does not have":  {notReadyMinute, explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginDefaultTolerationSeconds, true},
		"60 seconds, and no template":                 {notReadyMinute, explain.Subject{Pod: pod("p")}, cliv1alpha1.OriginUnknown, false},
		"300 seconds behind one that says it already": {notReady, explain.Subject{Pod: pod("p", tolerating(""))}, cliv1alpha1.OriginUnknown, false},
		"a daemon's not-ready indefinitely":           {exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", daemonSet)}, cliv1alpha1.OriginDaemonSetController, false},
		"not-ready indefinitely of no daemon":         {exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p")}, cliv1alpha1.OriginUnknown, false},
		"memory-pressure of a daemon":                 {pressure, explain.Subject{Pod: pod("p", daemonSet, burstable)}, cliv1alpha1.OriginDaemonSetController, false},
		"memory-pressure of a burstable pod":          {pressure, explain.Subject{Pod: pod("p", burstable), Template: empty}, cliv1alpha1.OriginPodTolerationRestriction, true},
		"memory-pressure of a pod of best effort":     {pressure, explain.Subject{Pod: pod("p", bestEffort), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"a default of the namespace":                  {equals("team", "a", ""), explain.Subject{Pod: pod("p"), Namespace: defaults}, cliv1alpha1.OriginPodTolerationRestriction, false},
		"for no time, and the template lacks it":      {taints.ForNoTime(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}), explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginTaintkeeper, true},
		"an extended resource that it requests":       {resourceGPU, explain.Subject{Pod: pod("p", gpu), Template: empty}, cliv1alpha1.OriginExtendedResourceToleration, true},
		"an extended resource that it does not":       {resourceGPU, explain.Subject{Pod: pod("p"), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"everything NoExecute of a static pod":        {exists("", corev1.TaintEffectNoExecute), explain.Subject{Pod: pod("p", static)}, cliv1alpha1.OriginKubelet, true},
		"anything else of a static pod":               {exists("k", ""), explain.Subject{Pod: pod("p", static)}, cliv1alpha1.OriginManifest, true},
		"something of nobody's form":                  {exists("k", ""), explain.Subject{Pod: pod("p", replicaSet)}, cliv1alpha1.OriginUnknown, false},
		"something that the template does not have":   {exists("k", ""), explain.Subject{Pod: pod("p", replicaSet), Template: empty}, cliv1alpha1.OriginUnknown, false},
		"disk-pressure of a daemon, for a while":      {exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoExecute, 5), explain.Subject{Pod: pod("p", daemonSet)}, cliv1alpha1.OriginUnknown, false},
		"network-unavailable of a daemon":             {exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule), explain.Subject{Pod: pod("p", daemonSet)}, cliv1alpha1.OriginDaemonSetController, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.subject.Pod.Spec.Tolerations = append(test.subject.Pod.Spec.Tolerations, test.toleration)
			test.subject.Node = node("n")
			all := explained(test.subject).Tolerations
			got := all[len(all)-1]
			if got.Origin != test.origin || got.Certain != test.certain || got.OriginDetail == "" {
				t.Errorf("it is of %s, for certain: %t (%s); want %s, %t", got.Origin, got.Certain, got.OriginDetail, test.origin, test.certain)
			}
		})
	}
}

func TestTheSmallestChangesAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want []string
	}{
		"a pod that tolerates nothing": {
			node("n", "k=v:NoExecute"), pod("p"),
			[]string{"Remove taint k=v:NoExecute from node n.", "In the pod, add a toleration for k=v:NoExecute."},
		},
		"two taints": {
			node("n", "a:NoExecute", "b:NoExecute"), pod("p", tolerating("a", 7200), tolerating("b", 5400)),
			[]string{"Remove taint b:NoExecute from node n.", "Remove taints b:NoExecute, a:NoExecute from node n.", "In the pod, remove tolerationSeconds from tolerations[0], remove tolerationSeconds from tolerations[1]."},
		},
		"two taints that make it due at the same instant": {
			node("n", "a:NoExecute", "b:NoExecute"), pod("p"),
			[]string{"Remove taints a:NoExecute, b:NoExecute from node n.", "In the pod, add a toleration for a:NoExecute, add a toleration for b:NoExecute."},
		},
		"a longer toleration that comes too late": {
			node("n", "a:NoExecute"), pod("p", tolerating("a", 7200), tolerating("")),
			[]string{"Remove taint a:NoExecute from node n.", "In the pod, remove tolerationSeconds from tolerations[0]."},
		},
		"a pod that is late": {
			node("n", "a:NoExecute"), pod("p", tolerating("a", 60)),
			[]string{"Remove taint a:NoExecute from node n.", "In the pod, remove tolerationSeconds from tolerations[0]."},
		},
		"a pod that stays because of a toleration": {
			node("n", "a:NoExecute"), pod("p", tolerates(exists("a", corev1.TaintEffectNoExecute))),
			[]string{"In the pod, set tolerationSeconds in tolerations[0] (they count from 2026-11-22T08:00:01Z, so 0 means immediately)."},
		},
		"a pod that stays because of tolerations of every effect": {
			node("n", "a:NoExecute"), pod("p", tolerating("a"), tolerating("")),
			[]string{"In the pod's template, remove tolerations[0], tolerations[1] (tolerations cannot be removed from an existing pod)."},
		},
		"a pod on a node without taints": {node("n", "a:NoSchedule"), pod("p"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range explained(explain.Subject{Pod: test.pod, Node: test.node}).Changes {
				got = append(got, change.What)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExplanationAgreesWithTheRuleInRandomWorlds(t *testing.T) {
	const worlds = 3000
	leave := 0
	for seed := range uint64(worlds) {
		subject := randomSubject(rand.New(rand.NewPCG(seed, 0)))
		e := explain.Explain(subject)
		facts := verdict.Pod{Tolerations: subject.Pod.Spec.Tolerations, Bound: verdict.SeenAt(subject.At).Start(verdict.Bound(subject.Pod))}
		onNode := verdict.Advance(nil, subject.Node.Spec.Taints, verdict.SeenAt(subject.At))
		want := state.Rule.Decide(facts, onNode)
		if !agrees(e, want) {
			t.Fatalf("seed %d: it leaves: %t at %v by %q; the rule says %t at %v by %+v", seed, e.Leaves, e.Due, e.Taint, want.Leaves, want.Due, want.Taint)
		}
		for _, change := range e.Changes {
			if change.Leaves == want.Leaves && change.Leaves && change.Due.Time.Equal(want.Due) {
				t.Errorf("seed %d: %q changes nothing", seed, change.What)
			}
		}
		if want.Leaves {
			leave++
			if !slices.ContainsFunc(e.Changes, func(change cliv1alpha1.SmallestChange) bool { return !change.Leaves }) {
				t.Errorf("seed %d: nothing lets the pod stay: %+v", seed, e.Changes)
			}
		}
	}
	if leave < worlds/10 || leave > worlds*9/10 {
		t.Errorf("%d of %d pods leave: the worlds are too much alike", leave, worlds)
	}
}

func agrees(e *cliv1alpha1.Explanation, want verdict.Verdict) bool {
	if e.Leaves != want.Leaves || e.Leaves != (e.Timing != nil) {
		return false
	}
	if want.Leaves && (!e.Due.Time.Equal(want.Due) || !e.Timing.Due.Time.Equal(want.Due)) {
		return false
	}
	decide := 0
	for _, taint := range e.Taints {
		if taint.Decides {
			decide++
			if taint.Taint != taints.Format(want.Taint.Taint) || !taint.Due.Time.Equal(want.Due) {
				return false
			}
		}
	}
	return want.Leaves == (decide == 1) && (want.Taint.Key == "") == (e.Taint == "")
}

func randomSubject(r *rand.Rand) explain.Subject {
	keys := []string{"a", "b", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
	instant := func() metav1.Time {
		return metav1.NewTime(now.Truncate(time.Second).Add(time.Duration(r.IntN(7200)-6900) * time.Second))
	}
	subject := explain.Subject{At: now, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	for range r.IntN(5) {
		taint := corev1.Taint{Key: keys[r.IntN(len(keys))], Value: []string{"", "1", "2"}[r.IntN(3)], Effect: effects[r.IntN(len(effects))]}
		if r.IntN(4) > 0 {
			taint.TimeAdded = new(instant())
		}
		if !slices.ContainsFunc(subject.Node.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
			subject.Node.Spec.Taints = append(subject.Node.Spec.Taints, taint)
		}
	}
	operators := []corev1.TolerationOperator{corev1.TolerationOpExists, corev1.TolerationOpExists, "", corev1.TolerationOpEqual, corev1.TolerationOpLt}
	subject.Pod = pod("p", func(pod *corev1.Pod) {
		pod.CreationTimestamp = instant()
		for range r.IntN(5) {
			toleration := corev1.Toleration{Key: append(keys, "")[r.IntN(5)], Operator: operators[r.IntN(len(operators))], Value: []string{"", "1", "2"}[r.IntN(3)], Effect: append(effects, "")[r.IntN(5)]}
			if r.IntN(3) > 0 {
				toleration.TolerationSeconds = new([]int64{-1, 0, 60, 7000, 1 << 62}[r.IntN(5)])
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	})
	return subject
}

// pending is a pod that has no node yet.
func pending(change ...func(*corev1.Pod)) *corev1.Pod {
	return pod("p", append(change, on(""))...)
}

func TestNotesSayWhatElseIsKnownAboutAPendingPod(t *testing.T) {
	says := func(kind corev1.PodConditionType, status corev1.ConditionStatus, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status, Message: message}}
		}
	}
	gated := func(names ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, name := range names {
				pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
			}
		}
	}
	to := func(operator corev1.NodeSelectorOperator) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			field := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: operator, Values: []string{"a"}}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}},
			}}}
		}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string // if empty, only the note about taints
	}{
		"nothing":                        {pending(), ""},
		"what the scheduler says":        {pending(says(corev1.PodScheduled, corev1.ConditionFalse, "0/2 nodes")), "The scheduler says: 0/2 nodes"},
		"the scheduler says nothing":     {pending(says(corev1.PodScheduled, corev1.ConditionFalse, "")), ""},
		"somebody else says something":   {pending(says("Other", corev1.ConditionFalse, "no")), ""},
		"the scheduler said it":          {pending(says(corev1.PodScheduled, corev1.ConditionTrue, "done")), ""},
		"two gates":                      {pending(gated("g", "h")), "until these scheduling gates are gone: g, h."},
		"it can go to one node by name":  {pending(to(corev1.NodeSelectorOpIn)), "Its node selector and node affinity allow 1 of 2 nodes"},
		"it can go to all nodes but one": {pending(to(corev1.NodeSelectorOpNotIn)), "allow 1 of 2 nodes"},
	} {
		notes := explained(explain.Subject{Pod: test.pod, Nodes: []*corev1.Node{node("a"), node("b")}}).Notes
		if got := strings.Join(notes, " "); test.want == "" && len(notes) != 1 || len(notes) > 2 || !strings.Contains(got, test.want) {
			t.Errorf("%s: the notes are %q, want %q", name, notes, test.want)
		}
	}
}

func TestANoteSaysWhyATaintCountsFromBeforeItWasAdded(t *testing.T) {
	swapped := node("n", corev1.TaintNodeNotReady+":NoExecute", corev1.TaintNodeUnreachable+":NoExecute")
	swapped.Spec.Taints[1].TimeAdded = new(metav1.NewTime(now.Truncate(time.Second).Add(-time.Minute)))
	for name, test := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want bool
	}{
		"the later of the two decides":  {swapped, pod("p", tolerating(corev1.TaintNodeNotReady)), true},
		"the earlier decides":           {swapped, pod("p", tolerating(corev1.TaintNodeUnreachable)), false},
		"both are tolerated":            {swapped, pod("p", tolerating("")), false},
		"another taint":                 {node("n", "k:NoExecute"), pod("p"), false},
		"nobody wrote down when it was": {&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}}, pod("p"), false},
	} {
		notes := strings.Join(explained(explain.Subject{Pod: test.pod, Node: test.node}).Notes, " ")
		if got := strings.Contains(notes, "count as one taint and the other was there first"); got != test.want {
			t.Errorf("%s: the note is there: %t, want %t", name, got, test.want)
		}
	}
}

func TestNobodyIsToldToRemoveATaintThatIsSetAgainOrToTolerateASickNode(t *testing.T) {
	const unreachable = corev1.TaintNodeUnreachable + ":NoExecute"
	const back = "Bring node n back: node health sets " + unreachable + " again until the node is ready, and then removes it."
	const again = back + " To keep the pod until then, pause evictions (kubectl taintkeeper pause)."
	for name, test := range map[string]struct {
		taints []string
		by     cliv1alpha1.Who
		want   []cliv1alpha1.SmallestChange
	}{
		"of node health":                      {[]string{unreachable}, "", []cliv1alpha1.SmallestChange{{What: again}}},
		"where the built-in ignores policies": {[]string{unreachable}, cliv1alpha1.WhoBuiltIn, []cliv1alpha1.SmallestChange{{What: back}}},
		"of node health, and another": {[]string{"k:NoExecute", unreachable}, "", []cliv1alpha1.SmallestChange{
			{What: "Remove taint k:NoExecute from node n. " + again, Command: "kubectl taint nodes n k:NoExecute-"},
		}},
	} {
		subject := explain.Subject{Pod: pod("p"), Node: node("n", test.taints...), Evictor: state.Evictor{Who: test.by}}
		if diff := cmp.Diff(test.want, explained(subject).Changes); diff != "" {
			t.Errorf("%s: the changes (-want +got):\n%s", name, diff)
		}
	}
}

// A pod is never told to tolerate what says that a node is sick (W19 of the trials).
func TestWhatLetsAPendingPodIn(t *testing.T) {
	cordoned := func(name string) *corev1.Node {
		is := node(name)
		is.Spec.Unschedulable = true
		return is
	}
	gpu, pressure := exists("gpu", corev1.TaintEffectNoSchedule), corev1.TaintNodeDiskPressure+":NoSchedule"
	newer := &state.Template{Tolerations: []corev1.Toleration{gpu}}
	const recreate = "Recreate the pod: it is older than its template, which tolerates the taint."
	for name, test := range map[string]struct {
		nodes    []*corev1.Node
		template *state.Template
		want     cliv1alpha1.SmallestChange
	}{
		"a toleration": {
			[]*corev1.Node{node("n", "gpu:NoSchedule")}, nil,
			cliv1alpha1.SmallestChange{What: "Add a toleration for gpu:NoSchedule.", Tolerations: []corev1.Toleration{gpu}},
		},
		"a cordoned node": {
			[]*corev1.Node{cordoned("a"), cordoned("b")}, nil,
			cliv1alpha1.SmallestChange{What: "Uncordon nodes a, b.", Command: "kubectl uncordon a b"},
		},
		"a sick node": {
			[]*corev1.Node{node("n", pressure)}, nil,
			cliv1alpha1.SmallestChange{What: "Bring node n back to health, which ends node.kubernetes.io/disk-pressure:NoSchedule."},
		},
		"a toleration that its template has": {
			[]*corev1.Node{node("n", "gpu:NoSchedule")}, newer,
			cliv1alpha1.SmallestChange{What: recreate, Command: "kubectl delete pod p -n default"},
		},
		"all of it": {
			[]*corev1.Node{node("n", "gpu:NoSchedule", "x:NoSchedule", pressure)}, newer, cliv1alpha1.SmallestChange{
				What:        "Bring node n back to health, which ends node.kubernetes.io/disk-pressure:NoSchedule. " + recreate + " Add a toleration for x:NoSchedule.",
				Tolerations: []corev1.Toleration{exists("x", corev1.TaintEffectNoSchedule)},
			},
		},
	} {
		test.want.Nodes = len(test.nodes)
		got := explained(explain.Subject{Pod: pending(), Nodes: test.nodes, Newest: test.template}).Changes
		if diff := cmp.Diff([]cliv1alpha1.SmallestChange{test.want}, got); diff != "" {
			t.Errorf("%s: the changes (-want +got):\n%s", name, diff)
		}
	}
	got := explained(explain.Subject{Pod: pod("p"), Node: node("n", "gpu:NoExecute"), Newest: &state.Template{Tolerations: []corev1.Toleration{exists("gpu", "")}}}).Changes
	if last := got[len(got)-1]; last.What != recreate || last.Leaves {
		t.Errorf("a pod on a node: the changes are %+v", got)
	}
}

func TestOfATerminatingPodAnExplanationSaysWhyAndWhatItWaitsFor(t *testing.T) {
	// deleted requests a deletion some time ago, with 30 s for the containers.
	deleted := func(ago time.Duration, reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(now.Add(30*time.Second - ago)))
			pod.DeletionGracePeriodSeconds = new(int64(30))
			if reason != "" {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
				})
			}
		}
	}
	kept := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/backup"} }
	unbound := func(pod *corev1.Pod) { pod.Spec.NodeName = "" }
	over := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	ready := func(status corev1.ConditionStatus, taints ...string) *corev1.Node {
		is := node("n", taints...)
		is.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return is
	}
	alive, silent := ready(corev1.ConditionTrue), ready(corev1.ConditionUnknown, "node.kubernetes.io/unreachable:NoExecute")
	lost := ready(corev1.ConditionUnknown, corev1.TaintNodeOutOfService+":NoExecute")
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		node  *corev1.Node
		waits cliv1alpha1.TerminationWait
		says  string
		helps int
	}{
		"its containers may still run": {
			pod("p", deleted(10*time.Second, v1alpha1.TaintEvictionReason, v1alpha1.MarkMessage)), alive,
			cliv1alpha1.WaitsForContainers, "Taintkeeper evicted it because of a NoExecute taint. Its containers have 20s more to stop.", 0,
		},
		"its kubelet hangs": {
			pod("p", deleted(time.Minute, v1alpha1.TaintEvictionReason, "Taint manager: deleting due to NoExecute taint")), alive,
			cliv1alpha1.WaitsForKubelet, "kube-controller-manager evicted it because of a NoExecute taint. Its containers should have ended 30s ago, but", 0,
		},
		"its kubelet is silent, even within the grace period": {
			pod("p", deleted(10*time.Second, "EvictionByEvictionAPI", "")), silent,
			cliv1alpha1.WaitsForSilentKubelet, "A client evicted it through the Eviction API, as kubectl drain does. It waits for the kubelet of node n", 3,
		},
		"its containers have ended before its kubelet fell silent": {
			pod("p", deleted(time.Hour, "", ""), kept, over), silent,
			cliv1alpha1.WaitsForFinalizers, "No condition of the pod says why. It waits for the finalizer example.com/backup: the controller that set it must remove it.", 0,
		},
		"its node is out of service": {
			pod("p", deleted(time.Minute, "DeletionByPodGC", "")), lost,
			cliv1alpha1.WaitsForGarbageCollection, "Pod garbage collection deletes it, because its node is gone or out of service. Node n no longer runs it", 0,
		},
		"a finalizer keeps it": {
			pod("p", deleted(time.Minute, corev1.PodReasonPreemptionByScheduler, ""), kept), alive,
			cliv1alpha1.WaitsForFinalizers, "The scheduler preempted it for a pod of higher priority. It waits for the finalizer example.com/backup", 0,
		},
		"a reason that is new": {
			pod("p", deleted(time.Minute, "Other", "It is time")), alive,
			cliv1alpha1.WaitsForKubelet, "The reason is Other: It is time. Its containers", 0,
		},
		"it has no node": {
			pod("p", deleted(time.Minute, "", ""), unbound), nil,
			cliv1alpha1.WaitsForKubelet, "No condition of the pod says why. It has no node, so the API server removes it soon.", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(explain.Subject{Pod: test.pod, Node: test.node})
			is := e.Terminating
			if e.State != cliv1alpha1.PodTerminating || is == nil || is.WaitsFor != test.waits {
				t.Fatalf("state %s, waits %+v", e.State, is)
			}
			if is.Until.Sub(is.Since.Time) != 30*time.Second {
				t.Errorf("terminating since %s, until %s", is.Since, is.Until)
			}
			if !strings.HasPrefix(e.Reason, test.says) {
				t.Errorf("it says %q", e.Reason)
			}
			if len(e.Changes) != test.helps {
				t.Errorf("what helps: %+v", e.Changes)
			}
		})
	}
}

func TestAnEventExplainsAPodThatIsGone(t *testing.T) {
	past := cliv1alpha1.Eviction{
		At: metav1.NewMicroTime(now.Add(-time.Hour)), Due: new(metav1.NewMicroTime(now.Add(-2 * time.Hour))),
		Namespace: "shop", Name: "cart-0", UID: "1", Node: "n", Taint: "k=v:NoExecute", By: cliv1alpha1.WhoTaintkeeper, Pods: 1,
	}
	e := explain.Gone(past, now)
	if e.State != cliv1alpha1.PodGone || e.Namespace != "shop" || e.Name != "cart-0" || e.Node != "n" || e.Taint != past.Taint || e.Leaves {
		t.Errorf("explained as %+v", e)
	}
}

// The taint one came 20 s ago, and the taint two 10 s ago.
func TestWhereKubeControllerManagerEvictsItsTimersExplainWhenAPodLeaves(t *testing.T) {
	two := node("n", "one=1:NoExecute", "two=1:NoExecute")
	for i, ago := range []time.Duration{20 * time.Second, 10 * time.Second} {
		two.Spec.Taints[i].TimeAdded = new(metav1.NewTime(now.Add(-ago)))
	}
	leads := func(ago time.Duration) state.Evictor {
		return statetest.BuiltInEvicts(&state.Cluster{}, now.Add(-ago), now).Evictor
	}
	patient := pod("p", tolerating("one", 120), tolerating("two", 4))
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		evictor    state.Evictor
		due, start time.Duration // from now
		taint      string
		note       string
		changes    []string // how suggestions begin
	}{
		"the second taint is ignored": {
			patient, leads(time.Hour), 100*time.Second + 750*time.Millisecond, -19250 * time.Millisecond, "one=1:NoExecute",
			"With Taintkeeper, the pod would leave at 2026-11-22T08:59:55Z, because of taint two.",
			[]string{"Remove taints two=1:NoExecute, one=1:NoExecute", "In the pod, remove tolerationSeconds"},
		},
		"a new leader sees both": {
			patient, leads(time.Second), 3 * time.Second, -time.Second, "two=1:NoExecute",
			"With Taintkeeper, the pod would leave at 2026-11-22T08:59:55Z, because of taint two.", nil,
		},
		"the pod waits in the queue": {
			pod("p", tolerating("one", 120)), leads(time.Hour), -9250 * time.Millisecond, -9250 * time.Millisecond, "two=1:NoExecute", "", []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := explained(explain.Subject{Pod: test.pod, Node: two, Evictor: test.evictor})
			if is.EvictedBy != cliv1alpha1.WhoBuiltIn || !is.Leaves || is.Due.Sub(now) != test.due || is.Taint != test.taint {
				t.Errorf("evicted by %s, it leaves: %t, at %v, because of %s", is.EvictedBy, is.Leaves, is.Due, is.Taint)
			}
			if got := is.Timing.Start.Sub(now); got != test.start {
				t.Errorf("the countdown began at %v, want %v", got, test.start)
			}
			if test.note != "" && !slices.Contains(is.Notes, test.note) {
				t.Errorf("the notes are %q, want %q", is.Notes, test.note)
			}
			begins := func(change cliv1alpha1.SmallestChange, want string) bool { return strings.HasPrefix(change.What, want) }
			if test.changes != nil && !slices.EqualFunc(is.Changes, test.changes, begins) {
				t.Errorf("the changes are %+v, want %q", is.Changes, test.changes)
			}
		})
	}
}

func TestAPodThatKubeControllerManagerCouldNotDeleteIsSaidToBeForgotten(t *testing.T) {
	is := explained(explain.Subject{Pod: pod("p"), Node: node("n", "k:NoExecute"), Evictor: state.Evictor{Who: cliv1alpha1.WhoBuiltIn}})
	forgotten := func(note string) bool {
		return strings.HasPrefix(note, "kube-controller-manager has probably tried without success to delete the pod.")
	}
	if !is.Leaves || !slices.ContainsFunc(is.Notes, forgotten) {
		t.Errorf("it leaves: %t, and the notes are %q", is.Leaves, is.Notes)
	}
	if i := slices.IndexFunc(is.Changes, func(c cliv1alpha1.SmallestChange) bool { return !c.Leaves }); i < 0 {
		t.Errorf("nothing lets it stay: %+v", is.Changes)
	}
}
