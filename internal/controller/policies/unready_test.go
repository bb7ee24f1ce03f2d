// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

func TestAPodThatVanishesOrBecomesReadyDuringADecisionLeavesNoEntry(t *testing.T) {
	cache := map[types.UID]*podcache.Pod{}
	u := newUnready(fake.NewClientset(), &timeline.Clock{}, func(uid types.UID) (*podcache.Pod, bool) {
		pod, ok := cache[uid]
		return pod, ok
	})
	cache["stays"] = &podcache.Pod{UID: "stays"}
	cache["ready"] = &podcache.Pod{UID: "ready", Flags: podcache.Ready}
	for _, uid := range []types.UID{"gone", "ready", "stays"} {
		if since := u.of(&podcache.Pod{UID: uid}); !since.IsZero() {
			t.Errorf("pod %s has not been ready since %v, although it was not read", uid, since)
		}
	}
	if _, ok := u.since["stays"]; len(u.since) != 1 || !ok {
		t.Errorf("it remembers %v, want only the pod that stays", u.since)
	}
	if next := u.next(); next == nil || next.UID != "stays" || u.next() != nil {
		t.Errorf("it reads %v first, want only the pod that stays", next)
	}
}
