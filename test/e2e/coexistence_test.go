// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestNextToTheBuiltIn plays two replicas of Taintkeeper next to a kube-controller-manager whose flags nobody changed.
func TestNextToTheBuiltIn(t *testing.T) {
	play(t, besideBuiltIn, slices.Concat(nextToTheBuiltIn, policiesOfTheNextLeader)...)
}

var besideBuiltIn = cast{replicas: 2, coexist: true}

// The stories that are alone are played in this order: while the built-in may still work on evictions of a story, it may
// not evict in the next one either.
var nextToTheBuiltIn = []Scenario{
	{
		Name: "every eviction is ours, and the built-in marks no pod",
		Given: []Step{
			Node("tainted"), countdowns("tainted", 5), Crowd("tainted", 20), On("tainted", "stays", scene.Indefinitely("")),
		},
		When:     []Step{Taint("tainted", "gone")},
		Promised: []Check{ByRule, ByContestant, untouchedByBuiltIn},
	},
	{
		Name:     "Taintkeeper dies, and the built-in evicts again",
		Given:    []Step{Alone("pod")},
		When:     []Step{killKeeper, letGo, Taint("pod", "gone"), Gone("pod")},
		Promised: []Check{leftByBuiltIn("pod")},
		Alone:    true,
	},
	{
		Name:     "the leader is killed in mid-countdown, and its standby keeps the deadlines",
		Given:    []Step{Node("tainted"), countdowns("tainted", 30)},
		When:     []Step{Taint("tainted", "gone"), After(3 * time.Second), killLeader()},
		Promised: []Check{ByRule, ByContestant, untouchedByBuiltIn, leaderSaysWhatItRuns},
		Alone:    true,
	},
	{
		Name:  "an untaint and a clean stop in a storm: the built-in deletes nothing that stays",
		Given: []Step{Node("tainted"), Crowd("tainted", 40)},
		When: []Step{
			WhileRefused(Taint("tainted", "gone"), After(3*time.Second), Untaint("tainted", "gone")),
			stopKeeper, After(clockValid + 15*time.Second),
		},
		Promised: []Check{untouchedByBuiltIn, allStay},
		Alone:    true,
	},
}

// The steps about who runs.

const lease = "taintkeeper"

func holder(ctx context.Context, p *Play) (string, error) {
	found, err := p.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || found.Spec.HolderIdentity == nil {
		return "", err
	}
	return *found.Spec.HolderIdentity, nil
}

// leaderSaysWhatItRuns wants the replica that leads to say so on its Lease.
func leaderSaysWhatItRuns(ctx context.Context, p *Play) (Finding, error) {
	found, err := p.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return Finding{}, err
	}
	leader := v1alpha1.LeaderOf(found)
	if leader == nil || !leader.Runs("eviction") || !leader.Coexists {
		return Finding{Seen: fmt.Sprintf("the Lease has the labels %v", found.Labels)}, nil
	}
	return Finding{Right: true}, nil
}

// killLeader kills the replica that leads, waits until the standby does, and brings another standby at the end. Steps
// are taken while none leads.
func killLeader(meanwhile ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		s := stageOf(p)
		before, err := holder(ctx, p)
		if err := errors.Join(err, s.kill(1), Steps(meanwhile...)(ctx, p)); err != nil {
			return err
		}
		p.Finally(func(ctx context.Context) error { return s.startReplica(ctx) })
		err = await.Poll(ctx, func(ctx context.Context) error {
			now, err := holder(ctx, p)
			if err == nil && (now == before || now == "") {
				err = fmt.Errorf("%q leads", now)
			}
			return err
		})
		p.Excuse(time.Now())
		return err
	}
}

// stopKeeper and killKeeper end all replicas until startKeeper or the end of the story.
func stopKeeper(_ context.Context, p *Play) error { return withoutKeeper(p, stageOf(p).stop) }

func killKeeper(_ context.Context, p *Play) error {
	return withoutKeeper(p, func() error { return stageOf(p).kill(stageOf(p).cast.replicas) })
}

func withoutKeeper(p *Play, end func() error) error {
	p.Finally(func(ctx context.Context) error { return startKeeper(ctx, p) })
	return end()
}

func startKeeper(ctx context.Context, p *Play) error {
	if len(stageOf(p).replicas) > 0 {
		return nil
	}
	return stageOf(p).start(ctx)
}

// letGo waits until the built-in may evict again. It would forget a pod that is refused before.
func letGo(ctx context.Context, _ *Play) error { return cluster.WaitLetGo(ctx) }

// clockValid is for how long a renewal of the eviction clock keeps the built-in from evicting.
const clockValid = 30 * time.Second

// untouchedByBuiltIn wants the built-in to have marked and deleted no pod.
func untouchedByBuiltIn(_ context.Context, p *Play) (Finding, error) {
	calls, err := stageOf(p).CallsBy(auditlog.BuiltInAsServiceAccount, auditlog.In(p.Namespace), auditlog.Accepted,
		func(c auditlog.Event) bool { return auditlog.StatusPatches(c) || auditlog.Deletes(c) })
	if len(calls) > 0 {
		return Finding{Seen: fmt.Sprintf("the built-in called %v", calls)}, err
	}
	return Finding{Right: true}, err
}

// leftByBuiltIn wants the built-in to have deleted a pod.
func leftByBuiltIn(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		err := await.Poll(ctx, func(context.Context) error {
			calls, err := stageOf(p).CallsBy(auditlog.BuiltInAsServiceAccount, auditlog.In(p.Namespace), auditlog.Accepted,
				auditlog.Deletes, auditlog.Named(pod))
			if err == nil && len(calls) == 0 {
				err = errors.New("the built-in has not deleted it")
			}
			return err
		})
		return Finding{Seen: fmt.Sprint("pod ", pod, ": ", err), Right: err == nil}, nil
	}
}

// awaitClock waits until the eviction clock was renewed after an instant. It has whole seconds.
func awaitClock(ctx context.Context, p *Play, after time.Time) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		accounts := p.Admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
		account, err := accounts.Get(ctx, auditlog.EvictionClockName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		renewed, err := time.Parse(time.RFC3339, account.Annotations[auditlog.EvictionClockAnnotation])
		if err == nil && !renewed.After(after) {
			err = fmt.Errorf("it was renewed at %s", renewed)
		}
		return err
	})
}
