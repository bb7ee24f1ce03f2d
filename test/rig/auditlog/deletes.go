// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// CheckDeletes checks what must be true of every delete of a pod by Taintkeeper: it is for a UID, and no pod is deleted
// twice. A delete that was refused because a right is missing was refused before its body was read.
func CheckDeletes(t testing.TB, calls []Event) {
	t.Helper()
	done := map[types.UID]Event{}
	for _, c := range Choose(calls, Deletes) {
		if c.Code == http.StatusForbidden {
			continue
		}
		if c.UID == "" {
			t.Errorf("a delete without a UID: %v", c)
		}
		before, twice := done[c.UID]
		if twice && c.Accepted() {
			t.Errorf("deleted twice:\n%v\n%v", before, c)
		}
		if c.Accepted() {
			done[c.UID] = c
		}
	}
}
