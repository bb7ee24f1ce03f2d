// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	stormPods  = 1000
	stormNodes = 20
	stormLimit = 10 * time.Minute
)

// stormRound is what was measured for one contestant in one storm. Times count from the instant at which the API server
// accepted the first taint, up to those at which it accepted deletes.
type stormRound struct {
	Total  time.Duration  `json:"total"`
	First  time.Duration  `json:"first"`
	Median time.Duration  `json:"median"`
	P99    time.Duration  `json:"p99"`
	Calls  map[string]int `json:"calls"` // by verb and resource
	Memory memory         `json:"memory"`
	// Processor time from the first taint to the last delete.
	CPU       time.Duration `json:"cpu"`       // of the process
	ServerCPU time.Duration `json:"serverCPU"` // of the API server
}

func (r stormRound) total() time.Duration { return r.Total }

// work is the CPU time of the process and of the API server.
func (r stormRound) work() time.Duration { return r.CPU + r.ServerCPU }

// callsPerPod leaves events out.
func (r stormRound) callsPerPod() float64 {
	calls := 0
	for what, count := range r.Calls {
		if !strings.HasSuffix(what, " events") {
			calls += count
		}
	}
	return float64(calls) / stormPods
}

// The storms, by their names in the report.
const (
	stormFresh = "right after a start"  // the process evicted its first pod a moment ago
	stormWarm  = "warm"                 // the same process has had a storm before
	stormSlow  = "with slow admissions" // see slow
)

// storm puts each contestant in turn through two storms: one right after its start, and another.
func (b *bench) storm(ctx context.Context) error {
	if err := b.ensureNodes(ctx, stormNodes); err != nil {
		return err
	}
	b.say("\nstorm: %d pods on %d nodes are due at once", stormPods, stormNodes)
	repeated := []string{nameFloor, nameOurs, namePrevious, nameCoexist, nameUnlimited}
	err := b.inRounds(ctx, b.stormsOf, repeated, []string{nameBuiltIn})
	b.report.printStorm(b.out, stormFresh)
	b.report.printStorm(b.out, stormWarm)
	return err
}

// inRounds measures some contestants in every round, one after the other, and those that take minutes once.
func (b *bench) inRounds(ctx context.Context, measure func(context.Context, contestant) error,
	repeated, once []string,
) error {
	for round := range b.rounds {
		names := repeated
		if round == 0 {
			names = slices.Concat(repeated, once)
		}
		all, err := b.contestants(names...)
		if err != nil {
			return err
		}
		for _, c := range all {
			if err := measure(ctx, c); err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, c.name, err)
			}
		}
	}
	return nil
}

func (b *bench) stormsOf(ctx context.Context, c contestant) error {
	if err := errors.Join(b.newClock(ctx), b.createStormPods(ctx, stormNodes)); err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := b.weather(ctx, p, stormFresh, stormNodes); err != nil {
		return err
	}
	if err := errors.Join(b.createStormPods(ctx, stormNodes), await.Pause(ctx, settleTime)); err != nil {
		return err
	}
	return b.weather(ctx, p, stormWarm, stormNodes)
}

// newClock puts the coexistence policy in the way of every contestant, with an eviction clock that nobody has renewed:
// the backlog that a contestant recorded would keep the next one from marking pods.
func (b *bench) newClock(ctx context.Context) error {
	accounts := b.admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	err := accounts.Delete(ctx, coexist.ServiceAccount, metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the eviction clock: %w", err)
	}
	return b.cluster.InstallCoexistence(ctx)
}

func (b *bench) createStormPods(ctx context.Context, nodes int) error {
	var pods []*corev1.Pod
	for i := range stormPods {
		pods = append(pods, productionPod(partStorm, i, nodeName(i%nodes)))
	}
	created, err := b.createPods(ctx, pods)
	if err != nil {
		return err
	}
	b.report.PodBytes = created[0].Size()
	return nil
}

