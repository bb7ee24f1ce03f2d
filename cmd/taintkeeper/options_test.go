// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
)

func parse(t *testing.T, args ...string) *options {
	t.Helper()
	o := &options{}
	flags := pflag.NewFlagSet("taintkeeper", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestABadValueIsNamedWithWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"--controllers=foo", `there is no controller "foo"; available: eviction, node-health, node-taint-rule`},
		{"--controllers=-eviction", "this leaves nothing to run"},
		{"--controllers=*,-eviction,-node-health,-node-taint-rule", "this leaves nothing to run"},
		{"--shadow --dry-run", "choose one"},
		{"--shadow --coexist", "choose one"},
		{"--shadow --controllers=node-taint-rule", "this leaves nothing to run"},
		{"--shadow --controllers=*", "leave node-health out of --controllers"},
		{"--node-monitor-grace-period=0s", "more than zero"},
		{"--coexist --controllers=node-health", "does not evict either"},
		{"--coexist --controllers=node-taint-rule", "does not evict either"},
		{"--coexist --leader-elect-lease-duration=30s", "before kube-controller-manager does"},
		{"--coexist --dry-run", "nothing would evict"},
		{"--leader-elect=false --leader-elect-resource-namespace=Not_A_Name", "--leader-elect-resource-namespace"},
		{"--concurrent-evictions=0", "choose 1 to 100"},
		{"--concurrent-evictions=101", "choose 1 to 100"},
		{"--kube-api-qps=-1", "0 means no limit"},
		{"--kube-api-burst=-1", "0 means twice --kube-api-qps"},
		{"--kube-api-burst=5", "set both or neither"},
		{"--node-monitor-period=-1s", "leave it out"},
		{"--log-format=xml", "it must be text or json"},
		{"--v=-1", "--v=-1: it must be from 0 to 7"},
		{"--v=8", "--v=8: it must be from 0 to 7"},
		{"--v=129", "--v=129: it must be from 0 to 7"},
		{"--v=256", "--v=256: it must be from 0 to 7"},
		{"--metrics-bind-address=8080", "it must be host:port"},
		{"--metrics-cert-dir=/certs", "--metrics-bind-address=127.0.0.1:8080 is on the loopback interface, where metrics are served without TLS"},
		{"--metrics-bind-address=:8443 --metrics-cert-dir=/nowhere", "/nowhere/tls.crt"},
		{"--health-probe-bind-address=127.0.0.1:99999", "it must be host:port"},
		{"--feature-gates=AllAlpha=true", "TaintTolerationComparisonOperators"},
		{"--feature-gates=TaintTolerationComparisonOperators=maybe", "it must be true or false"},
		{"--leader-elect-lease-duration=1s", "--leader-elect-renew-deadline (10s)"},
		{"--leader-elect-renew-deadline=1s", "--leader-elect-retry-period (2s)"},
		{"--leader-elect-retry-period=0s", "more than zero"},
		{"--leader-elect-renew-deadline=2100ms", "1.2 times --leader-elect-retry-period"},
		{"--leader-elect-lease-duration=900ms", "at least 1s"},
		{"--leader-elect-resource-namespace=Not_A_Name", "--leader-elect-resource-namespace"},
		{"--leader-elect-resource-name=", "--leader-elect-resource-name"},
	} {
		t.Run(test.args, func(t *testing.T) {
			err := parse(t, strings.Fields(test.args)...).validate()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a sentence with %q", err, test.want)
			}
		})
	}
}

func TestEveryBadValueIsNamedAtOnce(t *testing.T) {
	err := parse(t, "--concurrent-evictions=0", "--log-format=xml").validate()
	if err == nil || !strings.Contains(err.Error(), "--concurrent-evictions") || !strings.Contains(err.Error(), "--log-format") {
		t.Errorf("got %v, want both flags named", err)
	}
}

