// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// command is one kubectl taint command and the node that it meets.
type command struct {
	Specs  []string
	Policy taints.Overwrite
	// Current is what the node has. Now and then the API server would not have accepted it.
	Current []corev1.Taint
}

// added is the timeAdded of a current taint that has one. JSON keeps whole seconds.
var added = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func generate(r *rand.Rand) command {
	return command{
		Specs:   seed.List(r, 5, spec),
		Policy:  seed.Pick(r, []taints.Overwrite{taints.KeepExisting, taints.OverwriteExisting}),
		Current: current(r),
	}
}

func current(r *rand.Rand) []corev1.Taint {
	all := seed.List(r, 6, currentTaint)
	if r.IntN(8) == 0 {
		return all
	}
	return unique(all)
}

func currentTaint(r *rand.Rand) corev1.Taint {
	taint := corev1.Taint{Key: seed.Pick(r, keys), Value: seed.Pick(r, values), Effect: corev1.TaintEffect(seed.Pick(r, effects))}
	if r.IntN(20) == 0 {
		taint.Effect = "NoScheduleNoAdmit" // Of a later Kubernetes.
	}
	if r.IntN(3) == 0 {
		taint.TimeAdded = &added
	}
	return taint
}

// smaller takes away a spec, the permission to overwrite, a current taint or its timeAdded, or a byte of a spec.
func smaller(c command) iter.Seq[command] {
	return func(yield func(command) bool) {
		for i := range c.Specs {
			if !yield(command{Specs: without(c.Specs, i), Policy: c.Policy, Current: c.Current}) {
				return
			}
		}
		if c.Policy != taints.KeepExisting && !yield(command{Specs: c.Specs, Current: c.Current}) {
			return
		}
		for current := range simplerTaints(c.Current) {
			if !yield(command{Specs: c.Specs, Policy: c.Policy, Current: current}) {
				return
			}
		}
		for specs := range shorterSpecs(c.Specs) {
			if !yield(command{Specs: specs, Policy: c.Policy, Current: c.Current}) {
				return
			}
		}
	}
}

func simplerTaints(list []corev1.Taint) iter.Seq[[]corev1.Taint] {
	return func(yield func([]corev1.Taint) bool) {
		for i := range list {
			if !yield(without(list, i)) {
				return
			}
		}
		for i, old := range list {
			simpler := corev1.Taint{Key: old.Key, Value: old.Value, Effect: old.Effect}
			if old.TimeAdded != nil && !yield(with(list, i, simpler)) {
				return
			}
		}
	}
}

func shorterSpecs(specs []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for i, old := range specs {
			for at := range len(old) {
				if !yield(with(specs, i, old[:at]+old[at+1:])) {
					return
				}
			}
		}
	}
}

func without[T any](list []T, i int) []T {
	return slices.Delete(slices.Clone(list), i, i+1)
}

func with[T any](list []T, i int, element T) []T {
	changed := slices.Clone(list)
	changed[i] = element
	return changed
}

// String gives the command in Go.
func (c command) String() string {
	policy := "taints.KeepExisting"
	if c.Policy == taints.OverwriteExisting {
		policy = "taints.OverwriteExisting"
	}
	var current []string
	for _, taint := range c.Current {
		current = append(current, literal(taint))
	}
	return fmt.Sprintf("command{Specs: %#v, Policy: %s, Current: []corev1.Taint{%s}}", c.Specs, policy, strings.Join(current, ", "))
}

func literal(taint corev1.Taint) string {
	fields := fmt.Sprintf("Key: %q, Value: %q, Effect: %q", taint.Key, taint.Value, taint.Effect)
	if taint.TimeAdded != nil {
		fields += ", TimeAdded: &added"
	}
	return "{" + fields + "}"
}
