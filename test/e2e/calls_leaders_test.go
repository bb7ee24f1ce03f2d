// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// quickElection are the flags of an election that takes seconds.
var quickElection = []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}

// TestLeadersThatStandStill plays a leader that is paused for longer than its Lease lasts, for example because its
// virtual machine is. When it goes on it still acts on what it knew before.
func TestLeadersThatStandStill(t *testing.T) {
	play(t, cast{without: onlyOurs, replicas: 2, faulty: true, args: quickElection}, standStill...)
}

// The first replica leads.
const leading, standingBy = localcluster.Component("taintkeeper-1"), localcluster.Component("taintkeeper-2")

// The calls of the leader in which it is paused.
var inMark, inRenewal inCall

var standStill = []Scenario{
	{
		// When it goes on, the answer to the first call of an eviction is there, and its watch of nodes brings nothing.
		Name: "a leader that stood still past its Lease deletes no pod that stays",
		Given: []Step{
			Node("tainted"), Node("untainted"), Node("late"),
			On("tainted", "due-meanwhile", scene.Tolerating("gone", 3)),
			On("untainted", "marked"), On("untainted", "patient", scene.Tolerating("gone", 5)),
			On("late", "at-once"), On("late", "counting", scene.Tolerating("gone", 3)),
		},
		When: []Step{
			Taint("tainted", "gone"), awaitStamp("tainted"),
			inMark.hold(patchOf("marked"), passOn), Taint("untainted", "gone"), inMark.awaitHeld, Lag, freeze(standingBy, leading),
			Untaint("untainted", "gone"), standbyTakesOver, Taint("late", "gone"), Gone("counting"), inMark.goesOn,
		},
		Promised: []Check{
			ByRuleFor("due-meanwhile"), ByRuleFor("at-once"), ByRuleFor("counting"), ByRuleFor("patient"),
			isNotDeleted("marked"), Stays("marked"),
		},
		Watched: 5 * time.Second,
		Alone:   true,
		Long:    true,
	},
	{
		// When it goes on it has no time left to find out that another has the Lease. client-go's elector then releases a
		// Lease that it no longer holds.
		Name:     "a leader that lost its Lease in a renewal leaves it to the next",
		Given:    []Step{Alone("pod"), Taint("pod", "gone"), Gone("pod")},
		When:     []Step{inRenewal.hold(callsOfLease, refuse), inRenewal.awaitHeld, freeze(standingBy, leading), standbyTakesOver, inRenewal.goesOn},
		Promised: []Check{inRenewal.changedNothingLater},
		Alone:    true,
		Long:     true,
	},
}

// inCall is a call of the leader whose answer is held back, and the calls of that kind after it.
type inCall struct {
	held    chan struct{}
	release func()
	changes *proxy.Instants
}

// hold holds back the answer to the first of some calls until the end of the story.
func (c *inCall) hold(calls func(p *Play) proxy.Calls, answer proxy.Answer) Step {
	return func(_ context.Context, p *Play) error {
		released := make(chan struct{})
		c.held, c.release, c.changes = make(chan struct{}), sync.OnceFunc(func() { close(released) }), &proxy.Instants{}
		var first sync.Once
		remove := stageOf(p).faults.Add(calls(p), func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			respond, wait := next.RoundTrip, false
			first.Do(func() { respond, wait = func(r *http.Request) (*http.Response, error) { return answer(r, next) }, true })
			response, err := respond(request)
			switch {
			case wait:
				close(c.held)
				<-released
			case request.Method != http.MethodGet:
				c.changes.Note()
			}
			return response, err
		})
		p.Finally(func(context.Context) error { remove(); c.release(); return nil })
		return nil
	}
}

func passOn(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	return next.RoundTrip(request)
}

func refuse(request *http.Request, _ http.RoundTripper) (*http.Response, error) {
	return proxy.Unavailable.Response(request), nil
}

// patchOf are the patches with which the evictions of a pod begin.
func patchOf(pod string) func(*Play) proxy.Calls {
	return func(p *Play) proxy.Calls {
		patches := proxy.PodStatusPatches(p.Namespace)
		return func(request *http.Request) bool {
			return patches(request) && strings.HasSuffix(request.URL.Path, "/"+pod+"/status")
		}
	}
}

// callsOfLease are those about the Lease of the election.
func callsOfLease(*Play) proxy.Calls {
	return func(request *http.Request) bool { return strings.HasSuffix(request.URL.Path, "/leases/"+lease) }
}

func (c *inCall) awaitHeld(ctx context.Context, _ *Play) error {
	return await.Poll(ctx, func(context.Context) error {
		select {
		case <-c.held:
			return nil
		default:
			return errors.New("the leader has not made the call")
		}
	})
}

// goesOn lets the call be answered and the leader go on. It must end because it finds its Lease lost.
func (c *inCall) goesOn(ctx context.Context, p *Play) error {
	s := stageOf(p)
	old := s.replicas[0]
	p.Finally(func(ctx context.Context) error {
		s.watches.Release() // before the next ones list
		return s.Restart(ctx)
	})
	now, err := holder(ctx, p)
	c.release()
	if err := errors.Join(err, cluster.Thaw(leading)); err != nil {
		return err
	}
	err = await.Poll(ctx, func(context.Context) error {
		if old.PID() != 0 {
			return errors.New("the old leader still runs")
		}
		return nil
	})
	log, failed := os.ReadFile(old.LogPath())
	if !strings.Contains(string(log), "leader election lost") {
		failed = errors.Join(failed, errors.New("the old leader does not say that it has lost the election"))
	}
	after, unread := holder(ctx, p)
	if after != now {
		failed = errors.Join(failed, fmt.Errorf("%s leads, want %s", after, now))
	}
	return errors.Join(err, failed, unread, s.kill(1))
}

// standbyTakesOver lets the standby continue, and returns once it leads.
func standbyTakesOver(ctx context.Context, p *Play) error {
	before, err := holder(ctx, p)
	if err := errors.Join(err, cluster.Thaw(standingBy)); err != nil {
		return err
	}
	return nextLeads(ctx, p, before)
}

// changedNothingLater wants the old leader not to have touched the Lease after the call in which it was paused.
func (c *inCall) changedNothingLater(context.Context, *Play) (Finding, error) {
	changes := c.changes.All()
	return finding(len(changes) == 0, "the old leader changed the Lease at %v", changes), nil
}
