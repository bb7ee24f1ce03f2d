// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// This file is kubectl's grammar (k8s.io/kubectl/pkg/cmd/taint): it accepts exactly what kubectl taint accepts.

// removalMark ends a spec that removes a taint.
const removalMark = "-"

const effectChoice = "NoSchedule, PreferNoSchedule or NoExecute"

// Removal names the taints that an edit removes: those with this key and this effect. An empty effect means every
// effect of the key. The value of a taint does not matter.
type Removal struct {
	Key    string
	Effect corev1.TaintEffect
}

// String returns the spec that [ParseRemoval] reads back: "key:Effect-", or "key-" for every effect.
func (r Removal) String() string {
	taint := corev1.Taint{Key: r.Key, Effect: r.Effect}
	return taint.ToString() + removalMark
}

// Matches reports whether the removal removes this taint.
func (r Removal) Matches(taint corev1.Taint) bool {
	return r.Key == taint.Key && (r.Effect == "" || r.Effect == taint.Effect)
}

// Parse reads one taint to add, as kubectl taint accepts it: "key=value:Effect", or "key:Effect" for an empty value.
// The key is a label key (up to 63 characters, with an optional DNS prefix and "/" before it) and the value a label
// value. TimeAdded is never set. The error names the part that is wrong and says what is allowed there.
func Parse(spec string) (corev1.Taint, error) {
	taint, err := parseAddition(spec)
	if err != nil {
		return corev1.Taint{}, fmt.Errorf("parse taint %q: %w", spec, err)
	}
	return taint, nil
}

// ParseRemoval reads one removal, as kubectl taint accepts it: "key:Effect-", or "key-" for every effect of the key.
// "key=value:Effect-" is read too: its value must be valid, and is then ignored.
func ParseRemoval(spec string) (Removal, error) {
	removal, err := parseRemoval(spec)
	if err != nil {
		return Removal{}, fmt.Errorf("parse removal %q: %w", spec, err)
	}
	return removal, nil
}

// Format returns the spec that [Parse] reads back as the same taint, except for TimeAdded: "key=value:Effect", or
// "key:Effect" when the value is empty. A taint that Parse would not accept is printed in the same way, unchecked.
func Format(t corev1.Taint) string {
	return t.ToString()
}

func isRemoval(spec string) bool {
	return strings.HasSuffix(spec, removalMark)
}

func parseAddition(spec string) (corev1.Taint, error) {
	if isRemoval(spec) {
		return corev1.Taint{}, errors.New(`it ends with "-", which asks for a removal: leave out the "-" to add the taint`)
	}
	taint, err := split(spec)
	if err != nil {
		return corev1.Taint{}, err
	}
	return taint, checkTaint(taint)
}

func parseRemoval(spec string) (Removal, error) {
	body, ok := strings.CutSuffix(spec, removalMark)
	if !ok {
		return Removal{}, errors.New(`it does not end with "-": write key:Effect-, or key- for every effect of the key`)
	}
	taint, err := split(body)
	if err != nil {
		return Removal{}, err
	}
	if err := checkValue(taint.Value); err != nil {
		return Removal{}, err
	}
	removal := Removal{Key: taint.Key, Effect: taint.Effect}
	return removal, checkRemoval(removal)
}

// split cuts "key", "key:Effect" or "key=value:Effect" into its parts and leaves them unchecked. The effect is empty
// only in the first form: "key:" is refused here, because it would become "key", which as a removal means every effect.
func split(spec string) (corev1.Taint, error) {
	body, effect, found := strings.Cut(spec, ":")
	switch {
	case !found && strings.Contains(spec, "="):
		return corev1.Taint{}, errors.New("it has a value but no effect: add :Effect after the value, where Effect is " + effectChoice)
	case !found:
		return corev1.Taint{Key: spec}, nil
	case strings.Contains(effect, ":"):
		return corev1.Taint{}, errors.New(`it has more than one ":": write a single one, between value and effect`)
	case effect == "":
		return corev1.Taint{}, errors.New(`nothing follows the ":": put an effect there, one of ` + effectChoice)
	}
	key, value, _ := strings.Cut(body, "=")
	if strings.Contains(value, "=") {
		return corev1.Taint{}, errors.New(`it has more than one "=": write a single one, between key and value`)
	}
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}

func checkTaint(taint corev1.Taint) error {
	if err := checkKey(taint.Key); err != nil {
		return err
	}
	if err := checkValue(taint.Value); err != nil {
		return err
	}
	return checkEffect(taint.Effect)
}

func checkRemoval(removal Removal) error {
	if err := checkKey(removal.Key); err != nil {
		return err
	}
	if removal.Effect == "" {
		return nil
	}
	return checkEffect(removal.Effect)
}

func checkKey(key string) error {
	if key == "" {
		return errors.New("it has no key: begin with one, such as example.com/maintenance")
	}
	if problems := content.IsLabelKey(key); len(problems) > 0 {
		return fmt.Errorf("key %q is not allowed: %s", key, strings.Join(problems, "; "))
	}
	return nil
}

func checkValue(value string) error {
	if problems := content.IsLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("value %q is not allowed: %s", value, strings.Join(problems, "; "))
	}
	return nil
}

func checkEffect(effect corev1.TaintEffect) error {
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	case "":
		return errors.New("it has no effect: add :Effect at the end, where Effect is " + effectChoice)
	default:
		return fmt.Errorf("there is no effect %q: use %s", effect, effectChoice)
	}
}
