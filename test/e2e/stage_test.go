// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// cast is what runs in some stories: controllers of kube-controller-manager, and Taintkeeper.
type cast struct {
	// without are controllers that kube-controller-manager leaves out, each after a comma and a minus.
	without string
	// managerArgs are others of its arguments.
	managerArgs []string
	// asItself lets all its controllers be the same user.
	asItself bool
	// replicas is how many processes Taintkeeper is. The first one leads.
	replicas int
	// coexist lets them keep the built-in from evicting.
	coexist bool
	// args are Taintkeeper's.
	args []string
	// faulty lets the calls of the leader pass the proxy even if it has a standby, whose calls do not.
	faulty bool
	// recovers is for how much longer than client-go it may take after an outage.
	recovers time.Duration
}

// onlyOurs, as what kube-controller-manager leaves out, leaves what evicts and taints to Taintkeeper.
const onlyOurs = "-taint-eviction-controller,-node-lifecycle-controller,-pod-garbage-collector-controller"

// stage is where a cast plays.
type stage struct {
	*Real
	cast

	faults     *proxy.Faults
	watches    *proxy.Gate // of nodes
	podWatches *proxy.Gate
	through    *rest.Config // to the API server, behind these

	recovering atomic.Bool // from an outage

	mu       sync.Mutex
	replicas []*localcluster.Taintkeeper
	outages  []outage
	plans    map[string]prediction // by namespace
}

// outage is a time in which the API server was down, or did not know any rights yet.
type outage struct{ from, to time.Time }

// play plays stories with a cast: first those that must be alone, then the others side by side. Then it checks every
// call of Taintkeeper's.
func play(t *testing.T, with cast, stories ...Scenario) {
	t.Helper()
	if testing.Short() {
		stories = slices.DeleteFunc(slices.Clone(stories), func(s Scenario) bool { return s.Long })
	}
	if len(stories) == 0 {
		t.Skip("all its stories are long")
	}
	began, on := time.Now(), newStage(t, with)
	for _, alone := range []bool{true, false} {
		t.Run(map[bool]string{true: "alone", false: "together"}[alone], func(t *testing.T) {
			for i, s := range stories {
				if s.Alone == alone {
					t.Run(s.Name, func(t *testing.T) {
						if !alone {
							t.Parallel()
						}
						playStory(t, on, fmt.Sprintf("%s-%d", namespaceOf(t), i), s)
					})
				}
			}
		})
	}
	await.Must(t, on.stop())
	on.checkCalls(t, began)
}

func playStory(t *testing.T, on *stage, namespace string, s Scenario) {
	t.Helper()
	found, err := Run(t.Context(), on, namespace, s)
	if err != nil || !found.Right {
		t.Errorf("%v, %v", found, err)
	}
	if strings.Contains(found.Seen, "played again") {
		t.Log(found.Seen)
	}
}

func newStage(t *testing.T, with cast) *stage {
	t.Helper()
	s := &stage{
		Real: onStage, cast: with, plans: map[string]prediction{},
		faults: &proxy.Faults{}, watches: &proxy.Gate{}, podWatches: &proxy.Gate{},
	}
	await.Must(t, cluster.RestartControllerManager(t.Context(), s.manager()))
	await.Must(t, forgetBacklog(t.Context()))
	access, err := cluster.TaintkeeperAccess()
	await.Must(t, err)
	s.faults.Add(proxy.WatchesOfNodes, s.watches.Answer)
	s.faults.Add(proxy.WatchesOfPods, s.podWatches.Answer)
	gate, err := proxy.Serve(proxy.Config{Access: access, Over: s.faults.Over})
	await.Must(t, err)
	t.Cleanup(func() { _ = gate.Close() }) // nothing calls it any longer
	s.through = gate.Access()
	await.Must(t, s.start(t.Context()))
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// manager is how kube-controller-manager runs. It does not miss kubelets, which the nodes of most stories do not have.
func (c cast) manager() localcluster.ControllerManagerConfig {
	config := localcluster.ControllerManagerConfig{Args: []string{"--node-monitor-grace-period=1h"}}
	if c.without != "" {
		config.Args = append(config.Args, "--controllers="+c.without)
	}
	config.Args, config.AsItself = append(config.Args, c.managerArgs...), c.asItself
	return config
}

func (s *stage) start(ctx context.Context) error {
	for range s.cast.replicas {
		if err := s.startReplica(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startReplica(ctx context.Context) error {
	config := localcluster.TaintkeeperConfig{Binary: keeper, Name: s.freeName(), Coexist: s.coexist, Args: s.args}
	if s.cast.replicas == 1 || s.faulty && len(s.replicas) == 0 {
		config.Access = s.through
	}
	if s.cast.replicas > 1 {
		config.Args = append([]string{"--leader-elect=true"}, s.args...)
	}
	replica, err := cluster.StartTaintkeeper(context.WithoutCancel(ctx), config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, replica)
	return nil
}

// freeName returns a name that no replica has.
func (s *stage) freeName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; ; i++ {
		name := fmt.Sprintf("taintkeeper-%d", i)
		if !slices.ContainsFunc(s.replicas, func(r *localcluster.Taintkeeper) bool { return string(r.Component()) == name }) {
			return name
		}
	}
}

// stop ends all replicas as Kubernetes would, first the standby.
func (s *stage) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []error
	for _, replica := range slices.Backward(s.replicas) {
		all = append(all, replica.Stop())
	}
	s.replicas = nil
	return errors.Join(all...)
}

// kill ends replicas without a warning, the first ones first.
func (s *stage) kill(count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []error
	for _, replica := range s.replicas[:count] {
		all = append(all, replica.Kill())
	}
	s.replicas = s.replicas[count:]
	return errors.Join(all...)
}

// Objects implements what the steps about policies want.
func (*stage) Objects() client.Client { return objects }

// Restart implements [Stage], as do the others.
func (s *stage) Restart(ctx context.Context) error { return errors.Join(s.stop(), s.start(ctx)) }

func (s *stage) Lag() (release func()) {
	s.watches.Hold()
	return s.watches.Release
}

// Patience is longer after an outage of the API server: client-go takes up to half a minute to open a watch again.
func (s *stage) Patience() time.Duration {
	const reopens = 30 * time.Second
	if s.recovering.Load() {
		return s.Real.Patience() + reopens + s.recovers
	}
	return s.Real.Patience()
}

// checkCalls checks what must be true of every call: the rights suffice, and each is a step that the explorer knows.
func (s *stage) checkCalls(t *testing.T, began time.Time) {
	t.Helper()
	calls, err := s.Calls(auditlog.Since(began))
	await.Must(t, err)
	for _, c := range calls {
		if c.Code == http.StatusForbidden && !s.duringOutage(c) {
			t.Errorf("config/rbac.yaml does not suffice: %v", c)
		}
	}
	calls, err = s.CallsByAll(auditlog.Since(began))
	await.Must(t, err)
	auditlog.CheckSteps(t, auditlog.Choose(calls, func(c auditlog.Event) bool { return c.Name != markedByTest }))
}

func (s *stage) duringOutage(c auditlog.Event) bool {
	return slices.ContainsFunc(s.outages, func(o outage) bool {
		return !c.Received.Before(o.from) && !c.Received.After(o.to)
	})
}

// stageOf is the stage of a play.
func stageOf(p *Play) *stage { return p.Stage.(*stage) }
