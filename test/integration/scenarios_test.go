// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// TestScenarios plays the scenarios on the real API server: first those that must be alone, then the others side by side.
func TestScenarios(t *testing.T) {
	on := &stage{t: t, watches: &proxy.Gate{}}
	on.start()
	play := func(t *testing.T, number int, s scenario.Scenario) {
		t.Helper()
		namespace := fmt.Sprintf("scenario-%d", number)
		found, err := scenario.Run(t.Context(), on, namespace, s)
		if err != nil || !found.Right {
			t.Errorf("%v, %v", found, err)
		}
		(&scene{rig.Scene{Namespace: namespace}}).checkDeletes(t)
	}
	for i, s := range scenarios.All {
		t.Run(s.Name, func(t *testing.T) {
			if !s.Alone {
				t.Parallel() // begins when those that are alone are over
			}
			play(t, i, s)
		})
	}
}

// stage has an Evictor of its own, which can be restarted.
type stage struct {
	t       *testing.T
	watches *proxy.Gate
	evictor *evictor
}

func (s *stage) start() {
	faults := &proxy.Faults{}
	faults.Add(proxy.WatchesOfNodes, s.watches.Answer)
	s.evictor = alone(s.t, faults)
}

// Client implements [scenario.Stage], as do the others.
func (s *stage) Client() kubernetes.Interface { return admin }

func (s *stage) Seen() *observer.Pods { return recorded.Pods }

func (s *stage) Patience() time.Duration { return stall.Bound }

func (s *stage) Stalled(from, to time.Time) time.Duration { return cluster.Stalls().In(from, to) }

func (s *stage) Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return audit.Events(wanted...)
}

func (s *stage) Restart(context.Context) error {
	err := s.evictor.stop()
	s.start() //nolint:contextcheck // the Evictor runs until the test ends
	return err
}

func (s *stage) Lag() (release func()) {
	s.watches.Hold()
	return s.watches.Release
}

func (s *stage) Refuse(ctx context.Context, of rig.Scene, probe *corev1.Pod) (allow func() error, err error) {
	return of.RefuseDeletes(ctx, probe)
}
