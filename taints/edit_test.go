// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

func mustParseEdit(t *testing.T, specs ...string) taints.Edit {
	t.Helper()
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		t.Fatal(err)
	}
	return edit
}

// formatAll prints taints as specs with blanks between them.
func formatAll(all []corev1.Taint) string {
	return taints.Edit{Add: all}.String()
}

func TestParseEditKeepsTheOrder(t *testing.T) {
	tests := []struct {
		name  string
		specs []string
		want  taints.Edit
	}{
		{
			name:  "one addition",
			specs: []string{"a=1:NoSchedule"},
			want:  taints.Edit{Add: []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}}},
		},
		{
			name:  "one removal",
			specs: []string{"a-"},
			want:  taints.Edit{Remove: []taints.Removal{{Key: "a"}}},
		},
		{
			name:  "additions and removals mixed",
			specs: []string{"b:NoExecute", "x-", "a=1:NoSchedule", "c=2:NoExecute-"},
			want: taints.Edit{
				Add: []corev1.Taint{
					{Key: "b", Effect: corev1.TaintEffectNoExecute},
					{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule},
				},
				Remove: []taints.Removal{{Key: "x"}, {Key: "c", Effect: corev1.TaintEffectNoExecute}},
			},
		},
		{
			name:  "one key with two effects",
			specs: []string{"a:NoExecute", "a:NoSchedule"},
			want: taints.Edit{Add: []corev1.Taint{
				{Key: "a", Effect: corev1.TaintEffectNoExecute},
				{Key: "a", Effect: corev1.TaintEffectNoSchedule},
			}},
		},
		{
			name:  "one effect of a key added and another removed",
			specs: []string{"a:NoExecute", "a:NoSchedule-"},
			want: taints.Edit{
				Add:    []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}},
				Remove: []taints.Removal{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
		{
			name:  "the same removal twice, which only applying it can refuse",
			specs: []string{"a-", "a-"},
			want:  taints.Edit{Remove: []taints.Removal{{Key: "a"}, {Key: "a"}}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := mustParseEdit(t, test.specs...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ParseEdit(%q) (-want +got):\n%s", test.specs, diff)
			}
			again := mustParseEdit(t, strings.Fields(got.String())...)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("its String %q reads back as another edit (-want +got):\n%s", got, diff)
			}
		})
	}
}

func TestParseEditReportsAllThatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		specs []string
		says  []string
	}{
		{"no spec", nil, []string{"at least one", "key=value:Effect"}},
		{"an empty spec", []string{""}, []string{"no key"}},
		{"the same taint twice", []string{"a=1:NoSchedule", "a=1:NoSchedule"}, []string{`add taint "a=1:NoSchedule"`, "same key and effect"}},
		{"the same key and effect with two values", []string{"a=1:NoSchedule", "a=2:NoSchedule"}, []string{`add taint "a=2:NoSchedule"`, `"a=1:NoSchedule" has the same key and effect`}},
		{"added and removed", []string{"a=1:NoSchedule", "a:NoSchedule-"}, []string{`add taint "a=1:NoSchedule"`, `"a:NoSchedule-" removes it`}},
		{"added and removed with another value", []string{"a=1:NoSchedule", "a=2:NoSchedule-"}, []string{`"a:NoSchedule-" removes it`}},
		{"removed and then added", []string{"a:NoSchedule-", "a=1:NoSchedule"}, []string{`"a:NoSchedule-" removes it`}},
		{"added and every effect removed", []string{"a=1:NoSchedule", "a-"}, []string{`"a-" removes it`}},
		{"two bad specs", []string{"a:NoEvict", "b:NoSchedule", "c=d-"}, []string{`"a:NoEvict"`, `"NoEvict"`, `"c=d-"`, "no effect"}},
		{"two conflicts", []string{"a:NoSchedule", "b:NoExecute", "a-", "b-"}, []string{`"a-" removes it`, `"b-" removes it`}},
		{"a duplicate and a conflict", []string{"a:NoSchedule", "a:NoSchedule", "b:NoExecute", "b-"}, []string{"same key and effect", `"b-" removes it`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := taints.ParseEdit(test.specs...)
			wantError(t, err, test.says...)
			if diff := cmp.Diff(taints.Edit{}, got); diff != "" {
				t.Errorf("an edit comes with the error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyGivesKubectlsResultInKubectlsOrder(t *testing.T) {
	tests := []struct {
		name    string
		current string
		edit    string
		policy  taints.Overwrite
		want    string
	}{
		{name: "the first taint of a node", edit: "a=1:NoSchedule", want: "a=1:NoSchedule"},
		{name: "added taints come first", current: "a=1:NoSchedule", edit: "c:NoExecute b:NoExecute", want: "c:NoExecute b:NoExecute a=1:NoSchedule"},
		{name: "another effect of a key is another taint", current: "a=1:NoSchedule", edit: "a=1:NoExecute", want: "a=1:NoExecute a=1:NoSchedule"},
		{name: "all three effects of a key", edit: "a:NoSchedule a:PreferNoSchedule a:NoExecute", want: "a:NoSchedule a:PreferNoSchedule a:NoExecute"},
		{name: "keys are compared with their prefix", current: "a:NoSchedule", edit: "example.com/a:NoSchedule", want: "example.com/a:NoSchedule a:NoSchedule"},
		{name: "keys are compared by case", current: "a:NoSchedule", edit: "A:NoSchedule", want: "A:NoSchedule a:NoSchedule"},
		{name: "an overwritten taint moves to the front", current: "b:NoSchedule a=1:NoSchedule", edit: "a=2:NoSchedule", policy: taints.OverwriteExisting, want: "a=2:NoSchedule b:NoSchedule"},
		{name: "overwriting with no value", current: "a=1:NoSchedule", edit: "a:NoSchedule", policy: taints.OverwriteExisting, want: "a:NoSchedule"},
		{name: "overwriting with the same value", current: "a=1:NoSchedule", edit: "a=1:NoSchedule", policy: taints.OverwriteExisting, want: "a=1:NoSchedule"},
		{name: "overwriting what is not there", current: "b:NoSchedule", edit: "a=1:NoSchedule", policy: taints.OverwriteExisting, want: "a=1:NoSchedule b:NoSchedule"},
		{name: "removal by key and effect", current: "a:NoSchedule a:NoExecute", edit: "a:NoSchedule-", want: "a:NoExecute"},
		{name: "removal whatever the value", current: "a=1:NoSchedule", edit: "a=2:NoSchedule-"},
		{name: "removal of every effect of a key", current: "a:NoSchedule b:NoExecute a=1:PreferNoSchedule a:NoExecute", edit: "a-", want: "b:NoExecute"},
		{name: "removal of the last taint", current: "a:NoSchedule", edit: "a-"},
		{name: "removal of several taints", current: "a:NoSchedule b:NoExecute c:NoExecute", edit: "c:NoExecute- a-", want: "b:NoExecute"},
		{name: "removal of one effect and then of the others", current: "a:NoSchedule a:NoExecute", edit: "a:NoSchedule- a-"},
		{name: "one added and one removed", current: "a:NoSchedule c:NoSchedule", edit: "a- b:NoExecute", want: "b:NoExecute c:NoSchedule"},
		{name: "one effect exchanged for another", current: "a=1:NoSchedule", edit: "a:NoSchedule- a=1:NoExecute", want: "a=1:NoExecute"},
		{name: "an overwrite and a removal", current: "a=1:NoSchedule b:NoSchedule", edit: "a=2:NoSchedule b-", policy: taints.OverwriteExisting, want: "a=2:NoSchedule"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := mustParseEdit(t, strings.Fields(test.edit)...).Apply(list(t, test.current), test.policy)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(list(t, test.want), got); diff != "" {
				t.Errorf("%q applied to %q (-want +got):\n%s", test.edit, test.current, diff)
			}
		})
	}
}

func TestApplyOfTheZeroEditCopies(t *testing.T) {
	current := list(t, "a:NoSchedule b:NoExecute")
	got, err := taints.Edit{}.Apply(current, taints.KeepExisting)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(current, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if &got[0] == &current[0] {
		t.Error("the result is the input itself, not a copy")
	}
}

func TestApplyReportsEveryTaintThatStandsInItsWay(t *testing.T) {
	tests := []struct {
		name    string
		current string
		edit    string
		policy  taints.Overwrite
		says    []string
	}{
		{name: "added with another value", current: "a=1:NoSchedule", edit: "a=2:NoSchedule", says: []string{`add taint "a=2:NoSchedule": the node already has "a=1:NoSchedule" with the same key and effect: overwrite it`}},
		{name: "added with the same value", current: "a=1:NoSchedule", edit: "a=1:NoSchedule", says: []string{`already has "a=1:NoSchedule"`}},
		{name: "two of three exist", current: "a=1:NoSchedule b:NoExecute", edit: "a=2:NoSchedule b=2:NoExecute c:NoExecute", says: []string{`already has "a=1:NoSchedule"`, `already has "b:NoExecute"`}},
		{name: "removed from a node without taints", edit: "a:NoSchedule-", says: []string{`cannot remove taint "a:NoSchedule": the node has no such taint`}},
		{name: "removed with another effect", current: "a:NoExecute", edit: "a:NoSchedule-", says: []string{`remove taint "a:NoSchedule"`}},
		{name: "removed by another key", current: "a:NoExecute", edit: "b-", says: []string{`remove taint "b"`}},
		{name: "removed by the key without its prefix", current: "example.com/a:NoExecute", edit: "a-", says: []string{`remove taint "a"`}},
		{name: "removed twice", current: "a:NoExecute", edit: "a- a-", says: []string{`remove taint "a"`}},
		{name: "two removals of nothing", current: "a:NoExecute", edit: "b- a- c:NoSchedule-", says: []string{`remove taint "b"`, `remove taint "c:NoSchedule"`}},
		{name: "one exists and one is missing", current: "a:NoExecute", edit: "a=2:NoExecute b-", says: []string{`already has "a:NoExecute"`, `remove taint "b"`}},
		{name: "overwriting does not help a removal", current: "a:NoExecute", edit: "a=2:NoExecute b-", policy: taints.OverwriteExisting, says: []string{`remove taint "b"`}},
		{name: "an unknown policy keeps what exists", current: "a:NoExecute", edit: "a=2:NoExecute", policy: 7, says: []string{`already has "a:NoExecute"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := mustParseEdit(t, strings.Fields(test.edit)...).Apply(list(t, test.current), test.policy)
			wantError(t, err, test.says...)
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(test.says) {
				t.Errorf("%d errors, want %d: %v", lines, len(test.says), err)
			}
			if got != nil {
				t.Errorf("taints come with the error: %s", formatAll(got))
			}
		})
	}
}

func TestApplyRefusesAnEditThatParseEditWouldNotReturn(t *testing.T) {
	a := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	tests := []struct {
		name string
		edit taints.Edit
		says string
	}{
		{"two additions alike", taints.Edit{Add: []corev1.Taint{a, a}}, "same key and effect"},
		{"added and removed", taints.Edit{Add: []corev1.Taint{a}, Remove: []taints.Removal{{Key: "a"}}}, `"a-" removes it`},
		{"added without a key", taints.Edit{Add: []corev1.Taint{{Effect: corev1.TaintEffectNoExecute}}}, "no key"},
		{"added without an effect", taints.Edit{Add: []corev1.Taint{{Key: "a"}}}, "no effect"},
		{"added with an unknown effect", taints.Edit{Add: []corev1.Taint{{Key: "a", Effect: "NoEvict"}}}, `"NoEvict"`},
		{"added with a bad value", taints.Edit{Add: []corev1.Taint{{Key: "a", Value: "b c", Effect: corev1.TaintEffectNoExecute}}}, `value "b c"`},
		{"removed without a key", taints.Edit{Remove: []taints.Removal{{}}}, "no key"},
		{"removed with an unknown effect", taints.Edit{Remove: []taints.Removal{{Key: "a", Effect: "NoEvict"}}}, `"NoEvict"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, test.edit.Validate(), test.says)
			_, err := test.edit.Apply(nil, taints.OverwriteExisting)
			wantError(t, err, test.says)
		})
	}
}

func TestApplyErrorsSayWhichTaintInCode(t *testing.T) {
	_, err := mustParseEdit(t, "a=2:NoExecute", "b-").Apply(list(t, "a=1:NoExecute"), taints.KeepExisting)
	exists, ok := errors.AsType[*taints.ExistsError](err)
	if !ok {
		t.Fatalf("no ExistsError in %v", err)
	}
	if diff := cmp.Diff(taint(t, "a=1:NoExecute"), exists.Existing); diff != "" {
		t.Errorf("existing taint (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(taint(t, "a=2:NoExecute"), exists.Added); diff != "" {
		t.Errorf("added taint (-want +got):\n%s", diff)
	}
	notFound, ok := errors.AsType[*taints.NotFoundError](err)
	if !ok {
		t.Fatalf("no NotFoundError in %v", err)
	}
	if want := (taints.Removal{Key: "b"}); notFound.Removal != want {
		t.Errorf("removal %v, want %v", notFound.Removal, want)
	}
}

func TestApplyTreatsTimeAddedAsKubectlDoes(t *testing.T) {
	then := metav1.NewTime(time.Unix(1_700_000_000, 0))
	now := metav1.NewTime(time.Unix(1_700_000_060, 0))
	at := func(spec string, added metav1.Time) corev1.Taint {
		timed := taint(t, spec)
		timed.TimeAdded = &added
		return timed
	}
	tests := []struct {
		name    string
		current []corev1.Taint
		edit    taints.Edit
		want    []corev1.Taint
	}{
		{
			name:    "an untouched taint keeps it",
			current: []corev1.Taint{at("a:NoExecute", then)},
			edit:    mustParseEdit(t, "b:NoExecute"),
			want:    []corev1.Taint{taint(t, "b:NoExecute"), at("a:NoExecute", then)},
		},
		{
			name:    "the taint next to a removed one keeps it",
			current: []corev1.Taint{at("a:NoExecute", then), at("b:NoExecute", now)},
			edit:    mustParseEdit(t, "a-"),
			want:    []corev1.Taint{at("b:NoExecute", now)},
		},
		{
			name:    "an overwritten taint loses it",
			current: []corev1.Taint{at("a=1:NoExecute", then)},
			edit:    mustParseEdit(t, "a=2:NoExecute"),
			want:    []corev1.Taint{taint(t, "a=2:NoExecute")},
		},
		{
			name:    "an added taint brings its own",
			current: []corev1.Taint{at("a=1:NoExecute", then)},
			edit:    taints.Edit{Add: []corev1.Taint{at("a=2:NoExecute", now)}},
			want:    []corev1.Taint{at("a=2:NoExecute", now)},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.edit.Apply(test.current, taints.OverwriteExisting)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyLeavesInputAndEditAlone(t *testing.T) {
	added := metav1.NewTime(time.Unix(1_700_000_000, 0))
	node := corev1.Node{Spec: corev1.NodeSpec{Taints: list(t, "a:NoSchedule b:NoExecute c:NoExecute")}}
	node.Spec.Taints[1].TimeAdded = &added
	edit := mustParseEdit(t, "d:NoExecute", "a-")
	edit.Add[0].TimeAdded = &added
	before, editBefore := node.DeepCopy(), mustParseEdit(t, "d:NoExecute", "a-")
	editBefore.Add[0].TimeAdded = added.DeepCopy()

	got, err := edit.Apply(node.Spec.Taints, taints.KeepExisting)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Value = "changed"
		if got[i].TimeAdded != nil {
			got[i].TimeAdded.Time = time.Time{}
		}
	}
	if diff := cmp.Diff(before.Spec.Taints, node.Spec.Taints); diff != "" {
		t.Errorf("the input changed with the result (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(editBefore, edit); diff != "" {
		t.Errorf("the edit changed with the result (-before +after):\n%s", diff)
	}
}

func TestApplyHandlesTaintsOfALaterKubernetes(t *testing.T) {
	current := append(list(t, "a:NoSchedule b:NoSchedule"), corev1.Taint{Key: "a", Effect: "NoAdmit"})
	t.Run("they stay when untouched", func(t *testing.T) {
		got, err := mustParseEdit(t, "b-").Apply(current, taints.KeepExisting)
		if err != nil {
			t.Fatal(err)
		}
		if want := "a:NoSchedule a:NoAdmit"; formatAll(got) != want {
			t.Errorf("%s, want %s", formatAll(got), want)
		}
	})
	t.Run("they go with their key", func(t *testing.T) {
		got, err := mustParseEdit(t, "a-").Apply(current, taints.KeepExisting)
		if err != nil {
			t.Fatal(err)
		}
		if want := "b:NoSchedule"; formatAll(got) != want {
			t.Errorf("%s, want %s", formatAll(got), want)
		}
	})
}
