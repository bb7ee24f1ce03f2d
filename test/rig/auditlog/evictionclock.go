// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The eviction clock of config/coexistence.yaml: an annotation of a ServiceAccount.
const (
	EvictionClockName       = "taintkeeper-eviction-clock"
	EvictionClockAnnotation = "taintkeeper.dev/renewed"
)

// The built-in taint-eviction-controller, as the API server knows it: with --use-service-account-credentials and
// without.
const (
	BuiltInAsServiceAccount = "system:serviceaccount:kube-system:node-controller"
	BuiltInAsItself         = "system:kube-controller-manager"
)

// ByBuiltIn reports whether the built-in taint-eviction-controller sent the call, if it is about a pod: no other
// controller of the same name marks or deletes one.
func (e Event) ByBuiltIn() bool {
	return e.User == BuiltInAsServiceAccount || e.User == BuiltInAsItself
}

const (
	// clockValidFor is how long a renewal keeps the built-in from evicting, as config/coexistence.yaml has it.
	clockValidFor = 30 * time.Second
	// clockSeenAfter is how long the admission policy may take to see a write of the clock.
	clockSeenAfter = time.Second
)

// EvictionClock is what was written into the eviction clock, in the order of time.
type EvictionClock []clockWrite

type clockWrite struct {
	received, answered time.Time
	renewed            time.Time // what was written; zero if the clock was removed
}

// EvictionClockOf returns the writes of the eviction clock among some calls. The audit policy's level must be
// RequestResponse for patches of ServiceAccounts.
func EvictionClockOf(calls []Event) (EvictionClock, error) {
	clock := EvictionClock{{}} // before the first write there is none
	for _, c := range calls {
		if !c.Accepted() || c.Verb != "patch" || c.Resource != "serviceaccounts" || c.Name != EvictionClockName {
			continue
		}
		var account metav1.PartialObjectMetadata
		if err := json.Unmarshal(c.Response, &account); err != nil {
			return nil, fmt.Errorf("parse a write of the eviction clock: %w", err)
		}
		write := clockWrite{received: c.Received, answered: c.Answered}
		if text, ok := account.Annotations[EvictionClockAnnotation]; ok {
			renewed, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return nil, fmt.Errorf("parse the eviction clock: %w", err)
			}
			write.renewed = renewed
		}
		clock = append(clock, write)
	}
	slices.SortStableFunc(clock, func(a, b clockWrite) int {
		return cmp.Or(a.received.Compare(b.received), a.answered.Compare(b.answered))
	})
	return clock, nil
}

// Fresh reports whether the clock was certainly fresh for a request that the API server received and answered at two
// instants, whichever write the policy used. A renewal in the future counts from when it was written.
func (c EvictionClock) Fresh(received, answered time.Time) bool {
	found := false
	for i, write := range c {
		if write.received.After(answered) || c.supersededBy(i, received.Add(-clockSeenAfter)) {
			continue
		}
		if !write.freshAt(answered) {
			return false
		}
		found = true
	}
	return found
}

// supersededBy reports whether there was a later write by an instant.
func (c EvictionClock) supersededBy(i int, instant time.Time) bool {
	return slices.ContainsFunc(c[i+1:], func(later clockWrite) bool { return !later.answered.After(instant) })
}

// freshAt uses whole seconds, as the times that the policy compares do.
func (w clockWrite) freshAt(instant time.Time) bool {
	if w.renewed.IsZero() {
		return false
	}
	from := w.renewed
	if from.After(w.answered) {
		from = w.answered
	}
	return !instant.Truncate(time.Second).After(from.Add(clockValidFor))
}
