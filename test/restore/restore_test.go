// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const key = "gone"

// How long the pods that tolerate the taint do so.
const (
	shortWhile = 5 * time.Second
	longWhile  = 15 * time.Second
)

// TestEvictionsFollowTheRestoredState takes a snapshot, lets Taintkeeper evict, and restores the snapshot. From then on
// evictions follow what the snapshot says, not what Taintkeeper remembers.
func TestEvictionsFollowTheRestoredState(t *testing.T) {
	bump := []string{"--bump-revision=1000000000", "--mark-compacted"}
	tests := []struct {
		name      string
		flags     []string // of etcdutl snapshot restore
		meanwhile outage
	}{
		{"the revisions go back", nil, (*scene).throughout},
		// It opens its watches again once the API server is ready. A moment earlier the API server can refuse them, and
		// then client-go lists anyway.
		{"the revisions go back while Taintkeeper stands still", nil, (*scene).standingStill},
		{"the revisions are bumped", bump, (*scene).throughout},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t)
			tainted, later, untainted := s.node(t, "tainted"), s.node(t, "tainted-later"), s.node(t, "untainted")
			removed, terminating := s.pod(t, "removed", tainted), s.pod(t, "terminating", tainted)
			counting := s.pod(t, "counting", tainted, rig.Tolerating(key, int64(longWhile.Seconds())))
			spared := s.pod(t, "spared", later)
			patient := s.pod(t, "patient", later, rig.Tolerating(key, int64(shortWhile.Seconds())))
			bystander := s.pod(t, "bystander", untainted)

			// The snapshot has this taint with its timeAdded, and no pod that has left.
			came := s.taint(t, tainted, &metav1.Time{Time: time.Now().Truncate(time.Second)})
			snapshot := s.backUp(t)

			s.keep(t)
			s.leaves(t, removed, s.made, came.From)
			s.leaves(t, terminating, s.made, came.From)
			s.remove(t, removed)
			cameLater := s.taint(t, later, nil)
			s.leaves(t, spared, s.made, cameLater.From)
			s.writeMuch(t)

			var restored time.Time
			test.meanwhile(s, t, func() { restored = s.restore(t, snapshot, test.flags...) })

			// The snapshot has both pods, without a deletionTimestamp.
			s.leaves(t, removed, restored, came.From)
			s.leaves(t, terminating, restored, came.From)
			// The taint has been there all the time.
			s.leaves(t, counting, restored, came.From.Add(longWhile))
			s.notBefore(t, counting, s.made, came.From.Add(longWhile))
			// Taintkeeper sees what is new.
			fresh := s.pod(t, "fresh", tainted)
			s.leaves(t, fresh, restored, restored)
			// The snapshot does not have this taint. What Taintkeeper saw of it does not count.
			s.stays(t, spared, restored)
			s.stays(t, patient, restored)
			again := s.taint(t, later, nil)
			s.leaves(t, spared, restored, again.From)
			s.leaves(t, patient, restored, again.From.Add(shortWhile))
			s.notBefore(t, patient, s.made, cameLater.From.Add(shortWhile))

			s.untouched(t, bystander)
			s.checkDeletes(t, restored)
		})
	}
}
