// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// The last act is not begun by a taint: the kubelets of a zone fall silent, and taintkeeper sets the taints.
const (
	silentZone = "north"
	// grace is how long a node may be silent. kwok renews a lease four times in leaseSeconds.
	grace        = 8 * time.Second
	leaseSeconds = 4
	// taintEvery is the time between the NoExecute taints of two nodes of a zone.
	taintEvery = 4 * time.Second
	// tolerated is what the API server lets a pod tolerate of a silent node that says nothing else: 300 s elsewhere.
	tolerated = 6 * time.Second
	// silenceTimeout is how long the act may take.
	silenceTimeout = 2 * time.Minute
)

const silenceTitle = "the kubelets of a zone fall silent, and come back"

var silenceStory = []string{
	fmt.Sprintf("Nobody sets a taint: taintkeeper does, when a node has been silent for %d s, and NoExecute at the zone's", int(grace.Seconds())),
	fmt.Sprintf("rate, a node every %d s. Whoever tolerates nothing by itself has %d s, here in the place of 300 s.", int(taintEvery.Seconds()), int(tolerated.Seconds())),
	"When the zone comes back before the pods of the second node are due, they stay.",
}

// zoneNodes are the names of the nodes of a zone.
func zoneNodes(zone string) []string {
	var names []string
	for _, node := range nodes {
		if node.Zone == zone {
			names = append(names, node.Name)
		}
	}
	return names
}

// playSilence plays the last act.
func (s *stage) playSilence(ctx context.Context) (report, error) {
	names := zoneNodes(silentZone)
	for _, line := range silenceStory {
		s.say("%s%s", indent, line)
	}
	s.say("")
	made, err := s.foresee(ctx, names...)
	if err != nil {
		return report{}, err
	}
	s.say("")
	s.say("%s$ kubectl label node %s %s", indent, strings.Join(names, " "), localcluster.SilenceLabel)
	s.say("%s$ kubectl label node %s %s   # when the pods of the first node have left", indent, strings.Join(names, " "), localcluster.ResumeLabel)
	s.say("")
	v := newVigil(names, time.Now())
	v.plan = made
	if err := s.cluster.SilenceNodes(ctx, names...); err != nil {
		return report{}, err
	}
	overrun := fmt.Errorf("the act was not over after %s", silenceTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, silenceTimeout, overrun)
	defer cancel()
	result, err := s.keepVigil(limited, v)
	if err != nil {
		return report{}, err
	}
	return result, s.waitRunning(ctx, lasting)
}

// keepVigil watches the silent zone, lets it come back on its cue, and goes on until nothing more is to be expected.
func (s *stage) keepVigil(ctx context.Context, v *vigil) (report, error) {
	frames := time.NewTicker(framePeriod)
	defer frames.Stop()
	back := false
	for {
		now := time.Now()
		seen, err := s.ledger.correct(sightings(s.seen))
		if err != nil {
			return report{}, err
		}
		if err := v.look(s.ledger); err != nil {
			return report{}, err
		}
		switch {
		case back && v.over(seen, now):
			return s.endVigil(v, seen, now), nil
		case !back && v.cue(seen, now):
			if err := v.lastSigns(ctx, s.client); err != nil {
				return report{}, err
			}
			v.back = time.Now()
			if err := s.cluster.ResumeNodes(ctx, v.names()...); err != nil {
				return report{}, err
			}
			back = true
		}
		s.draw(slices.Concat(v.table(), tableSince(v.rows(seen), v.began, now, duringAct)))
		if err := s.wait(ctx, frames.C); err != nil {
			return report{}, err
		}
	}
}

func (s *stage) endVigil(v *vigil, seen []sighting, now time.Time) report {
	s.finish(v.table())
	s.say("")
	s.finish(tableSince(v.rows(seen), v.began, now, afterAct))
	result := summarise(v.rows(seen), countElsewhere(seen, v.names(), v.began), now)
	result.problems = append(result.problems, v.problems()...)
	result.problems = append(result.problems, v.unforeseen(v.plan, seen)...)
	return result
}
