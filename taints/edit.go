// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// This file is what kubectl taint does to the taints of one node (k8s.io/kubectl/pkg/cmd/taint), order included.

// Overwrite says what happens when an edit adds a taint and the node already has one with the same key and effect.
type Overwrite int

const (
	// KeepExisting makes the edit fail, even when the two values are equal.
	KeepExisting Overwrite = iota
	// OverwriteExisting replaces the existing taint with that of the edit, as kubectl taint --overwrite does. The old
	// TimeAdded is lost, so the taint counts as new.
	OverwriteExisting
)

// Edit is one change to the taints of a node. The zero value changes nothing.
type Edit struct {
	// Add holds the taints to add, unique by key and effect. A TimeAdded set here ends up on the node.
	Add []corev1.Taint
	// Remove holds the removals, in order. None of them may match a taint in Add.
	Remove []Removal
}

// ExistsError reports an edit with [KeepExisting] that adds a taint although the node has one with its key and effect.
type ExistsError struct {
	// Existing is the taint on the node, Added the one in the edit.
	Existing, Added corev1.Taint
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("add taint %q: the node already has %q with the same key and effect: overwrite it (--overwrite) or leave it out",
		Format(e.Added), Format(e.Existing))
}

// NotFoundError reports an edit that removes a taint that does not exist, or that an earlier removal of the same edit
// has already removed.
type NotFoundError struct {
	Removal Removal
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("cannot remove taint %q: the node has no such taint; check the key and the effect",
		strings.TrimSuffix(e.Removal.String(), removalMark))
}

// ParseEdit reads the taint arguments of one kubectl taint command: specs with a trailing "-" remove (see
// [ParseRemoval]), all others add (see [Parse]). At least one is needed. Beyond the grammar it is an error to add two
// taints with the same key and effect, or to add and remove the same taint. All errors found are reported together.
//
// As with kubectl, naming a removal twice is no error here; [Edit.Apply] reports the second as not found.
func ParseEdit(specs ...string) (Edit, error) {
	if len(specs) == 0 {
		return Edit{}, errors.New("no taint is given: name at least one, as key=value:Effect to add it or as key:Effect- to remove it")
	}
	var edit Edit
	var errs []error
	for _, spec := range specs {
		var err error
		edit, err = edit.with(spec)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Edit{}, err
	}
	if err := edit.Validate(); err != nil {
		return Edit{}, err
	}
	return edit, nil
}

// with returns the edit with one more spec.
func (e Edit) with(spec string) (Edit, error) {
	if isRemoval(spec) {
		removal, err := ParseRemoval(spec)
		e.Remove = append(e.Remove, removal)
		return e, err
	}
	taint, err := Parse(spec)
	e.Add = append(e.Add, taint)
	return e, err
}

// String returns the edit as the arguments of a kubectl taint command, additions first, separated by spaces.
func (e Edit) String() string { return strings.Join(e.Specs(), " ") }

// Specs returns the edit as the arguments of a kubectl taint command, additions first.
func (e Edit) Specs() []string {
	specs := make([]string, 0, len(e.Add)+len(e.Remove))
	for _, taint := range e.Add {
		specs = append(specs, Format(taint))
	}
	for _, removal := range e.Remove {
		specs = append(specs, removal.String())
	}
	return specs
}

// Validate reports everything that would keep [ParseEdit] from returning the edit: parts outside the grammar, two
// additions with the same key and effect, a taint both added and removed. [Edit.Apply] calls it, so call it only to
// find errors earlier.
func (e Edit) Validate() error {
	return errors.Join(e.checkParts(), e.checkDuplicates(), e.checkConflicts())
}

func (e Edit) checkParts() error {
	var errs []error
	for _, taint := range e.Add {
		if err := checkTaint(taint); err != nil {
			errs = append(errs, fmt.Errorf("add taint %q: %w", Format(taint), err))
		}
	}
	for _, removal := range e.Remove {
		if err := checkRemoval(removal); err != nil {
			errs = append(errs, fmt.Errorf("remove taint %q: %w", removal, err))
		}
	}
	return errors.Join(errs...)
}

func (e Edit) checkDuplicates() error {
	var errs []error
	for i, taint := range e.Add {
		if first := indexOf(e.Add[:i], taint); first >= 0 {
			errs = append(errs, fmt.Errorf("add taint %q: %q has the same key and effect: keep only one of them",
				Format(taint), Format(e.Add[first])))
		}
	}
	return errors.Join(errs...)
}

func (e Edit) checkConflicts() error {
	var errs []error
	for _, taint := range e.Add {
		for _, removal := range e.Remove {
			if removal.Matches(taint) {
				errs = append(errs, fmt.Errorf("add taint %q: %q removes it in the same edit: keep only one of them",
					Format(taint), removal))
			}
		}
	}
	return errors.Join(errs...)
}

// Apply returns a node's current taints after the edit: first the added ones in the order of the edit, then the current
// ones that are neither overwritten nor removed, in their order and with their TimeAdded. It is nil when no taint is
// left. The result shares no memory with current or with the edit, and neither is modified.
//
// The error joins everything that is wrong: what [Edit.Validate] finds, or else an [ExistsError] for every taint that
// KeepExisting keeps from being added and a [NotFoundError] for every removal that removes nothing. In that case there
// is no result: an edit is applied as a whole or not at all.
func (e Edit) Apply(current []corev1.Taint, policy Overwrite) ([]corev1.Taint, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	result, notFound := e.remove(e.merge(current))
	if err := errors.Join(e.checkExisting(current, policy), notFound); err != nil {
		return nil, err
	}
	return result, nil
}

func (e Edit) checkExisting(current []corev1.Taint, policy Overwrite) error {
	if policy == OverwriteExisting {
		return nil
	}
	var errs []error
	for _, taint := range e.Add {
		if i := indexOf(current, taint); i >= 0 {
			errs = append(errs, &ExistsError{Existing: current[i], Added: taint})
		}
	}
	return errors.Join(errs...)
}

// merge puts the current taints that are not overwritten behind the added ones. Of current taints with the same key
// and effect, which the API server does not accept, the first is kept.
func (e Edit) merge(current []corev1.Taint) []corev1.Taint {
	var merged []corev1.Taint
	for _, taint := range slices.Concat(e.Add, current) {
		if indexOf(merged, taint) < 0 {
			merged = append(merged, *taint.DeepCopy())
		}
	}
	return merged
}

// remove applies the removals to taints, which it may modify, one after the other.
func (e Edit) remove(taints []corev1.Taint) ([]corev1.Taint, error) {
	var errs []error
	for _, removal := range e.Remove {
		left := slices.DeleteFunc(taints, removal.Matches)
		if len(left) == len(taints) {
			errs = append(errs, &NotFoundError{Removal: removal})
		}
		taints = left
	}
	if len(taints) == 0 {
		return nil, errors.Join(errs...)
	}
	return taints, errors.Join(errs...)
}

// indexOf finds the taint with the same key and effect, which is how the API server identifies taints; -1 if there is
// none.
func indexOf(taints []corev1.Taint, taint corev1.Taint) int {
	return slices.IndexFunc(taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) })
}
