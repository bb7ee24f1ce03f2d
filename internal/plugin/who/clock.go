// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package who

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// ClockOf says what an eviction clock shows at an instant.
func ClockOf(account *corev1.ServiceAccount, at time.Time) *cliv1alpha1.EvictionClockStatus {
	clock := &cliv1alpha1.EvictionClockStatus{
		State: cliv1alpha1.ClockNotSet, ServiceAccount: account.Namespace + "/" + account.Name,
	}
	renewed, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.EvictionClockAnnotation])
	if err != nil {
		return clock
	}
	clock.State, clock.Renewed = cliv1alpha1.ClockStale, new(metav1.NewTime(renewed))
	if at.Sub(renewed).Abs() <= v1alpha1.EvictionClockValidFor {
		clock.State = cliv1alpha1.ClockFresh
	}
	return clock
}

// BacklogOf returns what the built-in must still do at an instant, according to an eviction clock. It is nil if that
// is nothing.
func BacklogOf(account *corev1.ServiceAccount, at time.Time) *cliv1alpha1.BuiltInBacklog {
	until, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.BacklogUntilAnnotation])
	if err != nil || !until.After(at) {
		return nil
	}
	backlog := &cliv1alpha1.BuiltInBacklog{Until: metav1.NewTime(until)}
	spared := strings.Fields(account.Annotations[v1alpha1.BacklogSparedAnnotation])
	if slices.Equal(spared, []string{"*"}) {
		backlog.AllSpared = true
	} else {
		backlog.SparedNodes = spared
	}
	return backlog
}

// SparedBy says which nodes a backlog spares.
func SparedBy(backlog *cliv1alpha1.BuiltInBacklog) string {
	switch {
	case backlog.AllSpared:
		return "all nodes are spared"
	case len(backlog.SparedNodes) == 0:
		return "no node is spared"
	}
	return "spared nodes: " + sentence.Enumerate(backlog.SparedNodes)
}
