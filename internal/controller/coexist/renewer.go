// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coexist keeps the built-in taint-eviction-controller from evicting for as long as this process can.
//
// A ValidatingAdmissionPolicy (config/coexistence.yaml) refuses the condition with which the built-in begins an
// eviction, as long as an annotation of a ServiceAccount, the eviction clock, was renewed within the last 30 seconds.
// The leader renews it every 5 seconds. If it dies the clock stops, and the built-in evicts again; none of our
// processes needs to run for that. Evictions that the built-in began meanwhile stay refused for some minutes, as
// further annotations say: see [builtin.Hold].
package coexist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
)

const (
	validFor = v1alpha1.EvictionClockValidFor
	// renewEvery is how often the clock is renewed, and retryEvery how often a failed renewal is retried.
	renewEvery = 5 * time.Second
	retryEvery = time.Second
	// Lapse is how long after the death of a leader the next may take to renew the clock without the built-in evicting in
	// between. The dead leader may have been just about to renew it.
	Lapse = validFor - renewEvery
	// silentFor is how long a watch may bring nothing. Without changes, the API server sends the first bookmark after two
	// minutes and then one a minute. HTTP/2 pings detect a hanging connection sooner.
	silentFor = 150 * time.Second
	// stalledAfter is how long pods may be due before any eviction must have begun.
	stalledAfter = 30 * time.Second
	// giveUpAfter is how long this process may get no events or be stalled before it gives up the lead. No standby can
	// take over while it holds the Lease.
	giveUpAfter = validFor
)

// Evictor is the part that must be able to evict; see eviction.Evictor.
type Evictor interface {
	HasSynced() bool
	Versions() []string
	Stalled(after time.Duration) bool
	Overdue() map[string]eviction.Overdue
	Spares(live *corev1.Node) bool
}

// Config is what a ClockRenewer needs.
type Config struct {
	Client kubernetes.Interface
	// Clock listens to the answers that Client gets.
	Clock *timeline.Clock
	// Account is renewed, in Namespace. The Evictor tells it what the built-in does.
	Account *Account
	Pods    *podcache.Cache
	Evictor Evictor
	// Namespace is where the ServiceAccount is, and the Lease.
	Namespace string
	// Lease is the name of the Lease with which replicas elect a leader; empty if they do not. TakeOver is the longest
	// that a standby takes to see that the Lease is free.
	Lease    string
	TakeOver time.Duration
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	Logger     logr.Logger
}

// ClockRenewer renews the eviction clock. It is safe for concurrent use.
type ClockRenewer struct {
	config  Config
	metrics *metrics
	parts   stage.Parts

	mu       sync.Mutex
	term     int32     // the leaseTransitions under which this process leads or has led; -1 until that is known
	renewed  time.Time // when the last renewal was accepted; zero for none
	versions []string  // of the watches
	moved    []time.Time
	said     string // why the clock is not renewed, as the log has it
}

// New makes a ClockRenewer. Nothing is renewed before Run is called, or a manager to which it was added starts and
// leads.
func New(config Config) (*ClockRenewer, error) {
	r := &ClockRenewer{config: config, metrics: newMetrics(config.Account), term: -1}
	if err := r.metrics.register(config.Registerer); err != nil {
		return nil, err
	}
	r.parts.InLeader(manager.RunnableFunc(r.lead))
	return r, nil
}

// Run renews the clock, without a manager or an election, until the context ends.
func (r *ClockRenewer) Run(ctx context.Context) error { return r.parts.Run(ctx) }

// AddTo adds the ClockRenewer to a manager. It renews only in the leader.
func (r *ClockRenewer) AddTo(mgr manager.Manager) error { return r.parts.AddTo(mgr) }