func TestControllersFollowKubeControllerManagersSyntax(t *testing.T) {
	for list, want := range map[string][]string{
		"*":                  {"eviction", "node-health", "node-taint-rule"},
		"eviction":           {"eviction"},
		"node-health":        {"node-health"},
		"node-taint-rule":    {"node-taint-rule"},
		"*,-node-taint-rule": {"eviction", "node-health"},
		"*,-eviction":        {"node-health", "node-taint-rule"},
		"-eviction,*":        {"node-health", "node-taint-rule"},
		"-eviction":          nil,
		"eviction,-eviction": {"eviction"},
		"-eviction,eviction": nil,
	} {
		o := &options{controllers: strings.Split(list, ",")}
		if got := o.running(); !slices.Equal(got, want) {
			t.Errorf("--controllers=%s runs %q, want %q", list, got, want)
		}
	}
	if got := parse(t).running(); !slices.Equal(got, []string{"eviction", "node-taint-rule"}) {
		t.Errorf("by default %q run; alongside the built-in node-lifecycle-controller it must be all but node-health", got)
	}
}

func TestTheDefaultsAreValidAndSafe(t *testing.T) {
	o := parse(t)
	if err := o.validate(); err != nil {
		t.Error(err)
	}
	if o.mode() != eviction.Evict || o.limiter() != nil || o.matcher().ComparisonOperators || !o.elects() {
		t.Errorf("unexpected defaults: %+v", o)
	}
	for _, address := range []string{o.metricsAddress, o.healthAddress} {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			t.Errorf("%s is not on the loopback interface", address)
		}
	}
}

