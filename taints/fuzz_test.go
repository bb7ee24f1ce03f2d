// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		"a=1:NoSchedule", "a:PreferNoSchedule", "a=:NoExecute", "example.com/a=1:NoExecute",
		"a-", "a:NoExecute-", "a=1:NoExecute-", "a--", "-", ":", "=", "", " ", "a:b:c", "a=b=c:NoExecute", "a=b", "a:-",
		"schlüssel=wért:NoSchedule", "a\xff:NoSchedule", strings.Repeat("k", 64) + ":NoSchedule",
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		taint, addErr := taints.Parse(spec)
		removal, removeErr := taints.ParseRemoval(spec)
		edit, editErr := taints.ParseEdit(spec)
		if addErr == nil && removeErr == nil {
			t.Fatalf("%q is both an addition and a removal", spec)
		}
		if valid := addErr == nil || removeErr == nil; valid != (editErr == nil) {
			t.Fatalf("%q: ParseEdit says %v, Parse %v, ParseRemoval %v", spec, editErr, addErr, removeErr)
		}
		if addErr == nil {
			checkAddition(t, taint, edit)
		}
		if removeErr == nil {
			checkRemovalOf(t, removal, edit)
		}
	})
}

// checkAddition: what Parse accepted reads back as itself, and means the same in an edit.
func checkAddition(t *testing.T, taint corev1.Taint, edit taints.Edit) {
	t.Helper()
	again, err := taints.Parse(taints.Format(taint))
	if err != nil {
		t.Fatalf("%#v does not read back: %v", taint, err)
	}
	if diff := cmp.Diff(taint, again); diff != "" {
		t.Errorf("reads back as another taint (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(taints.Edit{Add: []corev1.Taint{taint}}, edit); diff != "" {
		t.Errorf("ParseEdit reads it in another way (-want +got):\n%s", diff)
	}
}

// checkRemovalOf: what ParseRemoval accepted reads back as itself, and means the same in an edit.
func checkRemovalOf(t *testing.T, removal taints.Removal, edit taints.Edit) {
	t.Helper()
	again, err := taints.ParseRemoval(removal.String())
	if err != nil {
		t.Fatalf("%#v does not read back: %v", removal, err)
	}
	if removal != again {
		t.Errorf("%#v reads back as %#v", removal, again)
	}
	if diff := cmp.Diff(taints.Edit{Remove: []taints.Removal{removal}}, edit); diff != "" {
		t.Errorf("ParseEdit reads it in another way (-want +got):\n%s", diff)
	}
}

// FuzzApply takes one byte for each taint and each removal, from so small a choice that they collide all the time.
func FuzzApply(f *testing.F) {
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add([]byte{0}, []byte{}, []byte{0})                             // remove what is there
	f.Add([]byte{}, []byte{}, []byte{0})                              // remove what is not
	f.Add([]byte{0}, []byte{16}, []byte{})                            // the same key and effect with another value
	f.Add([]byte{0, 1, 2, 4}, []byte{5, 8}, []byte{3})                // add two, remove every effect of a key
	f.Add([]byte{0, 1, 2}, []byte{}, []byte{0, 0, 3, 3})              // remove twice
	f.Add([]byte{0, 0, 16}, []byte{4}, []byte{})                      // a node with duplicates
	f.Add([]byte{}, []byte{0, 16}, []byte{})                          // an edit with duplicates
	f.Add([]byte{1}, []byte{0}, []byte{3})                            // added and removed
	f.Add([]byte{0, 4, 8, 12}, []byte{1, 5, 9, 13}, []byte{4, 8, 12}) // many
	f.Fuzz(func(t *testing.T, currentBytes, addBytes, removeBytes []byte) {
		current := taintsOf(currentBytes)
		edit := taints.Edit{Add: taintsOf(addBytes), Remove: removalsOf(removeBytes)}
		before := slices.Clone(current)

		kept, keepErr := edit.Apply(current, taints.KeepExisting)
		overwritten, overwriteErr := edit.Apply(current, taints.OverwriteExisting)

		if diff := cmp.Diff(before, current); diff != "" {
			t.Errorf("the input changed (-before +after):\n%s", diff)
		}
		if keepErr == nil {
			checkKept(t, edit, current, kept)
			if diff := cmp.Diff(kept, overwritten); diff != "" || overwriteErr != nil {
				t.Errorf("what needs no overwriting turns out differently with it: %v (-without +with):\n%s", overwriteErr, diff)
			}
		}
		if overwriteErr == nil {
			checkResult(t, edit, current, overwritten)
		}
	})
}

// checkKept: none of the added taints was there before, and removing them again gives back what was there, less what
// the edit removed.
func checkKept(t *testing.T, edit taints.Edit, current, result []corev1.Taint) {
	t.Helper()
	var undo taints.Edit
	for _, added := range edit.Add {
		if contains(current, added) {
			t.Errorf("%s was there and was kept, without an error", taints.Format(added))
		}
		undo.Remove = append(undo.Remove, taints.Removal{Key: added.Key, Effect: added.Effect})
	}
	got, err := undo.Apply(result, taints.KeepExisting)
	if err != nil {
		t.Fatalf("remove what was added: %v", err)
	}
	want, err := taints.Edit{Remove: edit.Remove}.Apply(current, taints.KeepExisting)
	if err != nil {
		t.Fatalf("remove without adding: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("adding and removing leaves a trace (-want +got):\n%s", diff)
	}
}

// checkResult states what the result is without saying how to get there: unique taints, the added ones first, then
// every current one that is neither overwritten nor removed.
func checkResult(t *testing.T, edit taints.Edit, current, result []corev1.Taint) {
	t.Helper()
	for i, taint := range result {
		if contains(result[:i], taint) {
			t.Errorf("%s is there twice: %s", taints.Format(taint), formatAll(result))
		}
	}
	if len(result) < len(edit.Add) {
		t.Fatalf("%d taints after adding %d", len(result), len(edit.Add))
	}
	added, rest := result[:len(edit.Add)], result[len(edit.Add):]
	if diff := cmp.Diff(edit.Add, added, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the added taints do not come first (-want +got):\n%s", diff)
	}
	for _, taint := range current {
		gone := contains(edit.Add, taint) || removes(edit.Remove, taint)
		if gone == contains(rest, taint) {
			t.Errorf("%s: overwritten or removed is %t, still there is %t", taints.Format(taint), gone, !gone)
		}
	}
}

func contains(all []corev1.Taint, taint corev1.Taint) bool {
	return slices.ContainsFunc(all, func(other corev1.Taint) bool {
		return other.Key == taint.Key && other.Effect == taint.Effect
	})
}

func removes(all []taints.Removal, taint corev1.Taint) bool {
	return slices.ContainsFunc(all, func(removal taints.Removal) bool { return removal.Matches(taint) })
}

var (
	fuzzKeys    = []string{"a", "b", "c", "example.com/a"}
	fuzzValues  = []string{"", "1", "2", "x"}
	fuzzEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute, ""}
)

// taintsOf reads bits 0 and 1 of each byte as the effect, 2 and 3 as the key, 4 and 5 as the value.
func taintsOf(data []byte) []corev1.Taint {
	var all []corev1.Taint
	for _, b := range data {
		all = append(all, corev1.Taint{
			Key:    fuzzKeys[b>>2&3],
			Value:  fuzzValues[b>>4&3],
			Effect: fuzzEffects[(b&3)%3], // A taint always has an effect.
		})
	}
	return all
}

// removalsOf reads bytes as taintsOf does, save that an effect of 3 stands for every effect.
func removalsOf(data []byte) []taints.Removal {
	var all []taints.Removal
	for _, b := range data {
		all = append(all, taints.Removal{Key: fuzzKeys[b>>2&3], Effect: fuzzEffects[b&3]})
	}
	return all
}
