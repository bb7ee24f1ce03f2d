// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/controller/policies"
	"github.com/taintkeeper/taintkeeper/internal/controller/rules"
	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// shutdownTimeout is how long calls in flight may take to finish after a signal. It is longer than
// the longest call.
const shutdownTimeout = 40 * time.Second

func run(ctx context.Context, o *options) error {
	log := newLogger(o, os.Stderr)
	if err := shareLogger(log, o.logLevel); err != nil {
		return err
	}
	config, err := loadConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "taintkeeper/" + version
	config.QPS = -1 // see eviction.Config.Limiter
	clock := &timeline.Clock{}
	config = clock.Listen(config)
	if err := preflight(ctx, config, log, o); err != nil {
		return err
	}
	mgr, err := newManager(config, log, o)
	if err != nil {
		return fmt.Errorf("set up the controller manager: %w", err)
	}
	parts, err := newParts(config, clock, log, o)
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	for _, part := range parts {
		if err := part.AddTo(mgr); err != nil {
			return fmt.Errorf("add the controllers: %w", err)
		}
	}
	if err := addHealth(mgr, parts); err != nil {
		return fmt.Errorf("add the health checks: %w", err)
	}
	log.Info("Starting", "version", version, "server", config.Host, "controllers", o.running(),
		"dryRun", o.dryRun, "shadow", o.shadow, "leaderElect", o.elects())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	for _, part := range parts {
		if part.stop != nil {
			err = errors.Join(err, part.stop(context.WithoutCancel(ctx)))
		}
	}
	return err
}

// stamps reports whether timeAdded is written to taints that have none.
func (o *options) stamps() bool {
	return o.stampTaints && !o.dryRun && !o.shadow && o.enabled(controllerEviction)
}

// heldBinding is the name of the binding of the admission policy for ifDown: Hold, as the chart names it; empty where
// the built-in does not run.
func (o *options) heldBinding() string {
	const name = "taintkeeper-held"
	switch {
	case !o.coexist:
		return ""
	case o.election.namespace == metav1.NamespaceSystem:
		return name
	}
	return name + "." + o.election.namespace
}

// limiter makes the rate limit that the flags set, if any.
func (o *options) limiter() *rate.Limiter {
	if o.kubeAPIQPS == 0 {
		return nil
	}
	burst := o.kubeAPIBurst
	if burst == 0 {
		burst = max(1, int(2*o.kubeAPIQPS))
	}
	return rate.NewLimiter(rate.Limit(o.kubeAPIQPS), burst)
}

// eventConfig is the configuration of the client that writes events.
func eventConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = apicall.EventsPerSecond, apicall.EventsPerSecond
	return config
}

func newManager(config *rest.Config, log logr.Logger, o *options) (manager.Manager, error) {
	lock := &electionLock{}
	mgr, err := ctrl.NewManager(config, manager.Options{
		Logger:                        log,
		Metrics:                       o.metricsServer(),
		HealthProbeBindAddress:        o.healthAddress,
		GracefulShutdownTimeout:       new(shutdownTimeout),
		LeaderElection:                o.elects(),
		LeaderElectionID:              o.election.name, // a label of the metric that shows who leads
		LeaseDuration:                 new(o.election.leaseDuration),
		RenewDeadline:                 new(o.election.renewDeadline),
		RetryPeriod:                   new(o.election.retryPeriod),
		LeaderElectionReleaseOnCancel: true, // nothing runs on after Start returns

		LeaderElectionResourceLockInterface: lock,
	})
	if err != nil {
		return nil, err
	}
	return mgr, lock.connect(config, mgr, o)
}

// runs is what runs on its own: in a manager, or in tests without one.
type runs interface {
	AddTo(mgr manager.Manager) error
	Run(ctx context.Context) error
}

// part is a part of the process. Functions that it does not need are nil.
type part struct {
	runs

	// synced reports whether its initial lists are complete. ready says why it cannot do its work.
	synced func() bool
	ready  func() error
	// stop is what remains to be done once nothing runs any more.
	stop func(ctx context.Context) error
}

// newParts makes the parts that the flags ask for.
func newParts(config *rest.Config, clock *timeline.Clock, log logr.Logger, o *options) ([]part, error) {
	clients, err := newClients(config, clock)
	if err != nil {
		return nil, err
	}
	return clients.parts(log, metrics.Registry, o)
}

