// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

func TestAnOutageOfTheAPIServerMakesNoHealthyNodeSilent(t *testing.T) {
	s := newScene(t)
	a, b := s.zone(t, "a", 3), s.zone(t, "b", 2)
	s.keep(t)
	b[1].falls(t)
	s.becomes(t, b[1], unreachable)

	outages := []struct {
		name   string
		during func(t *testing.T)
		after  func(t *testing.T)
	}{
		{"Taintkeeper runs on", func(*testing.T) {}, func(*testing.T) {}},
		{"Taintkeeper is restarted", s.stopKeeper, s.startKeeper},
	}
	for i, played := range outages {
		t.Run(played.name, func(t *testing.T) {
			down := time.Now()
			await.Must(t, cluster.StopAPIServer(t.Context()))
			played.during(t)
			await.Until(t, time.Now().Add(grace+time.Second))
			await.Must(t, cluster.StartAPIServer(t.Context()))
			up := time.Now()
			s.outages = append(s.outages, outage{down, up})
			played.after(t)

			// A node that falls silent now shows when Taintkeeper sees and acts again. Had it called others
			// silent, that would have been before.
			witness := a[i]
			witness.heardAfter(t, up)
			last := witness.falls(t)
			s.becomes(t, witness, unreachable)
			s.wantStory(t, witness, silent, unreachable)
			s.calledSilent(t, witness, last.Add(grace))
			s.wantStory(t, b[1], silent, unreachable)
			s.wantStory(t, a[2])
			s.wantStory(t, b[0])
			witness.returns(t)
			s.becomes(t, witness, untainted)
			s.wantStory(t, witness, silent, unreachable, untainted)
		})
	}
}
