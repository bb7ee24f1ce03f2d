// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

func TestAnOutageOfTheControlPlaneMakesNoHealthyNodeSilent(t *testing.T) {
	s := newScene(t)
	a, b := s.zone(t, "a", 6), s.zone(t, "b", 2)
	s.keep(t)
	b[1].falls(t)
	s.becomes(t, b[1], unreachable)

	outages := []struct {
		name       string
		begin, end func(t *testing.T)
	}{
		{"the API server ends and is started again", stopAPIServer, startAPIServer},
		{
			"the API server and Taintkeeper end and are started again",
			func(t *testing.T) { stopAPIServer(t); s.stopKeeper(t) },
			func(t *testing.T) { startAPIServer(t); s.startKeeper(t) },
		},
		// A container or a virtual machine that is paused: the clock runs on, and all connections stay open.
		{"the API server and etcd stand still", freeze(localcluster.Etcd, localcluster.APIServer), thaw(localcluster.Etcd, localcluster.APIServer)},
		{"Taintkeeper stands still", freeze("taintkeeper"), thaw("taintkeeper")},
		{
			"all of them stand still, and Taintkeeper goes on first",
			freeze(localcluster.Etcd, localcluster.APIServer, "taintkeeper"),
			thaw("taintkeeper", localcluster.APIServer, localcluster.Etcd),
		},
	}
	for i, played := range outages {
		t.Run(played.name, func(t *testing.T) {
			down := time.Now()
			played.begin(t)
			begun := time.Now()
			await.Until(t, begun.Add(grace+time.Second))
			over := time.Now()
			played.end(t)
			up := time.Now()
			s.outages = append(s.outages, outage{down, up})

			// A node that falls silent now shows when Taintkeeper sees and acts again. Had it called others
			// silent, that would have been before.
			witness := a[i]
			witness.heardAfter(t, up)
			last := witness.falls(t)
			s.becomes(t, witness, unreachable)
			checkNoCalls(t, begun.Add(time.Second), over)
			s.wantStory(t, witness, silent, unreachable)
			s.calledSilent(t, witness, last.Add(grace))
			s.wantStory(t, b[1], silent, unreachable)
			s.wantStory(t, a[5])
			s.wantStory(t, b[0])
			witness.returns(t)
			s.becomes(t, witness, untainted)
			s.wantStory(t, witness, silent, unreachable, untainted)
		})
	}
}

func stopAPIServer(t *testing.T)  { await.Must(t, cluster.StopAPIServer(t.Context())) }
func startAPIServer(t *testing.T) { await.Must(t, cluster.StartAPIServer(t.Context())) }

func freeze(components ...localcluster.Component) func(*testing.T) {
	return func(t *testing.T) { await.Must(t, cluster.Freeze(components...)) }
}

func thaw(components ...localcluster.Component) func(*testing.T) {
	return func(t *testing.T) { await.Must(t, cluster.Thaw(components...)) }
}

// checkNoCalls checks that Taintkeeper, which renews its Lease once a second, reached nobody within a time.
func checkNoCalls(t *testing.T, from, to time.Time) {
	t.Helper()
	for _, c := range audit.All(t, auditlog.Since(from)) {
		if c.Received.Before(to) {
			t.Errorf("there was no outage: %v", c)
		}
	}
}
