// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

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
