// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// The controllers, as the flag --controllers names them.
const (
	controllerEviction      = "eviction"
	controllerNodeHealth    = "node-health"
	controllerNodeTaintRule = "node-taint-rule"
)

var knownControllers = []string{controllerEviction, controllerNodeHealth, controllerNodeTaintRule}

// defaultControllers can run next to a kube-controller-manager with default flags.
var defaultControllers = []string{controllerEviction, controllerNodeTaintRule}

// comparisonOperators is the one feature gate of Kubernetes that matters here (KEP-5471).
const comparisonOperators = "TaintTolerationComparisonOperators"

type options struct {
	kubeconfig          string
	controllers         []string
	featureGates        map[string]string
	dryRun              bool
	shadow              bool
	coexist             bool
	coexistQPS          float32
	concurrentEvictions int
	stampTaints         bool
	kubeAPIQPS          float32
	kubeAPIBurst        int
	metricsAddress      string
	metricsCertDir      string
	healthAddress       string
	logFormat           string
	logLevel            int
	election            electionOptions
	nodeHealth          nodeHealthOptions
	nodeHealthLeftOut   bool // by avoidRival, although it is asked for
}

type electionOptions struct {
	enabled       bool
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration
	namespace     string
	name          string
}

func newCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "taintkeeper",
		Short: "Evicts pods from nodes with NoExecute taints, and taints nodes that are not healthy: on time, once, and never by mistake",
		Long: `Taintkeeper runs alongside an unchanged kube-controller-manager: apply config/coexistence.yaml and set --coexist. The
built-in taint-eviction-controller then evicts only while no Taintkeeper can.

It can also take the place of two controllers of kube-controller-manager. Switch these off first:
  eviction      kube-controller-manager --controllers=*,-taint-eviction-controller
  node-health   kube-controller-manager --controllers=*,-node-lifecycle-controller (not alongside the built-in one)

  node-taint-rule   taints nodes according to NodeTaintRules, and replaces nothing. It waits until the resource
                    NodeTaintRule (config/crd.yaml) is installed.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(command.Context(), o)
		},
	}
	o.addFlags(command.Flags())
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; see taintkeeper --help", sentence.OfFlag(err))
	})
	return command
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; the default is the in-cluster configuration, then the usual kubeconfig rules")
	flags.StringSliceVar(&o.controllers, "controllers", defaultControllers, "controllers to run, in kube-controller-manager's syntax: '*' runs all, 'name' runs one, '-name' leaves one out; available: "+strings.Join(knownControllers, ", "))
	flags.StringToStringVar(&o.featureGates, "feature-gates", nil, "Kubernetes feature gates, set as in the API server: "+comparisonOperators+"=true|false (default false)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "observe, log, count and write events marked as a dry run, but change nothing")
	flags.BoolVar(&o.shadow, "shadow", false, "compare what the built-in taint-eviction-controller does with what taints and tolerations require, write the differences to ConfigMap "+v1alpha1.ShadowConfigMap+", and change nothing else")
	flags.BoolVar(&o.coexist, "coexist", false, "keep the built-in taint-eviction-controller from evicting while this process can evict, with the admission policy of config/coexistence.yaml; the built-in controller evicts again if no replica has renewed the eviction clock for 30 s")
	flags.Float32Var(&o.coexistQPS, "coexist-kube-api-qps", coexist.DefaultKubeAPIQPS, "calls per second that kube-controller-manager may make (its flag --kube-api-qps), which cannot be read from outside; with --coexist, Taintkeeper computes from it how long the built-in controller's backlog of evictions lasts")
	flags.IntVar(&o.concurrentEvictions, "concurrent-evictions", eviction.DefaultConcurrentEvictions, "evictions in flight at the same time, from 1 to 100, not counting up to four times as many that take longer than a quarter of a second")
	flags.BoolVar(&o.stampTaints, "stamp-taints", true, "write timeAdded on NoExecute taints that have none, so that countdowns survive a restart; if false, evictions do not need the right to patch nodes, except with --coexist")
	flags.Float32Var(&o.kubeAPIQPS, "kube-api-qps", 0, "calls per second to the API server; 0 sets no limit and relies on the API server's priority and fairness")
	flags.IntVar(&o.kubeAPIBurst, "kube-api-burst", 0, "calls in one burst, if --kube-api-qps is set; 0 means twice the rate")
	o.nodeHealth.addFlags(flags)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of /metrics; 0 disables it; beyond the loopback interface it is served with TLS, and only to clients that may get the URL /metrics")
	flags.StringVar(&o.metricsCertDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for /metrics beyond the loopback interface; if empty, a self-signed certificate is generated")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", "127.0.0.1:8081",
		"address of /healthz and /readyz; 0 disables them")
	flags.StringVar(&o.logFormat, "log-format", "text", "format of the log: text or json")
	flags.IntVarP(&o.logLevel, "v", "v", 0, fmt.Sprintf("log verbosity, from 0 to %d: 0 logs each eviction, 1 also each failed attempt, 6 also each request to the API server", maxLogLevel))
	flags.BoolVar(&o.election.enabled, "leader-elect", true, "elect a leader among the replicas; the others stand by with warm caches (a dry run and shadow mode take no part)")
	flags.DurationVar(&o.election.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a standby waits before it takes over from a leader that no longer renews")
	flags.DurationVar(&o.election.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader tries to renew before it gives up")
	flags.DurationVar(&o.election.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"time between tries to acquire or renew")
	flags.StringVar(&o.election.namespace, "leader-elect-resource-namespace", "kube-system", "namespace of the Lease, of the eviction clock of --coexist, and of the report of --shadow")
	flags.StringVar(&o.election.name, "leader-elect-resource-name", "taintkeeper", "name of the Lease")
}

// validate returns one sentence about each invalid value.
func (o *options) validate() error {
	return errors.Join(
		o.validateControllers(),
		o.validateShadow(),
		o.validateFeatureGates(),
		require(!o.coexist || o.enabled(controllerEviction), "--coexist: it keeps kube-controller-manager from evicting, and --controllers=%s does not evict either; remove one of the two", strings.Join(o.controllers, ",")),
		require(!o.coexist || !o.elects() || o.election.leaseDuration+o.election.takeOver() <= coexist.Lapse, "--leader-elect-lease-duration=%s: with --coexist a standby must take over before kube-controller-manager does, so this and --leader-elect-retry-period (%s) are too long; set at most 18s and 2s", o.election.leaseDuration, o.election.retryPeriod),
		require(o.coexistQPS > 0, "--coexist-kube-api-qps=%g: it must be more than zero; use the value of kube-controller-manager's --kube-api-qps, %d by default", o.coexistQPS, coexist.DefaultKubeAPIQPS),
		require(!o.coexist || !o.dryRun, "--coexist: with --dry-run nothing would evict; remove one of the two"),
		require(o.concurrentEvictions >= 1 && o.concurrentEvictions <= eviction.MaxConcurrentEvictions, "--concurrent-evictions=%d: choose 1 to %d", o.concurrentEvictions, eviction.MaxConcurrentEvictions),
		require(o.kubeAPIQPS >= 0, "--kube-api-qps=%g: it cannot be negative; 0 means no limit", o.kubeAPIQPS),
		require(o.kubeAPIBurst >= 0, "--kube-api-burst=%d: it cannot be negative; 0 means twice --kube-api-qps", o.kubeAPIBurst),
		require(o.kubeAPIBurst <= 0 || o.kubeAPIQPS > 0, "--kube-api-burst=%d: it has no effect without --kube-api-qps; set both or neither", o.kubeAPIBurst),
		require(o.logFormat == "text" || o.logFormat == "json", "--log-format=%q: it must be text or json", o.logFormat),
		require(o.logLevel >= 0 && o.logLevel <= maxLogLevel, "--v=%d: it must be from 0 to %d", o.logLevel, maxLogLevel),
		validateAddress("--metrics-bind-address", o.metricsAddress),
		o.validateMetricsCertDir(),
		validateAddress("--health-probe-bind-address", o.healthAddress),
		o.election.validate(),
		o.nodeHealth.validate(),
	)
}

func (e *electionOptions) validate() error {
	namespace := validateName("--leader-elect-resource-namespace", e.namespace, validation.IsDNS1123Label)
	if !e.enabled {
		return namespace // the eviction clock and the report of shadow mode are in it, too
	}
	return errors.Join(
		namespace,
		require(e.retryPeriod > 0, "--leader-elect-retry-period=%s: it must be more than zero", e.retryPeriod),
		require(float64(e.renewDeadline) > leaderelection.JitterFactor*float64(e.retryPeriod), "--leader-elect-renew-deadline=%s: it must be more than %v times --leader-elect-retry-period (%s)", e.renewDeadline, leaderelection.JitterFactor, e.retryPeriod),
		require(e.leaseDuration >= time.Second, "--leader-elect-lease-duration=%s: it must be at least 1s, because a Lease counts whole seconds", e.leaseDuration),
		require(e.leaseDuration > e.renewDeadline, "--leader-elect-lease-duration=%s: it must be more than --leader-elect-renew-deadline (%s)", e.leaseDuration, e.renewDeadline),
		validateName("--leader-elect-resource-name", e.name, validation.IsDNS1123Subdomain),
	)
}

// takeOver is the longest that a standby takes to see that the Lease is free and to acquire it.
func (e *electionOptions) takeOver() time.Duration {
	return time.Duration(float64(e.retryPeriod)*(1+leaderelection.JitterFactor)) + time.Second
}

func (o *options) validateControllers() error {
	for _, item := range o.controllers {
		name := strings.TrimPrefix(item, "-")
		if item != "*" && !slices.Contains(knownControllers, name) {
			return fmt.Errorf("--controllers: there is no controller %q; available: %s", name, strings.Join(knownControllers, ", "))
		}
	}
	return require(len(o.running()) > 0, "--controllers=%s: this leaves nothing to run", strings.Join(o.controllers, ","))
}

// enabled reports whether a controller runs, using kube-controller-manager's rule: the first item that names it
// decides, otherwise a '*' anywhere. A shadow only compares evictions, so it follows no rules although they are on by
// default.
func (o *options) enabled(controller string) bool {
	return builtin.SwitchedOn(o.controllers, controller) && (!o.shadow || controller != controllerNodeTaintRule)
}

// running returns the names of the controllers that run.
func (o *options) running() []string {
	return slices.DeleteFunc(slices.Clone(knownControllers), func(name string) bool { return !o.enabled(name) })
}

func (o *options) validateFeatureGates() error {
	for gate, value := range o.featureGates {
		if gate != comparisonOperators {
			return fmt.Errorf("--feature-gates: %q is unknown; the only feature gate is %s", gate, comparisonOperators)
		}
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("--feature-gates: %s=%q: it must be true or false", gate, value)
		}
	}
	return nil
}

func (o *options) matcher() taints.Matcher {
	on, _ := strconv.ParseBool(o.featureGates[comparisonOperators]) // validated; absent means false
	return taints.Matcher{ComparisonOperators: on}
}

func (o *options) mode() eviction.Mode {
	if o.dryRun {
		return eviction.DryRun
	}
	return eviction.Evict
}

// validateShadow refuses flags that make no sense while the built-in controller keeps evicting.
func (o *options) validateShadow() error {
	if !o.shadow {
		return nil
	}
	return errors.Join(
		require(!o.dryRun, "--shadow and --dry-run: choose one; --dry-run reports what would be evicted, --shadow compares it with what the built-in controller evicts"),
		require(!o.coexist, "--shadow and --coexist: choose one; --coexist keeps the built-in controller from evicting, and --shadow needs its evictions to compare"),
		require(!o.enabled(controllerNodeHealth), "--shadow compares evictions only: leave node-health out of --controllers"),
		require(o.enabled(controllerEviction), "--shadow compares evictions: add eviction to --controllers"),
	)
}

// watchesPods reports whether any controller that runs watches pods.
func (o *options) watchesPods() bool {
	return o.enabled(controllerEviction) || o.enabled(controllerNodeHealth)
}

// stampsTaints reports whether evictions patch nodes. The hand-back of coexistence does, too.
func (o *options) stampsTaints() bool {
	return o.enabled(controllerEviction) && (o.stampTaints || o.coexist)
}

// changes reports whether the process may change anything but events and, in a dry run, its own Lease, or, in shadow
// mode, its report.
func (o *options) changes() bool { return !o.dryRun && !o.shadow }

// elects reports whether to take part in an election. A dry run and a shadow do not: they run
// next to the leader, and a Lease would be a change.
func (o *options) elects() bool { return o.election.enabled && o.changes() }

func validateAddress(flag, address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s=%q: it must be host:port, such as 127.0.0.1:8080, or 0 to disable it", flag, address)
	}
	return nil
}

func validateName(flag, name string, valid func(string) []string) error {
	if problems := valid(name); len(problems) > 0 {
		return fmt.Errorf("%s=%q: %s", flag, name, strings.Join(problems, "; "))
	}
	return nil
}

func require(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}
