// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// wrong is an editor that is wrong in one respect.
type wrong struct {
	parse func(spec string) string
	apply func(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error)
}

func (w wrong) ParseEdit(specs ...string) (taints.Edit, error) {
	var read []string
	for _, spec := range specs {
		if w.parse != nil {
			spec = w.parse(spec)
		}
		read = append(read, spec)
	}
	return taints.ParseEdit(read...)
}

func (w wrong) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	if w.apply != nil {
		return w.apply(edit, current, policy)
	}
	return edit.Apply(current, policy)
}

func appendsAtTheEnd(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	result, err := edit.Apply(current, policy)
	if err != nil {
		return nil, err
	}
	return slices.Concat(result[len(edit.Add):], result[:len(edit.Add)]), nil
}

func keepsTimeAdded(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	result, err := edit.Apply(current, policy)
	for i, taint := range result {
		if old := slices.IndexFunc(current, func(old corev1.Taint) bool { return old.MatchTaint(&taint) }); old >= 0 {
			result[i].TimeAdded = current[old].TimeAdded
		}
	}
	return result, err
}

func overwritesEqualValues(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	if slices.ContainsFunc(edit.Add, func(taint corev1.Taint) bool { return slices.Contains(current, taint) }) {
		policy = taints.OverwriteExisting
	}
	return edit.Apply(current, policy)
}

func removesTwice(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	edit.Remove = slices.Compact(slices.Clone(edit.Remove))
	return edit.Apply(current, policy)
}

func addsWhatIsThere(edit taints.Edit, current []corev1.Taint, _ taints.Overwrite) ([]corev1.Taint, error) {
	result, err := edit.Apply(nil, taints.KeepExisting)
	return slices.Concat(result, current), err
}

func takesTwoDashesForOne(spec string) string { return strings.Replace(spec, "--", "-", 1) }

func TestAWrongEditorIsFoundAndItsInputMadeSmall(t *testing.T) {
	c := &comparison{kubectl: newKubectl(t)}
	for name, test := range map[string]struct {
		wrong wrong
		// What the smallest command has, and what the node has then.
		specs, current int
	}{
		"additions go to the end":              {wrong{apply: appendsAtTheEnd}, 1, 1},
		"an overwritten taint keeps timeAdded": {wrong{apply: keepsTimeAdded}, 1, 1},
		"an equal value may be overwritten":    {wrong{apply: overwritesEqualValues}, 1, 1},
		"a removal may come twice":             {wrong{apply: removesTwice}, 2, 1},
		"blanks around a spec are trimmed":     {wrong{parse: strings.TrimSpace}, 1, 0},
		"two dashes are one":                   {wrong{parse: takesTwoDashesForOne}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.ours = test.wrong
			smallest := c.property().MustFind(t, 5000).Smallest
			if len(smallest.Specs) != test.specs || len(smallest.Current) != test.current {
				t.Errorf("not the smallest command that shows it: %s", smallest)
			}
			if test.wrong.parse != nil {
				c.parsing().MustFind(t, 5000)
			}
		})
	}
	t.Run("the API server refuses the result", func(t *testing.T) {
		c.ours = wrong{apply: addsWhatIsThere}
		c.results().MustFind(t, 5000)
	})
}
