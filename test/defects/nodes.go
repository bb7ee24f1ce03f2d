// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// How long a node may be silent where nodes fall silent, and upstream's default for how often it checks all nodes.
const (
	nodeGrace = 20 * time.Second
	passEach  = 5 * time.Second
)

// silentNodes is a scenario of nodes whose kubelets renew their leases and then fall silent, all at once. Then one of
// the leases can be written by somebody else, after upstream has certainly checked the nodes.
func silentNodes(count int, touched string) Scenario {
	s := &silence{count: count, renewed: map[string]time.Time{}}
	var when []Step
	if touched != "" {
		when = []Step{After(passEach + time.Second), touchLease(touched)}
	}
	return Scenario{Given: []Step{s.begin}, When: when, Promised: []Check{s.noticed}}
}

// silence is what the steps of such a scenario share.
type silence struct {
	count   int
	renewed map[string]time.Time // when the last renewal of each node's lease was sent
}

// clients is how many calls are under way at once when something is done for each node.
const clients = 8

// each does something for each node.
func (s *silence) each(ctx context.Context, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for i := range s.count {
		group.Go(func() error { return do(ctx, fmt.Sprintf("silent-%d", i)) })
	}
	return group.Wait()
}

// begin makes the nodes and renews their leases until the contestant gives none any extra time and has removed the
// taint with which the API server makes nodes. That takes upstream a while, as it may call only so often.
func (s *silence) begin(ctx context.Context, p *Play) error {
	leases := p.Admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	p.Finally(func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, name string) error {
			return leases.Delete(ctx, p.NodeName(name), metav1.DeleteOptions{})
		})
	})
	err := s.each(ctx, func(ctx context.Context, name string) error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: p.NodeName(name)}}
		if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := p.Node(ctx, name, Ready)
		return err
	})
	if err != nil {
		return err
	}
	for from := time.Now(); ; {
		if err := s.renew(ctx, p); err != nil {
			return err
		}
		nodes, err := s.nodes(ctx, p)
		if err != nil {
			return err
		}
		tainted := 0
		for i := range nodes {
			tainted += len(nodes[i].Spec.Taints)
		}
		if tainted == 0 && time.Since(from) > readiness.ExtraGrace {
			return s.renew(ctx, p)
		}
		if err := await.Pause(ctx, nodeGrace/4); err != nil {
			return err
		}
	}
}

func (s *silence) nodes(ctx context.Context, p *Play) ([]corev1.Node, error) {
	list, err := p.Admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(p.Labels())})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// renew renews the leases of all nodes.
func (s *silence) renew(ctx context.Context, p *Play) error {
	sent := time.Now()
	err := s.each(ctx, func(ctx context.Context, name string) error {
		return patchLease(ctx, p, name, map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(time.Now())}})
	})
	for i := range s.count { // one may have been sent later, which makes its node seem late, not early
		s.renewed[p.NodeName(fmt.Sprintf("silent-%d", i))] = sent
	}
	return err
}

func patchLease(ctx context.Context, p *Play, node string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = p.Admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		Patch(ctx, p.NodeName(node), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// touchLease writes to the lease of a node without renewing it.
func touchLease(node string) Step {
	return func(ctx context.Context, p *Play) error {
		return patchLease(ctx, p, node, map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{"example.com/note": "not a renewal"},
		}})
	}
}

// noticed fails if a node is not Unknown soon after its grace period.
func (s *silence) noticed(ctx context.Context, p *Play) (Finding, error) {
	const given = 90 * time.Second // on top of the grace period
	unknown := map[string]time.Duration{}
	began := time.Now()
	for len(unknown) < s.count && time.Since(began) < nodeGrace+given {
		nodes, err := s.nodes(ctx, p)
		if err != nil {
			return Finding{}, err
		}
		for i := range nodes {
			name, ready := nodes[i].Name, readiness.Condition(&nodes[i], corev1.NodeReady)
			if _, known := unknown[name]; !known && ready != nil && ready.Status == corev1.ConditionUnknown {
				unknown[name] = time.Since(s.renewed[name])
			}
		}
		if err := await.Pause(ctx, time.Second/4); err != nil {
			return Finding{}, err
		}
	}
	return s.judge(unknown, p.Patience()+p.Stalled(began, time.Now()), time.Since(began)), nil
}

// judge says after how long nodes were found Unknown, given how late they may be.
func (s *silence) judge(unknown map[string]time.Duration, late, watched time.Duration) Finding {
	first, last := time.Duration(-1), time.Duration(0)
	for _, took := range unknown {
		if first < 0 || took < first {
			first = took
		}
		last = max(last, took)
	}
	seen := fmt.Sprintf("%d of %d are Unknown", len(unknown), s.count)
	switch {
	case len(unknown) > 1:
		seen += fmt.Sprintf(", the first after %s, the last after %s", Seconds(first), Seconds(last))
	case len(unknown) == 1:
		seen += fmt.Sprintf(" after %s", Seconds(first))
	}
	if len(unknown) < s.count {
		seen += fmt.Sprintf("; the others are still Ready after %s", Seconds(watched))
	}
	return Finding{Seen: seen, Right: len(unknown) == s.count && first >= nodeGrace && last <= nodeGrace+passEach+late}
}