// clients are the clients of the process. Large watches have connections of their own.
type clients struct {
	api, events, pods, leases, echo kubernetes.Interface

	whole     kubernetes.Interface // decodes pods completely
	reconnect func()               // closes the connection of leases
	labels    *podwire.Labels      // the labels of pods that api and pods decode
	clock     *timeline.Clock      // hears the answers to all clients
	custom    client.WithWatch     // of our own resources, and of metadata
	rivals    rivals
}

func newClients(config *rest.Config, clock *timeline.Clock) (*clients, error) {
	c := &clients{clock: clock, labels: &podwire.Labels{}}
	leases, reconnect := apicall.Apart(apicall.Gathered(apicall.Config(config), nodehealth.GatherLeases))
	echo, _ := apicall.Apart(apicall.Config(config))
	c.reconnect = reconnect
	for _, typed := range []struct {
		into   *kubernetes.Interface
		config *rest.Config
		make   func(*rest.Config) (kubernetes.Interface, error)
	}{
		{&c.api, apicall.Config(config), c.podClient},
		{&c.pods, apicall.Gathered(apicall.Config(config), podcache.Gather), c.podClient},
		{&c.whole, apicall.Config(config), newClient},
		{&c.events, eventConfig(config), newClient},
		{&c.leases, leases, newClient},
		{&c.echo, echo, newClient},
	} {
		var err error
		if *typed.into, err = typed.make(typed.config); err != nil {
			return nil, err
		}
	}
	var err error
	if c.custom, err = customClient(config); err != nil {
		return nil, err
	}
	c.rivals, err = newRivals(c.whole, apicall.Config(config)) // c.api decodes no command lines
	return c, err
}

// podClient makes a client that decodes of pods only what controllers need.
func (c *clients) podClient(config *rest.Config) (kubernetes.Interface, error) {
	return podwire.NewForConfig(config, c.labels)
}

func newClient(config *rest.Config) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(config)
}

// parts makes the parts that the flags ask for. They share one watch of nodes and one of pods.
func (c *clients) parts(log logr.Logger, registerer prometheus.Registerer, o *options) ([]part, error) {
	standing, err := newStanding(registerer, o)
	if err != nil {
		return nil, err
	}
	nodes := nodecache.New(nodecache.Config{Client: c.api, Clock: c.clock, NeverStamped: !o.stamps()})
	pods, limiter := podcache.New(c.pods, c.clock), o.limiter()
	parts := []part{{runs: standing}, watched(nodes)}
	if o.watchesPods() {
		parts = append(parts, watched(pods))
		if o.elects() {
			parts = append(parts, part{runs: c.newHolderWatch(pods, standing.holderUnknown, log, o)})
		}
	}
	if o.shadow {
		comparison, err := shadow.New(shadow.Config{
			Client: c.api, Namespace: o.election.namespace, EventClient: c.events, Nodes: nodes, Pods: pods, Clock: c.clock,
			Rule:       verdict.Rule{Matcher: o.matcher()},
			Registerer: registerer,
			Logger:     log,
		})
		if err != nil {
			return nil, err
		}
		return append(parts, part{runs: comparison, synced: comparison.HasSynced}), nil
	}
	if o.enabled(controllerEviction) {
		evicting, err := c.newEviction(nodes, pods, limiter, log, registerer, o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, evicting...)
	}
	if o.enabled(controllerNodeHealth) {
		health, err := c.newNodeHealth(nodes, pods, limiter, log, registerer, o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, health...)
	}
	if !o.enabled(controllerNodeTaintRule) {
		return parts, nil
	}
	controller, err := rules.New(rules.Config{
		Client: c.api, EventClient: c.events, Rules: c.custom, Nodes: nodes, Clock: c.clock,
		DryRun:     o.dryRun,
		Limiter:    limiter,
		Registerer: registerer,
		Logger:     log,
	})
	if err != nil {
		return nil, err
	}
	return append(parts, part{runs: controller, synced: controller.HasSynced}), nil
}