func (r *ClockRenewer) lead(ctx context.Context) error {
	r.config.Pods.Subscribe(r.observe)
	able := r.config.Clock.Now()
	for ctx.Err() == nil {
		next, err := r.renewIfAble(ctx)
		if !errors.Is(err, errSilent) && !errors.Is(err, errStalled) {
			able = r.config.Clock.Now()
		}
		if unable := r.config.Clock.Since(able); unable > giveUpAfter {
			return fmt.Errorf("give up leadership, so that another replica or a new process evicts: unable to evict for %s: %w", unable.Round(time.Second), err)
		}
		r.waitForNext(ctx, next)
	}
	return nil
}

// waitForNext waits for the next try. Nodes that are spared meanwhile are recorded at once, because the built-in may
// have begun to evict their pods.
func (r *ClockRenewer) waitForNext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.config.Account.spares:
			if err := r.config.Account.record(ctx); err != nil {
				r.logChange(err)
				return
			}
		}
	}
}

// renewIfAble renews the clock if this process can evict. It returns why it did not, and when to try next.
func (r *ClockRenewer) renewIfAble(ctx context.Context) (time.Duration, error) {
	err := cmp.Or(r.unable(r.config.Clock.Now()), r.noteTerm(ctx))
	if err == nil {
		err = r.renew(ctx)
	}
	r.logChange(err)
	if err != nil {
		r.metrics.renewals.WithLabelValues(renewalNotDone).Inc()
		return retryEvery, err
	}
	r.metrics.renewals.WithLabelValues(renewalDone).Inc()
	return renewEvery, nil
}

// Why the clock is not renewed.
var (
	errNotSynced = errors.New("the lists of nodes and pods are not complete yet")
	errSilent    = errors.New("the watches of nodes and pods have delivered nothing for too long")
	errStalled   = errors.New("pods are due and no eviction is beginning")
)

// unable returns why this process cannot evict, as far as it can tell.
func (r *ClockRenewer) unable(at time.Time) error {
	switch {
	case !r.config.Evictor.HasSynced():
		return errNotSynced
	case !r.hears(at):
		return errSilent
	case r.config.Evictor.Stalled(stalledAfter):
		return errStalled
	}
	return nil
}

// hears reports whether both watches brought something recently.
func (r *ClockRenewer) hears(at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := r.config.Evictor.Versions()
	if len(r.moved) == 0 {
		r.moved = make([]time.Time, len(versions))
		r.versions = make([]string, len(versions))
	}
	hears := true
	for i, version := range versions {
		if version != r.versions[i] || r.moved[i].IsZero() {
			r.versions[i], r.moved[i] = version, at
		}
		hears = hears && at.Sub(r.moved[i]) <= silentFor
	}
	return hears
}

// needed are the permissions without which nothing is evicted.
var needed = []authorizationv1.ResourceAttributes{
	{Verb: "patch", Resource: "pods", Subresource: "status"},
	{Verb: "delete", Resource: "pods"},
	{Verb: "get", Resource: "nodes"},
}

// renew asks the API server whether we still may evict, and writes the server's time into the clock. A server that does
// not answer within the time between two renewals counts as gone.
func (r *ClockRenewer) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if err := r.mayEvict(ctx); err != nil {
		return err
	}
	at := r.config.Clock.Now()
	if err := r.config.Account.Renew(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.renewed = at
	r.mu.Unlock()
	r.metrics.renewed.Set(float64(r.config.Clock.Shown(at).Unix()))
	return nil
}

func (r *ClockRenewer) mayEvict(ctx context.Context) error {
	for _, attributes := range needed {
		reviews := r.config.Client.AuthorizationV1().SelfSubjectAccessReviews()
		review, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server for our permissions: %w", err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("missing permission: %s %s", attributes.Verb, attributes.Resource)
		}
	}
	return nil
}

// fresh reports whether a renewal of ours keeps the built-in from evicting now.
func (r *ClockRenewer) fresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.renewed.IsZero() && r.config.Clock.Since(r.renewed) < Lapse
}

