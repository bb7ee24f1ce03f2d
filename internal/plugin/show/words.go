// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Instant formats an instant in a table: as the time of day if it is today, and in full if details are requested. It is
// empty if there is none.
func (p *Printer) Instant(now time.Time, instant *metav1.MicroTime) string {
	if instant == nil {
		return ""
	}
	now, at := now.UTC(), instant.UTC()
	switch {
	case p.detailed():
		return sentence.Absolute(at)
	case at.Truncate(24 * time.Hour).Equal(now.Truncate(24 * time.Hour)):
		return at.Format("15:04:05Z")
	}
	return at.Format("Jan 02 15:04Z")
}

// Toleration formats a toleration as the taints that it matches, and for how long.
func Toleration(t corev1.Toleration) string {
	what := t.Key
	switch {
	case t.Key == "":
		what = "everything"
	case t.Operator == "" || t.Operator == corev1.TolerationOpEqual:
		if t.Value != "" {
			what += "=" + t.Value
		}
	case t.Operator != corev1.TolerationOpExists:
		what += " " + string(t.Operator) + " " + t.Value
	default:
		what += "=*"
	}
	if t.Effect != "" {
		what += ":" + string(t.Effect)
	}
	return what + " " + TolerationSeconds(t)
}

// TolerationSeconds says for how long a toleration lets a pod stay.
func TolerationSeconds(t corev1.Toleration) string {
	if t.TolerationSeconds == nil {
		return "forever"
	}
	return fmt.Sprintf("for %ds", *t.TolerationSeconds)
}

// HeldBy says, for a cell, which EvictionPolicy keeps a due pod, why, and for how long if nothing but the time changes.
// It is empty if none does.
func HeldBy(now time.Time, answer *cliv1alpha1.PolicyAnswer) string {
	if answer.Stays() && answer.LeavesAt != nil {
		return answer.HeldBy() + " for " + sentence.Relative(now, answer.LeavesAt.Time)
	}
	return answer.HeldBy()
}

// EvictedBy is the sentence that follows an answer if kube-controller-manager evicts, because it has other rules.
func EvictedBy(by cliv1alpha1.Who, answer string) string {
	if by != cliv1alpha1.WhoBuiltIn {
		return answer
	}
	return answer + " kube-controller-manager evicts here, not Taintkeeper."
}

// FullName is the name of a pod in tables, and in a form that why accepts.
func FullName(namespace, name string) string { return namespace + "/" + name }

// PodName is a pod as -o name prints it, as an argument that kubectl accepts.
func PodName(namespace, name string) string { return fmt.Sprintf("pod/%s -n %s", name, namespace) }

// OwnerOf names the owner of a pod, for a cell.
func OwnerOf(owner *cliv1alpha1.Owner) string {
	if owner == nil {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

// PodsToGo counts pods that must leave, in the same words everywhere.
func PodsToGo(pods cliv1alpha1.PodsToGo, at time.Time) string {
	text := Numbers(
		Number{pods.Overdue, "overdue"}, Number{pods.Due - pods.Overdue, "due now"}, Number{pods.Held, "held"},
		Number{pods.Later, "due later"})
	if pods.Next != nil {
		in := sentence.Agree(pods.Later, "in ", "the next in ")
		text += fmt.Sprintf(" (%s%s)", in, sentence.Relative(at, pods.Next.Time))
	}
	return text
}

// Number is a number of things of a sort.
type Number struct {
	Of   int
	What string
}

// Numbers lists the numbers that are not 0.
func Numbers(all ...Number) string {
	var parts []string
	for _, one := range all {
		if one.Of > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.Of, one.What))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