// newNodeHealth makes node health, and the watch for a built-in that appears later. A dry run may run next to a
// built-in.
func (c *clients) newNodeHealth(
	nodes *nodecache.Cache, pods *podcache.Cache, limiter *rate.Limiter,
	log logr.Logger, registerer prometheus.Registerer, o *options,
) ([]part, error) {
	health, err := nodehealth.New(nodehealth.Config{
		Client: c.api, LeaseClient: c.leases, EchoClient: c.echo, EventClient: c.events, Reconnect: c.reconnect,
		Nodes: nodes, Pods: pods, Clock: c.clock,
		Grace:      o.nodeHealth.Grace(),
		Policy:     o.nodeHealth.Policy(),
		DryRun:     o.dryRun,
		Limiter:    limiter,
		Registerer: registerer,
		Logger:     log,
	})
	if err != nil {
		return nil, err
	}
	if warning := o.nodeHealth.Grace().Warning(); warning != "" {
		log.Info("The grace period for silent nodes is too short", "reason", warning)
	}
	parts := []part{{runs: health, synced: health.HasSynced, ready: health.Ready}}
	if !o.dryRun {
		parts = append(parts, part{runs: rivalWatch{c.rivals, log}})
	}
	return parts, nil
}

// newEviction makes the evictor, and with --coexist what keeps the built-in from evicting meanwhile.
func (c *clients) newEviction(
	nodes *nodecache.Cache, pods *podcache.Cache, limiter *rate.Limiter,
	log logr.Logger, registerer prometheus.Registerer, o *options,
) ([]part, error) {
	follower, err := policies.New(policies.Config{
		Client: c.custom, Core: c.whole, Nodes: nodes, Pods: pods, Labels: c.labels, Clock: c.clock,
		Rule:        verdict.Rule{Matcher: o.matcher()},
		HeldBinding: o.heldBinding(),
		Limiter:     limiter,
		DryRun:      o.dryRun,
		Logger:      log,
	})
	if err != nil {
		return nil, err
	}
	config := eviction.Config{
		Client: c.api, EventClient: c.events, Nodes: nodes, Pods: pods, Clock: c.clock, Policies: follower,
		NeverStamp:          !o.stampTaints,
		Rule:                verdict.Rule{Matcher: o.matcher()},
		Mode:                o.mode(),
		Limiter:             limiter,
		ConcurrentEvictions: o.concurrentEvictions,
		Registerer:          registerer,
		Logger:              log,
	}
	var account *coexist.Account
	if o.coexist {
		account = coexist.NewAccount(coexist.AccountConfig{
			Client: c.api, Clock: c.clock, Nodes: nodes, Pods: pods, Rule: verdict.Rule{Matcher: o.matcher()},
			Namespace: o.election.namespace, KubeAPIQPS: o.coexistQPS,
		})
		config.BuiltIn = account
	}
	evictor, err := eviction.New(config)
	if err != nil {
		return nil, err
	}
	parts := []part{
		{runs: follower, synced: follower.HasSynced, ready: follower.Ready},
		{runs: evictor, synced: evictor.HasSynced},
	}
	if !o.coexist {
		return parts, nil
	}
	coexisting := coexist.Config{
		Client: c.api, Clock: c.clock, Account: account, Pods: pods, Evictor: evictor,
		Namespace:  o.election.namespace,
		Registerer: registerer,
		Logger:     log,
	}
	if o.elects() {
		coexisting.Lease, coexisting.TakeOver = o.election.name, o.election.takeOver()
	}
	renewer, err := coexist.New(coexisting)
	if err != nil {
		return nil, err
	}
	return append(parts, part{runs: renewer, stop: renewer.HandBack}), nil
}

// customClient makes a client for our own resources. Whether they are installed is checked later, and repeatedly.
func customClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := v1alpha1.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// watched is a cache that the other parts share, in every replica.
func watched(shared interface {
	Run(ctx context.Context) error
	HasSynced() bool
}) part {
	var parts stage.Parts
	parts.InEveryReplica(shared.Run)
	return part{runs: &parts, synced: shared.HasSynced}
}

func addHealth(mgr manager.Manager, parts []part) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	ready := func(*http.Request) (err error) {
		for _, p := range parts {
			if p.ready != nil {
				err = errors.Join(err, p.ready())
			}
		}
		return err
	}
	if err := mgr.AddReadyzCheck("able", ready); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(*http.Request) error {
		if slices.ContainsFunc(parts, func(p part) bool { return p.synced != nil && !p.synced() }) {
			return errors.New("the initial lists of watched objects are not complete yet")
		}
		return nil
	})
}
