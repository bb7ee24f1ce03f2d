// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/admission"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	stormPods  = 1000
	stormNodes = 20
	stormLimit = 10 * time.Minute
	partStorm  = "storm"
)

// The storms, by the names of their tables.
const (
	stormFresh = "storm right after a start"  // the process evicted its first pod a moment ago
	stormWarm  = "storm warm"                 // the same process has had a storm before
	stormSlow  = "storm with slow admissions" // see slow
)

// What is measured of a storm. Times count from the instant at which the API server accepted the first taint, up to
// those at which it accepted deletes.
const (
	stormTotal  = "total, s"
	stormFirst  = "first delete, ms"
	callsPerPod = "calls per pod, without events"
)

// storm puts each contestant in turn through two storms: one right after its start, and another.
func (b *bench) storm(ctx context.Context) error {
	if err := b.ensureNodes(ctx, stormNodes); err != nil {
		return err
	}
	b.say("\nstorm: %d pods on %d nodes are due at once", stormPods, stormNodes)
	return b.take(ctx, turns{
		every: []string{nameFloor, nameOurs, namePrevious, nameCoexist, nameUnlimited},
		once:  []string{nameBuiltIn},
		before: func(ctx context.Context) error {
			return errors.Join(b.newClock(ctx), b.createStormPods(ctx, stormNodes))
		},
		play: func(ctx context.Context, p *process) error {
			if err := b.weather(ctx, p, stormFresh, stormNodes); err != nil {
				return err
			}
			if err := errors.Join(b.createStormPods(ctx, stormNodes), await.Pause(ctx, settleTime)); err != nil {
				return err
			}
			return b.weather(ctx, p, stormWarm, stormNodes)
		},
	})
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
	b.say("  %d pods of %d bytes", stormPods, created[0].Size())
	return nil
}

// weather puts a process through a storm, notes how it did, and cleans up.
func (b *bench) weather(ctx context.Context, p *process, storm string, nodes int) error {
	round, err := b.stormRound(ctx, p, nodes)
	if err != nil {
		return fmt.Errorf("%s: %w", storm, err)
	}
	b.note(storm, p.name, round)
	return errors.Join(b.untaintAll(ctx, nodeNames(nodes)), b.removePods(ctx))
}

// stormRound is the storm itself. Calls are counted, and memory is measured, once nothing more happens.
func (b *bench) stormRound(ctx context.Context, p *process, nodes int) (figures, error) {
	if p.name == nameFloor { // it learns which pods there are
		if err := errors.Join(p.sendLine(), p.expectLine()); err != nil {
			return nil, err
		}
	}
	mark, err := b.audit.mark()
	if err != nil {
		return nil, err
	}
	used, err := b.measured(ctx, p, func(ctx context.Context) error {
		if err := b.taintAtOnce(ctx, p, nodeNames(nodes)); err != nil {
			return err
		}
		_, err := b.audit.awaitDeletes(ctx, mark, stormPods, stormLimit)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := await.Pause(ctx, settleTime); err != nil {
		return nil, err
	}
	calls, err := b.audit.since(mark)
	if err != nil {
		return nil, err
	}
	memory, err := p.memory()
	return slices.Concat(stormFigures(calls), used, memory), err
}

// taintAtOnce taints nodes in parallel, and lets the floor begin at the first that is accepted.
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
	var err error
	if p.name == nameFloor {
		err = p.sendLine()
	}
	return errors.Join(err, group.Wait())
}

func stormFigures(calls []call) figures {
	var start time.Time // of the storm: the first accepted taint
	for _, at := range taintings(calls) {
		if start.IsZero() || at.Before(start) {
			start = at
		}
	}
	var after []float64
	for _, accepted := range deletes(calls) {
		after = append(after, accepted.Sub(start).Seconds())
	}
	counts, all := countCalls(calls), 0
	var kinds figures
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		if kinds = append(kinds, figure{what, float64(counts[what])}); !strings.HasSuffix(what, " events") {
			all += counts[what]
		}
	}
	return append(figures{
		{stormTotal, quantile(after, 1)}, {stormFirst, quantile(after, 0) * 1000},
		{"median delete, ms", median(after) * 1000}, {callsPerPod, float64(all) / stormPods},
	}, kinds...)
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

const (
	// slowNodes is the number of nodes over which the pods with slow deletes are spread.
	slowNodes = 100
	// slowReview is how long the webhook takes for one.
	slowReview = 2 * time.Second
	// slowTimeout is how long the API server would wait for it, in seconds.
	slowTimeout = 10
	slowWebhook = "slow.bench.taintkeeper.dev"
)

// slow is a storm whose deletes take two seconds each, as a webhook takes its time over them. The built-in with its
// default limits would be as slow as in any storm, and the floor would only show how many workers it has, so these two
// take no part.
func (b *bench) slow(ctx context.Context) (err error) {
	if err := b.ensureNodes(ctx, slowNodes); err != nil {
		return err
	}
	webhook, err := admission.Serve(takeTime)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, webhook.Close()) }()
	configurations := b.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(ctx, slowConfiguration(webhook), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register the webhook: %w", err)
	}
	defer func() { err = errors.Join(err, configurations.Delete(ctx, slowWebhook, metav1.DeleteOptions{})) }()

	b.say("\nslow: %d pods on %d nodes are due at once, and each delete takes %s", stormPods, slowNodes, slowReview)
	return b.take(ctx, turns{
		every: []string{nameOurs, nameUnlimited}, once: []string{namePrevious},
		before: func(ctx context.Context) error { return b.createStormPods(ctx, slowNodes) },
		play: func(ctx context.Context, p *process) error {
			if err := await.Pause(ctx, settleTime); err != nil {
				return err
			}
			return b.weather(ctx, p, stormSlow, slowNodes)
		},
	})
}

// takeTime admits everything, but only after a while.
func takeTime(ctx context.Context, _ *metav1.PartialObjectMetadata) *metav1.Status {
	_ = await.Pause(ctx, slowReview) // when it ends earlier, nobody waits for the answer any longer
	return nil
}

// slowConfiguration makes the API server ask the webhook about the pods of the storm, and only when a contestant
// deletes them.
func slowConfiguration(webhook *admission.Webhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: slowWebhook},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         slowWebhook,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &webhook.URL, CABundle: webhook.Bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{partLabel: partStorm}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "contestants", Expression: fmt.Sprintf("request.userInfo.username != %q", adminUser),
			}},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			TimeoutSeconds:          new(int32(slowTimeout)),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
