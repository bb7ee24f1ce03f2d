// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	upstream "k8s.io/kubernetes/pkg/util/taints"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// editor is what is compared with upstream: package taints, or something that is wrong on purpose, to test the
// comparison.
type editor interface {
	ParseEdit(specs ...string) (taints.Edit, error)
	Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error)
}

// ours is package taints.
type ours struct{}

func (ours) ParseEdit(specs ...string) (taints.Edit, error) { return taints.ParseEdit(specs...) }

func (ours) Apply(edit taints.Edit, current []corev1.Taint, policy taints.Overwrite) ([]corev1.Taint, error) {
	return edit.Apply(current, policy)
}

type comparison struct {
	ours    editor
	kubectl *kubectl
	// nodeNames counts the commands that differ because of what namesAnotherNode says.
	nodeNames int
}

func (c *comparison) property() seed.Property[command] {
	return seed.Property[command]{Usual: 10000, Generate: generate, Check: c.check}
}

func TestACommandEndsAsWithKubectl(t *testing.T) {
	c := &comparison{ours: ours{}, kubectl: newKubectl(t)}
	c.property().Hold(t)
	t.Logf("known difference, kubectl takes the first argument for the name of another node: %d", c.nodeNames)
}

func TestArgumentsAreReadAsByKubernetes(t *testing.T) {
	(&comparison{ours: ours{}}).parsing().Hold(t)
}

func (c *comparison) check(in command) error {
	ours := c.outcome(in)
	if namesAnotherNode(in.Specs) {
		c.nodeNames++
		return mustBeUnseen(ours)
	}
	theirs, err := c.kubectl.run(in)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(theirs, ours, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(outcome{})); diff != "" {
		return fmt.Errorf("the outcome (-kubectl +ours):\n%skubectl says: %s\nours says: %s", diff, theirs.message, ours.message)
	}
	return nil
}

// namesAnotherNode reports whether kubectl takes the first of the arguments, which has neither "=" nor ":" nor a "-" at
// its end while another one has, for one more node to change. Package taints is given taints only, and refuses it.
func namesAnotherNode(specs []string) bool {
	return slices.ContainsFunc(specs, looksLikeATaint) && !looksLikeATaint(specs[0])
}

func mustBeUnseen(ours outcome) error {
	if ours.Step != refusedUnseen {
		return fmt.Errorf("the name of a node is treated as a taint: %s", ours.Step)
	}
	return nil
}

func looksLikeATaint(argument string) bool {
	return strings.ContainsAny(argument, "=:") || strings.HasSuffix(argument, "-")
}

func (c *comparison) outcome(in command) outcome {
	edit, err := c.ours.ParseEdit(in.Specs...)
	if err != nil {
		return outcome{Step: refusedUnseen, message: err.Error()}
	}
	result, err := c.ours.Apply(edit, in.Current, in.Policy)
	if err != nil {
		return outcome{Step: stepOf(err), message: err.Error()}
	}
	return outcome{Step: done, Taints: result}
}

// stepOf: kubectl looks for taints that are there first and says nothing about others that are not.
func stepOf(err error) step {
	if _, ok := errors.AsType[*taints.ExistsError](err); ok {
		return refusedExisting
	}
	if _, ok := errors.AsType[*taints.NotFoundError](err); ok {
		return refusedMissing
	}
	return step("refused by Apply for another reason")
}

func (c *comparison) parsing() seed.Property[command] {
	return seed.Property[command]{Usual: 50000, Generate: generate, Check: c.checkParsing}
}

// checkParsing compares the parsing of arguments, including those that never get past kubectl's own sorting, with
// Kubernetes' parser. That parser accepts arguments that contradict each other, and also no arguments at all.
func (c *comparison) checkParsing(in command) error {
	edit, err := c.ours.ParseEdit(in.Specs...)
	add, remove, theirErr := upstream.ParseTaints(in.Specs)
	wantErr := theirErr != nil || len(in.Specs) == 0 || contradict(add, remove)
	switch {
	case wantErr != (err != nil):
		return fmt.Errorf("%q: ours: %s; upstream: %s; they contradict each other: %t", in.Specs, says(err), says(theirErr), contradict(add, remove))
	case wantErr:
		return nil
	}
	theirs := taints.Edit{Add: add}
	for _, taint := range remove {
		theirs.Remove = append(theirs.Remove, taints.Removal{Key: taint.Key, Effect: taint.Effect})
	}
	if diff := cmp.Diff(theirs, edit); diff != "" {
		return fmt.Errorf("%q is read as (-upstream +ours):\n%s", in.Specs, diff)
	}
	return nil
}

// says gives a verdict in words.
func says(err error) string {
	if err == nil {
		return "accepted"
	}
	return err.Error()
}

func contradict(add, remove []corev1.Taint) bool {
	removed := map[[2]string]bool{}
	for _, taint := range remove {
		removed[[2]string{taint.Key, string(taint.Effect)}] = true
	}
	for _, taint := range add {
		if removed[[2]string{taint.Key, ""}] || removed[[2]string{taint.Key, string(taint.Effect)}] {
			return true
		}
	}
	return false
}

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
	return seed.Property[command]{Usual: 50000, Generate: generate, Check: c.checkResult}
}

func TestTaintsToAddAreValidWhereTheAPIServerAcceptsThem(t *testing.T) {
	seed.Property[command]{Usual: 50000, Generate: oddTaints, Check: checkValidate}.Hold(t)
}

func TestTheResultOfAnEditIsOneThatTheAPIServerAccepts(t *testing.T) {
	(&comparison{ours: ours{}}).results().Hold(t)
}
