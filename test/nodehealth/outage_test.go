// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func TestAnOutageOfTheControlPlaneMakesNoHealthyNodeSilent(t *testing.T) {
	const etcd, server, keeper = localcluster.Etcd, localcluster.APIServer, localcluster.Component("taintkeeper")
	play(t, []Scenario{
		outageOf("the API server ends and is started again", stopServer, startServer),
		outageOf("the API server and Taintkeeper end and are started again",
			Steps(stopServer, stopKeeper), Steps(startServer, startKeeper)),
		// A container or a virtual machine that is paused: the clock runs on, and all connections stay open.
		outageOf("the API server and etcd stand still", freeze(etcd, server), thaw(etcd, server)),
		outageOf("Taintkeeper stands still", freeze(keeper), thaw(keeper)),
		outageOf("all of them stand still, and Taintkeeper goes on first",
			freeze(etcd, server, keeper), thaw(keeper, server, etcd)),
	})
}

// outageOf is an outage that is longer than the grace period. A node that falls silent after it shows when Taintkeeper
// sees and acts again. If it had called other nodes silent, it would have done so before that.
func outageOf(name string, begin, end Step) Scenario {
	return Scenario{
		Name:  name,
		Given: []Step{Kubelets("a", 2), Kubelets("b", 2), FallSilent("b-1"), Then(Becomes("b-1", Silent, Unreachable))},
		When: []Step{
			outageDuring(begin, After(NodeGrace+time.Second), end), Heard("a-0"), FallSilent("a-0"),
			Then(Becomes("a-0", Silent, Unreachable), Becomes("b-1"), Becomes("a-1"), Becomes("b-0")),
			Return("a-0"),
		},
		Promised: []Check{Becomes("a-0", Untainted), Becomes("b-1"), Becomes("a-1"), Becomes("b-0")},
	}
}

// outageDuring wants Taintkeeper, which renews its Lease once a second, to reach no API server between two steps.
func outageDuring(begin, between, end Step) Step {
	return func(ctx context.Context, p *Play) error {
		on := p.Stage.(*stage)
		down := time.Now()
		err := begin(ctx, p)
		begun := time.Now().Add(time.Second)
		err = errors.Join(err, between(ctx, p))
		over := time.Now()
		err = errors.Join(err, end(ctx, p))
		on.outages = append(on.outages, outage{down, time.Now()})
		calls, failed := p.Calls(func(c auditlog.Event) bool { return (outage{begun, over}).covers(c) })
		if len(calls) > 0 {
			failed = fmt.Errorf("there was no outage: %v", calls)
		}
		return errors.Join(err, failed)
	}
}

func stopServer(ctx context.Context, _ *Play) error  { return cluster.StopAPIServer(ctx) }
func startServer(ctx context.Context, _ *Play) error { return cluster.StartAPIServer(ctx) }

func stopKeeper(_ context.Context, p *Play) error    { return p.Stage.(*stage).stop() }
func startKeeper(ctx context.Context, p *Play) error { return p.Stage.(*stage).start(ctx) }

func freeze(components ...localcluster.Component) Step {
	return func(context.Context, *Play) error { return cluster.Freeze(components...) }
}

func thaw(components ...localcluster.Component) Step {
	return func(context.Context, *Play) error { return cluster.Thaw(components...) }
}