func TestMetricsAreGuardedUnlessTheyStayOnTheLoopbackInterface(t *testing.T) {
	for address, want := range map[string]bool{
		"0":                      false, // there are none
		"127.0.0.1:8080":         false,
		"127.1.2.3:8080":         false,
		"[::1]:8080":             false,
		"[::ffff:127.0.0.1]:80":  false,
		"localhost:8080":         false,
		":8443":                  true,
		"0.0.0.0:8443":           true,
		"[::]:8443":              true,
		"10.0.0.1:8443":          true,
		"[fe80::1%eth0]:8443":    true,
		"localhost.example:8443": true,
		"metrics.example:8443":   true,
	} {
		o := parse(t, "--dry-run", "--metrics-bind-address="+address)
		asked := slices.ContainsFunc(neededPermissions(o, map[string]bool{rulesResource: true}), func(p permission) bool { return p.resource == "tokenreviews" })
		served := o.metricsServer()
		if served.SecureServing != want || (served.FilterProvider != nil) != want || asked != want {
			t.Errorf("%s: TLS %t, a filter %t, rights asked for %t; want %t", address, served.SecureServing, served.FilterProvider != nil, asked, want)
		}
		if err := o.validate(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestTheFlagsOfTheDeploymentAreValidAndServeItsPorts(t *testing.T) {
	objects, err := config.Objects(config.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	deployment, ok := objects[0].(*appsv1.Deployment)
	if !ok {
		t.Fatalf("the first object is a %T", objects[0])
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	o := parse(t, container.Args...)
	if err := o.validate(); err != nil {
		t.Error(err)
	}
	served := map[string]string{"https": o.metricsAddress, "health": o.healthAddress}
	for _, port := range container.Ports {
		if want := fmt.Sprintf(":%d", port.ContainerPort); served[port.Name] != want {
			t.Errorf("port %s is %s, and %q is served", port.Name, want, served[port.Name])
		}
	}
	if !o.guardsMetrics() {
		t.Error("everyone in the cluster may read metrics")
	}
}

// The hand-back patches taints.
func TestCoexistenceNeedsTheRightToPatchNodesWithoutStampsToo(t *testing.T) {
	o := &options{controllers: []string{controllerEviction}, coexist: true}
	if !slices.ContainsFunc(neededPermissions(o, map[string]bool{rulesResource: true}), func(p permission) bool {
		return p.resource == "nodes" && slices.Contains(p.verbs, "patch")
	}) {
		t.Error("it is not asked for at the start")
	}
}

// Apart from events, it may change only the lease that it renews to check that leases arrive.
func TestADryRunTakesNoPartInAnElectionAndNeedsNoRightToChange(t *testing.T) {
	o := parse(t, "--dry-run", "--controllers=*")
	if o.elects() || o.mode() != eviction.DryRun {
		t.Error("a dry run takes part in the election, or may change something")
	}
	for _, needed := range neededPermissions(o, map[string]bool{rulesResource: true}) {
		changes := slices.ContainsFunc(needed.verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
		if changes && needed.resource != "events" && needed.name != nodehealth.DryRunLease {
			t.Errorf("a dry run asks for %v %s", needed.verbs, needed)
		}
	}
}

func TestAShadowTakesNoPartInAnElectionAndNeedsNoRightButToLookAndReport(t *testing.T) {
	o := parse(t, "--shadow")
	if err := o.validate(); err != nil || o.elects() {
		t.Errorf("a shadow takes part in the election, or is refused: %v", err)
	}
	want := []string{
		"list, watch pods", "list, watch nodes", "create, patch events",
		"patch configmaps taintkeeper-shadow in namespace kube-system",
	}
	if needed := permissionsOf(o, true); !slices.Equal(needed, want) {
		t.Errorf("a shadow asks for %q, want %q", needed, want)
	}
}

// permissionsOf returns the permissions that flags require, without those for the election.
func permissionsOf(o *options, served bool) []string {
	var needed []string
	for _, right := range neededPermissions(o, map[string]bool{rulesResource: served, policiesResource: served}) {
		if right.namespace != "kube-system" || o.shadow {
			needed = append(needed, strings.Join(right.verbs, ", ")+" "+right.String())
		}
	}
	return needed
}

func TestEachControllerAsksForItsOwnRights(t *testing.T) {
	const (
		pods, evict, mark           = "list, watch pods", "get, delete pods", "patch pods/status"
		nodes, events, patch        = "get, list, watch nodes", "create, patch events", "patch nodes"
		leases, conditions, own     = "list, watch leases.coordination.k8s.io in namespace kube-node-lease", "patch nodes/status", "patch leases.coordination.k8s.io taintkeeper.dev in namespace kube-node-lease"
		policies, namespaces        = "list, watch evictionpolicies.taintkeeper.dev", "list, watch namespaces"
		budgets, policyStatuses     = "list, watch poddisruptionbudgets.policy", "patch evictionpolicies.taintkeeper.dev/status"
		rules, finalizers, statuses = "list, watch nodetaintrules.taintkeeper.dev", "patch nodetaintrules.taintkeeper.dev", "patch nodetaintrules.taintkeeper.dev/status"
	)
	for name, test := range map[string]struct {
		args    []string
		without bool // our own resources
		want    []string
	}{
		"eviction":                           {args: []string{"--controllers=eviction"}, want: []string{pods, evict, mark, nodes, events, patch, policies, namespaces, budgets, policyStatuses}},
		"eviction that never stamps":         {args: []string{"--controllers=eviction", "--stamp-taints=false"}, want: []string{pods, evict, mark, nodes, events, policies, namespaces, budgets, policyStatuses}},
		"eviction in a dry run":              {args: []string{"--controllers=eviction", "--dry-run"}, want: []string{pods, nodes, events, policies, namespaces, budgets}},
		"node health":                        {args: []string{"--controllers=node-health"}, want: []string{pods, mark, nodes, events, patch, leases, conditions, own}},
		"node health in a dry run":           {args: []string{"--controllers=node-health", "--dry-run"}, want: []string{pods, nodes, events, leases, "patch leases.coordination.k8s.io dry-run.taintkeeper.dev in namespace kube-node-lease"}},
		"rules":                              {args: []string{"--controllers=node-taint-rule"}, want: []string{nodes, events, patch, rules, finalizers, statuses}},
		"rules without the resource":         {args: []string{"--controllers=node-taint-rule"}, without: true, want: []string{nodes, events}},
		"rules in a dry run":                 {args: []string{"--controllers=node-taint-rule", "--dry-run"}, want: []string{nodes, events, rules}},
		"the default":                        {want: []string{pods, evict, mark, nodes, events, patch, rules, finalizers, statuses, policies, namespaces, budgets, policyStatuses}},
		"the default without the resource":   {without: true, want: []string{pods, evict, mark, nodes, events, patch}},
		"all of them, without the resource":  {args: []string{"--controllers=*"}, without: true, want: []string{pods, evict, mark, nodes, events, patch, leases, conditions, own}},
		"rules and evictions without stamps": {args: []string{"--stamp-taints=false"}, want: []string{pods, evict, mark, nodes, events, patch, rules, finalizers, statuses, policies, namespaces, budgets, policyStatuses}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := permissionsOf(parse(t, test.args...), !test.without); !slices.Equal(got, test.want) {
				t.Errorf("it asks for\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// unchecked are the rights that are granted and not checked at the start, because only a part of the work needs them.
var unchecked = []string{
	"patch pods",           // to keep held pods alive when their kubelets restart
	"create pods/eviction", // for policies that ask the Eviction API; without it they hold pods, and say so
	"get validatingadmissionpolicybindings.admissionregistration.k8s.io taintkeeper-held", // for a condition of a status
	"get namespaces kube-node-lease in namespace kube-node-lease",                         // for the owner of a Lease
	"create leases.coordination.k8s.io taintkeeper.dev in namespace kube-node-lease",      // a patch that finds none
	"create leases.coordination.k8s.io dry-run.taintkeeper.dev in namespace kube-node-lease",
	"create configmaps taintkeeper-shadow in namespace kube-system", // the same
}

func TestWhatIsCheckedAtTheStartIsWhatTheManifestsGrant(t *testing.T) {
	var checked []string
	for _, args := range [][]string{
		{"--controllers=*", "--coexist", "--metrics-bind-address=:8443"}, {"--controllers=*", "--dry-run"}, {"--shadow"},
	} {
		o := parse(t, args...)
		for _, p := range neededPermissions(o, map[string]bool{rulesResource: true, policiesResource: true}) {
			for _, verb := range p.verbs {
				one := p
				if verb == "create" {
					one.name = ""
				}
				checked = append(checked, verb+" "+one.String())
			}
		}
	}
	granted := slices.Concat(rightsOf(t, config.RBAC), rightsOf(t, config.Coexistence))
	for _, right := range checked {
		if !slices.Contains(granted, right) {
			t.Errorf("%q is checked at the start, and no manifest grants it", right)
		}
	}
	for _, right := range granted {
		if !slices.Contains(checked, right) && !slices.Contains(unchecked, right) {
			t.Errorf("%q is granted, and nothing checks it", right)
		}
	}
}

// rightsOf returns the rights that the roles of a manifest give, in the words of a permission.
func rightsOf(t *testing.T, manifest []byte) (all []string) {
	t.Helper()
	objects, err := config.Objects(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		var rules []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			rules = role.Rules
		}
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, name := range names {
				one := permission{resource: rule.Resources[0], group: rule.APIGroups[0], namespace: object.GetNamespace(), name: name}
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+one.String())
				}
			}
		}
	}
	return all
}

func TestALimitAllowsABurstOfTwiceItsRateUnlessSaid(t *testing.T) {
	if got := parse(t, "--kube-api-qps=20").limiter().Burst(); got != 40 {
		t.Errorf("burst is %d, want 40", got)
	}
	if got := parse(t, "--kube-api-qps=20", "--kube-api-burst=30").limiter().Burst(); got != 30 {
		t.Errorf("burst is %d, want 30", got)
	}
}

func TestBeforeKubernetes131TheBuiltInCannotBeKeptFromEvicting(t *testing.T) {
	for minor, works := range map[string]bool{"30": false, "30+": false, "31": true, "36+": true, "of their own": true} {
		err := checkCoexistence(&apiversion.Info{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".0"})
		if (err == nil) != works {
			t.Errorf("1.%s: %v", minor, err)
		}
	}
}
