// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// The editors below are wrong in one respect each.

type appendsAtTheEnd struct{ ours }

func (w appendsAtTheEnd) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	result, err := w.ours.Apply(edit, current, policy)
	if err != nil {
		return nil, err
	}
	added := len(edit.Add)
	return slices.Concat(result[added:], result[:added]), nil
}

type keepsTimeAdded struct{ ours }

func (w keepsTimeAdded) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	result, err := w.ours.Apply(edit, current, policy)
	for i, taint := range result {
		if old := slices.IndexFunc(current, func(old corev1.Taint) bool { return old.MatchTaint(&taint) }); old >= 0 {
			result[i].TimeAdded = current[old].TimeAdded
		}
	}
	return result, err
}

type overwritesEqualValues struct{ ours }

func (w overwritesEqualValues) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	same := func(taint corev1.Taint) bool { return slices.Contains(current, taint) }
	if slices.ContainsFunc(edit.Add, same) {
		policy = taints.OverwriteExisting
	}
	return w.ours.Apply(edit, current, policy)
}

type removesTwice struct{ ours }

func (w removesTwice) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	edit.Remove = slices.Compact(slices.Clone(edit.Remove))
	return w.ours.Apply(edit, current, policy)
}

type trimsBlanks struct{ ours }

func (w trimsBlanks) ParseEdit(specs ...string) (taints.Edit, error) {
	var trimmed []string
	for _, spec := range specs {
		trimmed = append(trimmed, strings.TrimSpace(spec))
	}
	return w.ours.ParseEdit(trimmed...)
}

type takesTwoDashesForOne struct{ ours }

func (w takesTwoDashesForOne) ParseEdit(specs ...string) (taints.Edit, error) {
	var read []string
	for _, spec := range specs {
		read = append(read, strings.Replace(spec, "--", "-", 1))
	}
	return w.ours.ParseEdit(read...)
}

type addsWhatIsThere struct{ ours }

func (w addsWhatIsThere) Apply(edit taints.Edit, current []corev1.Taint, _ taints.Overwrite) ([]corev1.Taint, error) {
	result, err := w.ours.Apply(edit, nil, taints.KeepExisting)
	return slices.Concat(result, current), err
}

func TestAWrongEditorIsFoundAndItsInputMadeSmall(t *testing.T) {
	tests := []struct {
		name  string
		wrong editor
		// What the smallest command has, and what the node has then.
		specs, current int
	}{
		{"additions go to the end", appendsAtTheEnd{}, 1, 1},
		{"an overwritten taint keeps its timeAdded", keepsTimeAdded{}, 1, 1},
		{"an equal value may be overwritten", overwritesEqualValues{}, 1, 1},
		{"a removal may come twice", removesTwice{}, 2, 1},
		{"blanks around a spec are trimmed", trimsBlanks{}, 1, 0},
		{"two dashes are one", takesTwoDashesForOne{}, 1, 0},
	}
	c := &comparison{kubectl: newKubectl(t)}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.ours = test.wrong
			found := c.property().Search(1, 5000)
			if found == nil {
				t.Fatal("not found")
			}
			if len(found.Smallest.Specs) != test.specs || len(found.Smallest.Current) != test.current {
				t.Errorf("not the smallest command that shows it: %s", found.Smallest)
			}
			t.Logf("input %d shows it: %s: %v", found.Index, found.Smallest, found.Err)
		})
	}
}

func TestAWrongParserIsFound(t *testing.T) {
	for name, wrong := range map[string]editor{"blanks": trimsBlanks{}, "dashes": takesTwoDashesForOne{}} {
		t.Run(name, func(t *testing.T) {
			c := &comparison{ours: wrong}
			if c.parsing().Search(1, 5000) == nil {
				t.Error("not found")
			}
		})
	}
}

func TestAResultThatTheAPIServerRefusesIsFound(t *testing.T) {
	c := &comparison{ours: addsWhatIsThere{}}
	if c.results().Search(1, 5000) == nil {
		t.Error("not found")
	}
}

func TestTheGeneratedCommandsReachEveryOutcome(t *testing.T) {
	c := &comparison{ours: ours{}}
	reached := map[step]int{}
	overwritten := 0
	for i := range 5000 {
		in := generate(rand.New(rand.NewPCG(1, uint64(i))))
		outcome := c.outcome(in)
		reached[outcome.Step]++
		if outcome.Step == done && len(in.Specs) > 1 && in.Policy == taints.OverwriteExisting && len(in.Current) > 1 {
			overwritten++
		}
	}
	for _, step := range []step{done, refusedUnseen, refusedExisting, refusedMissing} {
		if reached[step] < 200 {
			t.Errorf("%d commands only are %s", reached[step], step)
		}
	}
	if overwritten < 50 {
		t.Errorf("%d commands only overwrite among several taints", overwritten)
	}
}

func TestTheOddPartsLieOnBothSidesOfTheBorder(t *testing.T) {
	tests := []struct {
		name          string
		parts         []string
		before, after string
	}{
		{"keys", oddKeys, "", ":NoExecute"},
		{"values", oddValues, "a=", ":NoExecute"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			accepted := 0
			for _, part := range test.parts {
				if _, err := taints.Parse(test.before + part + test.after); err == nil {
					accepted++
				}
			}
			if accepted < 3 || accepted > len(test.parts)-3 {
				t.Errorf("%d of %d are accepted", accepted, len(test.parts))
			}
		})
	}
}
