// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// TestScenarios plays the scenarios that are played in virtual time as well.
func TestScenarios(t *testing.T) { play(t, scenarios.Nodes) }

var played atomic.Int32 // scenarios

// play plays scenarios with one Taintkeeper, none of whose calls may be refused because a right is missing.
func play(t *testing.T, all []scenario.Scenario) {
	t.Helper()
	began := time.Now()
	on := &stage{}
	if err := on.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			found, err := scenario.Run(t.Context(), on, fmt.Sprintf("scenario-%d", played.Add(1)), s)
			if err != nil || !found.Right {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
	if err := on.stop(); err != nil {
		t.Error(err)
	}
	for _, c := range audit.All(t, auditlog.Since(began), func(c auditlog.Event) bool { return c.Code == http.StatusForbidden }) {
		if !slices.ContainsFunc(on.outages, func(o outage) bool { return o.covers(c) }) {
			t.Errorf("config/rbac.yaml does not suffice: %v", c)
		}
	}
}

// stage has a Taintkeeper of its own, which can be restarted.
type stage struct {
	keeper  *localcluster.Taintkeeper
	outages []outage
}

// outage is a time in which the API server was down or, while it started, did not know any permissions.
type outage struct{ from, to time.Time }

func (o outage) covers(c auditlog.Event) bool {
	return !c.Received.Before(o.from) && !c.Received.After(o.to)
}

func (s *stage) start(ctx context.Context) (err error) {
	s.keeper, err = cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{Binary: binary, Args: []string{
		"--controllers=*", "--node-monitor-grace-period=" + scenario.NodeGrace.String(),
		"--node-startup-grace-period=" + scenario.NodeStartupGrace.String(),
		fmt.Sprintf("--node-eviction-rate=%g", 1/scenario.NodeTokenEvery.Seconds()),
	}})
	return err
}

// stop stops Taintkeeper as Kubernetes would.
func (s *stage) stop() error {
	defer func() { s.keeper = nil }()
	if s.keeper == nil {
		return nil
	}
	return s.keeper.Stop()
}

// Client implements [scenario.Stage], as do the others.
func (s *stage) Client() kubernetes.Interface { return admin }

func (s *stage) Seen() *observer.Pods { return seen }

func (s *stage) Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return audit.Events(wanted...)
}

// Patience is longer after an outage: client-go takes up to half a minute to open a watch again, because it waits longer
// each time. From then on, node health gives each node some extra time.
func (s *stage) Patience() time.Duration {
	const reopens = 30 * time.Second
	if len(s.outages) > 0 {
		return stall.Bound + reopens + readiness.ExtraGrace
	}
	return stall.Bound
}

func (s *stage) Stalled(from, to time.Time) time.Duration { return cluster.Stalls().In(from, to) }

func (s *stage) Restart(ctx context.Context) error {
	return errors.Join(s.stop(), s.start(ctx))
}

// Lag and Refuse are not for scenarios of node health.
func (s *stage) Lag() func() { panic("watches cannot be held back here") }

func (s *stage) Refuse(context.Context, scene.Scene, *corev1.Pod) (func() error, error) {
	return nil, errors.New("deletes cannot be refused here")
}

// checkUsed checks that the rights that only node health has are used. test/integration sees the other rights used.
func checkUsed() error {
	if !suite.Whole() {
		return nil
	}
	calls, err := audit.Events(auditlog.Accepted)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}}
	leases := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease},
		Rules: []rbacv1.PolicyRule{
			{Resources: []string{"leases"}, Verbs: []string{"watch"}}, // an older API server wants lists, too
			{Resources: []string{"leases"}, ResourceNames: []string{nodehealth.OwnLease}, Verbs: []string{"patch"}},
			{Resources: []string{"namespaces"}, ResourceNames: []string{corev1.NamespaceNodeLease}, Verbs: []string{"get"}},
		},
	}
	if unused := auditlog.UnusedRights([]config.Object{role, leases}, calls); len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives node health rights that nothing used: %v", unused)
	}
	return nil
}
