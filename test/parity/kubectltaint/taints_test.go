// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/kubernetes/pkg/util/taints"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

func specs(r *rand.Rand) []string { return seed.List(r, 5, spec) }

// reading is the property that a parser reads arguments as Kubernetes does, including those that never get past
// kubectl's own sorting. Kubernetes' parser accepts arguments that contradict each other, and also no arguments at all.
func reading(parse func(...string) (taints.Edit, error)) seed.Property[[]string] {
	return seed.Property[[]string]{Usual: 50000, Generate: specs, Check: func(specs []string) error {
		edit, err := parse(specs...)
		add, remove, theirErr := upstream.ParseTaints(specs)
		theirs := taints.Edit{Add: add}
		contradict := false
		for _, taint := range remove {
			removal := taints.Removal{Key: taint.Key, Effect: taint.Effect}
			theirs.Remove = append(theirs.Remove, removal)
			for _, added := range add {
				contradict = contradict || removal.Key == added.Key && (removal.Effect == "" || removal.Effect == added.Effect)
			}
		}
		wantErr := theirErr != nil || len(specs) == 0 || contradict
		switch {
		case wantErr != (err != nil):
			return fmt.Errorf("%q: ours: %w; upstream: %w; they contradict each other: %t", specs, err, theirErr, contradict)
		case wantErr:
			return nil
		}
		if diff := cmp.Diff(theirs, edit); diff != "" {
			return fmt.Errorf("%q is read as (-upstream +ours):\n%s", specs, diff)
		}
		return nil
	}}
}

func TestArgumentsAreReadAsByKubernetes(t *testing.T) { reading(taints.ParseEdit).Hold(t) }

func TestAParserThatTrimsBlanksIsFound(t *testing.T) {
	smallest, _ := reading(func(specs ...string) (taints.Edit, error) {
		var trimmed []string
		for _, spec := range specs {
			trimmed = append(trimmed, strings.TrimSpace(spec))
		}
		return taints.ParseEdit(trimmed...)
	}).MustFind(t, 5000)
	if len(smallest) != 1 {
		t.Errorf("%q is not the smallest input that shows it", smallest)
	}
}

// The taints are made as a program could make them, bypassing the grammar.
func TestTaintsToAddAreValidWhereTheAPIServerAcceptsThem(t *testing.T) {
	seed.Property[[]corev1.Taint]{
		Usual: 50000,
		Generate: func(r *rand.Rand) []corev1.Taint {
			return seed.List(r, 4, func(r *rand.Rand) corev1.Taint {
				return corev1.Taint{
					Key: oddOr(r, 6, keys, oddKeys), Value: oddOr(r, 6, values, oddValues),
					Effect: corev1.TaintEffect(oddOr(r, 6, effects, oddEffects)),
				}
			})
		},
		Check: func(all []corev1.Taint) error {
			ours, theirs := taints.Edit{Add: all}.Validate(), validate(all)
			if (ours == nil) != (theirs == nil) {
				return fmt.Errorf("ours: %w; the API server: %w", ours, theirs)
			}
			return nil
		},
	}.Hold(t)
}
