// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// validate is what the API server says about a node that is given these taints.
func validate(list []corev1.Taint) error {
	old := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, ResourceVersion: "1"}}
	changed := old.DeepCopy()
	for _, taint := range list {
		changed.Spec.Taints = append(changed.Spec.Taints, core.Taint{
			Key: taint.Key, Value: taint.Value, Effect: core.TaintEffect(taint.Effect), TimeAdded: taint.TimeAdded,
		})
	}
	return validation.ValidateNodeUpdate(changed, old).ToAggregate()
}

// oddTaints makes taints as a program could, bypassing the grammar.
func oddTaints(r *rand.Rand) command {
	return command{Current: seed.List(r, 4, func(r *rand.Rand) corev1.Taint {
		return corev1.Taint{
			Key:    sometimesOdd(r, keys, oddKeys),
			Value:  sometimesOdd(r, values, oddValues),
			Effect: corev1.TaintEffect(sometimesOdd(r, effects, oddEffects)),
		}
	})}
}

func sometimesOdd(r *rand.Rand, usual, odd []string) string {
	if r.IntN(6) == 0 {
		return seed.Pick(r, odd)
	}
	return seed.Pick(r, usual)
}

// checkValidate compares an edit that adds the taints with the API server's validation of a node that has them.
func checkValidate(in command) error {
	ours := taints.Edit{Add: in.Current}.Validate()
	theirs := validate(in.Current)
	if (ours == nil) != (theirs == nil) {
		return fmt.Errorf("ours: %s; the API server: %s", says(ours), says(theirs))
	}
	return nil
}

// checkResult: what an edit makes of taints that the API server accepts, it accepts as well.
func (c *comparison) checkResult(in command) error {
	result := c.outcome(in).Taints
	err := validate(result)
	if err != nil && validate(in.Current) == nil {
		return fmt.Errorf("the API server refuses the result %s: %w", taints.Edit{Add: result}, err)
	}
	return nil
}

func (c *comparison) results() seed.Property[command] {
	return seed.Property[command]{Usual: 50000, Generate: generate, Smaller: smaller, Check: c.checkResult}
}

func TestTaintsToAddAreValidWhereTheAPIServerAcceptsThem(t *testing.T) {
	seed.Property[command]{Usual: 50000, Generate: oddTaints, Smaller: smaller, Check: checkValidate}.Hold(t)
}

func TestTheResultOfAnEditIsOneThatTheAPIServerAccepts(t *testing.T) {
	(&comparison{ours: ours{}}).results().Hold(t)
}