// weather puts a process through a storm, notes how it did, and cleans up.
func (b *bench) weather(ctx context.Context, p *process, storm string, nodes int) error {
	r, err := b.stormRound(ctx, p, nodes)
	if err != nil {
		return fmt.Errorf("storm %s: %w", storm, err)
	}
	b.report.addStorm(storm, p.name, r)
	b.say("  %s, %s: %s, first delete after %s, load %s", p.name, storm, seconds(r.Total), milliseconds(r.First), loadAverage())
	return errors.Join(b.untaintAll(ctx, nodeNames(nodes)), b.removePods(ctx))
}

// stormRound is the storm itself.
func (b *bench) stormRound(ctx context.Context, p *process, nodes int) (stormRound, error) {
	if err := p.learn(p); err != nil {
		return stormRound{}, err
	}
	mark, err := b.audit.mark()
	if err != nil {
		return stormRound{}, err
	}
	used, err := b.measured(ctx, p, func(ctx context.Context) error {
		if err := b.taintAtOnce(ctx, p, nodeNames(nodes)); err != nil {
			return err
		}
		_, err := b.audit.awaitDeletes(ctx, mark, stormPods, stormLimit)
		return err
	})
	if err != nil {
		return stormRound{}, err
	}
	r, err := b.aftermath(ctx, p, mark)
	r.CPU, r.ServerCPU = used.process, used.server
	return r, err
}

// usage is CPU time that has been used.
type usage struct{ process, server time.Duration }

func (b *bench) usage(ctx context.Context, p *process) (usage, error) {
	process, err := p.cpu()
	if err != nil {
		return usage{}, err
	}
	server, err := b.serverCPU(ctx)
	return usage{process, server}, err
}

// measured does something while the process runs, and returns what CPU time it took.
func (b *bench) measured(ctx context.Context, p *process, do func(context.Context) error) (usage, error) {
	before, err := b.usage(ctx, p)
	if err != nil {
		return usage{}, err
	}
	running, cancel := p.running(ctx)
	defer cancel()
	if err := do(running); err != nil {
		return usage{}, err
	}
	after, err := b.usage(ctx, p)
	return usage{after.process - before.process, after.server - before.server}, err
}

// taintAtOnce taints nodes in parallel, and lets the process begin at the first that is accepted.
func (b *bench) taintAtOnce(ctx context.Context, p *process, nodes []string) error {
	accepted := make(chan struct{}, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error {
			err := b.taint(ctx, node)
			accepted <- struct{}{}
			return err
		})
	}
	<-accepted
	return errors.Join(p.begin(p), group.Wait())
}

// aftermath counts the calls and measures memory, once nothing more happens.
func (b *bench) aftermath(ctx context.Context, p *process, mark int64) (stormRound, error) {
	if err := await.Pause(ctx, settleTime); err != nil {
		return stormRound{}, err
	}
	calls, err := b.audit.since(mark)
	if err != nil {
		return stormRound{}, err
	}
	r := newStormRound(calls)
	r.Memory, err = p.memory()
	return r, err
}

func newStormRound(calls []call) stormRound {
	start := firstTaint(calls)
	var after []time.Duration
	for _, accepted := range deletes(calls) {
		after = append(after, accepted.Sub(start))
	}
	return stormRound{
		Total: quantile(after, 1), First: quantile(after, 0), Median: median(after), P99: quantile(after, 0.99),
		Calls: countCalls(calls),
	}
}

// firstTaint is when the first taint was accepted.
func firstTaint(calls []call) time.Time {
	for _, accepted := range taintings(calls) {
		return accepted.at
	}
	return time.Time{}
}

// tainting is a node that was tainted.
type tainting struct {
	node string
	at   time.Time
}

// taintings returns which nodes this program has tainted and when, in the order of the answers.
func taintings(calls []call) []tainting {
	var all []tainting
	for _, c := range calls {
		if c.User == adminUser && c.Verb == "patch" && c.Resource == "nodes" && c.Accepted() {
			all = append(all, tainting{c.Name, c.Answered})
		}
	}
	return all
}

// countCalls counts the contestant's calls, successful or not, except lists and watches, which begin before the storm.
func countCalls(calls []call) map[string]int {
	counts := map[string]int{}
	for _, c := range calls {
		if !strings.HasPrefix(c.User, "system:serviceaccount:") || c.Verb == "list" || c.Verb == "watch" {
			continue
		}
		counts[c.Verb+" "+c.Resource]++
	}
	return counts
}