// logChange writes to the log when what keeps the clock from being renewed changes.
func (r *ClockRenewer) logChange(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	r.mu.Lock()
	before := r.said
	r.said = now
	r.mu.Unlock()
	switch {
	case now == before:
	case err != nil:
		r.config.Logger.Info("The eviction clock is not being renewed; once the clock is 30 s old, kube-controller-manager evicts", "reason", now)
	default:
		r.config.Logger.Info("The eviction clock is being renewed; kube-controller-manager does not evict")
	}
}

// observe counts the pods that the built-in marks, and warns of one that it marks although the clock is renewed.
func (r *ClockRenewer) observe(change podcache.Change) {
	if !newlyMarked(change) {
		return
	}
	if !r.fresh() {
		r.metrics.foreignMarks.WithLabelValues(clockStale).Inc()
		return
	}
	r.metrics.foreignMarks.WithLabelValues(clockFresh).Inc()
	r.config.Logger.Info("kube-controller-manager has marked a pod for eviction although the eviction clock is being renewed; check that the ValidatingAdmissionPolicy taintkeeper-coexistence (taintkeeper-coexistence.NAMESPACE outside kube-system) and its binding exist",
		"pod", klog.KRef(change.After.Namespace, change.After.Name), "node", change.After.Node)
}

func newlyMarked(change podcache.Change) bool {
	return change.Before != nil && change.After != nil &&
		!change.Before.Flags.Has(podcache.MarkedByBuiltIn) && change.After.Flags.Has(podcache.MarkedByBuiltIn)
}

// Values of labels.
const (
	renewalDone    = "renewed"
	renewalNotDone = "not_renewed"
	clockFresh     = "fresh"
	clockStale     = "stale"
)

type metrics struct {
	renewed      prometheus.Gauge
	renewals     *prometheus.CounterVec
	foreignMarks *prometheus.CounterVec
	backlog      []prometheus.Collector
}

func newMetrics(account *Account) *metrics {
	m := &metrics{
		renewed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "taintkeeper_eviction_clock_renewed_timestamp_seconds",
			Help: "When this process last renewed the eviction clock, in seconds since 1970; 0 if it never did.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_eviction_clock_renewals_total",
			Help: "Attempts to renew the eviction clock, by result: renewed, not_renewed (this process cannot evict now, or the API server did not accept the renewal).",
		}, []string{"result"}),
		foreignMarks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "taintkeeper_foreign_marks_total",
			Help: "Pods that kube-controller-manager marked for eviction, by whether the eviction clock was fresh (the admission policy should have refused the mark) or stale.",
		}, []string{"clock"}),
		backlog: backlogGauges(account),
	}
	for _, result := range []string{renewalDone, renewalNotDone} {
		m.renewals.WithLabelValues(result)
	}
	for _, clock := range []string{clockFresh, clockStale} {
		m.foreignMarks.WithLabelValues(clock)
	}
	return m
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return stage.Register(registerer, append(m.backlog, m.renewed, m.renewals, m.foreignMarks)...)
}

// backlogGauges are read from the Account when they are scraped.
func backlogGauges(account *Account) []prometheus.Collector {
	gauge := func(name, help string, value func(Backlog) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return value(account.Backlog())
		})
	}
	return []prometheus.Collector{
		gauge("taintkeeper_built_in_backlog_until_timestamp_seconds",
			"When the admission policy stops refusing the remaining evictions of kube-controller-manager, in seconds since 1970, as known to this process; 0 if none remain.",
			func(b Backlog) float64 {
				if b.Until.IsZero() {
					return 0
				}
				return float64(b.Until.Unix())
			}),
		gauge("taintkeeper_built_in_backlog_evictions",
			"Upper bound on the number of evictions that kube-controller-manager has begun and may still try, as known to this process.",
			func(b Backlog) float64 { return float64(b.Evictions) }),
		gauge("taintkeeper_spared_nodes",
			"Nodes with pods that were due and now stay, on which kube-controller-manager may not evict until its backlog is over, as known to this process; -1 if all nodes count as spared.",
			func(b Backlog) float64 {
				if b.AllSpared {
					return -1
				}
				return float64(len(b.Spared))
			}),
	}
}
