// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestTheVersionIsPrinted(t *testing.T) {
	p := launch(t, "--version")
	if code := p.exit(t); code != 0 || strings.TrimSpace(p.stdout.String()) != "taintkeeper version "+testVersion {
		t.Errorf("exit code %d, output %q", code, p.stdout)
	}
}

func TestFlagsThatCannotWorkAreRefusedInASentence(t *testing.T) {
	tests := map[string]struct{ flag, want string }{
		"a controller that is unknown":    {"--controllers=nonsense", `--controllers: there is no controller "nonsense"`},
		"no controller at all":            {"--controllers=-eviction", "this leaves nothing to run"},
		"no evictions at a time":          {"--concurrent-evictions=0", "choose 1 to 100"},
		"not a number":                    {"--concurrent-evictions=many", "--concurrent-evictions=many: it must be a whole number"},
		"a negative rate":                 {"--kube-api-qps=-1", "it cannot be negative"},
		"a negative burst":                {"--kube-api-burst=-1", "it cannot be negative"},
		"deadlines in the wrong order":    {"--leader-elect-renew-deadline=20s", "--leader-elect-lease-duration=15s: it must be more than"},
		"an address without a port":       {"--metrics-bind-address=nowhere", "it must be host:port"},
		"an unknown log format":           {"--log-format=xml", "it must be text or json"},
		"a feature gate that is not ours": {"--feature-gates=Nonsense=true", `"Nonsense" is unknown`},
		"a flag that does not exist":      {"--nonsense", "unknown flag: --nonsense"},
		"an argument":                     {"nonsense", `"nonsense"`},
		"a kubeconfig that is not there":  {"--kubeconfig=/nowhere/kubeconfig", "/nowhere/kubeconfig"},
		"no API server at all":            {"--leader-elect=false", "no API server is configured: give --kubeconfig"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, launch(t, test.flag), test.want)
		})
	}
}

// checkRefusal checks that a process ends with an error, which it tells in one sentence and nothing else.
func checkRefusal(t *testing.T, p *process, want string) {
	t.Helper()
	if code := p.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	said := p.stderr.String()
	if !strings.HasPrefix(said, "taintkeeper: ") || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 {
		t.Errorf("it says %q, want one line with %q", said, want)
	}
	if p.stdout.String() != "" {
		t.Errorf("it writes %q to the standard output", p.stdout)
	}
}

func TestAnAPIServerThatCannotBeUsedIsReportedInASentence(t *testing.T) {
	nobody, err := cluster.ConfigFor("nobody")
	await.Must(t, err)
	tests := map[string]struct {
		config *rest.Config
		want   string
	}{
		"nobody listens": {
			config: &rest.Config{Host: "https://" + rig.FreeAddress(t)},
			want:   "cannot reach the API server at https://127.0.0.1:",
		},
		"the credentials are wrong": {
			config: &rest.Config{Host: userConfig.Host, TLSClientConfig: rest.TLSClientConfig{CAData: userConfig.CAData}, BearerToken: "wrong"},
			want:   "does not accept the credentials",
		},
		"every permission is missing": {
			config: nobody,
			want: "missing permissions: list, watch pods; get, delete pods; patch pods/status; get, list, watch nodes; create, patch events; patch nodes; " +
				"get, create, update leases.coordination.k8s.io taintkeeper in namespace kube-system; grant them with config/rbac.yaml",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, launch(t, "--kubeconfig="+kubeconfig(t, test.config)), test.want)
		})
	}
}

func TestTheBinaryAnswersProbesTakesTheLeaseAndGivesItBack(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	p := serve(t, userConfig)
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, err := get(t.Context(), "http://"+p.health+path); err != nil {
			t.Error(err)
		}
	}
	waitLeader(t, "")
	came := taint(t, node, rig.NoExecute("gone"))
	leaves(t, pod, promised(t, pod, tainting{rig.NoExecute("gone"), came}))
	waitEvictions(t, p, "deleted", 1)
	checkCounters(t, p, "taint_eviction_controller_pod_deletions_total", map[string]float64{"": 1})
	if tainted := gauge(t, p, "taintkeeper_tainted_nodes"); tainted != 1 {
		t.Errorf("%v tainted nodes, want 1", tainted)
	}
	checkLeads(t, p)
	p.terminate(t)
	if holder := leader(t); holder != "" {
		t.Errorf("%s still has the lease: a standby must wait for its end", holder)
	}
}

// checkLeads checks the metric that says which replica leads.
func checkLeads(t *testing.T, p *process) {
	t.Helper()
	for _, metric := range family(t, p, "leader_election_master_status").GetMetric() {
		if metric.GetLabel()[0].GetValue() == "taintkeeper" && metric.GetGauge().GetValue() == 1 {
			return
		}
	}
	t.Error("its metrics do not say that it leads")
}

func lease(ctx context.Context) (*coordinationv1.Lease, error) {
	return admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "taintkeeper", metav1.GetOptions{})
}

func leader(t *testing.T) string {
	t.Helper()
	found, err := lease(t.Context())
	await.Must(t, err)
	return *found.Spec.HolderIdentity
}

// waitLeader waits until there is another leader than the one given, and returns it.
func waitLeader(t *testing.T, before string) string {
	t.Helper()
	var holder string
	await.Eventually(t, "there is a leader", func(ctx context.Context) error {
		found, err := lease(ctx)
		if err != nil {
			return err
		}
		if found.Spec.HolderIdentity == nil || *found.Spec.HolderIdentity == "" || *found.Spec.HolderIdentity == before {
			return fmt.Errorf("lease %v", found.Spec)
		}
		holder = *found.Spec.HolderIdentity
		return nil
	})
	return holder
}

func TestAStandbyKeepsTheDeadlinesOfALeaderThatWasKilled(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	meanwhile := s.pod(t, "meanwhile", node, rig.Tolerating("gone", 3))
	pending := s.pod(t, "pending", node, rig.Tolerating("gone", 20))
	quick := []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}
	first := serve(t, userConfig, quick...)
	killed := waitLeader(t, "")
	standby := serve(t, userConfig, quick...)

	came := taint(t, node, rig.NoExecute("gone"))
	waitStamped(t, node)
	first.signal(t, os.Kill)
	first.exit(t)
	after := waitLeader(t, killed)
	took := time.Now()

	missed := promised(t, meanwhile, tainting{rig.NoExecute("gone"), came})
	missed.latest = oracle.Later(missed.latest, took)
	leaves(t, meanwhile, missed)
	leaves(t, pending, promised(t, pending, tainting{rig.NoExecute("gone"), came}).afterRestart())
	if leader := leader(t); leader != after {
		t.Errorf("the leader changed again, from %s to %s", after, leader)
	}
	standby.terminate(t) // else the next test would find a leader that is no more
}

func TestSIGTERMFinishesTheCallInFlightAndStartsNoOther(t *testing.T) {
	s := newScene(t)
	node := s.livelyNode(t, "tainted")
	pods := s.pods(t, 5, node)
	faults := &proxy.Faults{}
	calls, arrived, release := &proxy.Instants{}, make(chan struct{}, 1), make(chan struct{})
	faults.During(t, proxy.PodDeletes(s.Namespace), func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if calls.Note() == 1 {
			arrived <- struct{}{}
			<-release
		}
		return next.RoundTrip(request)
	})
	p := serve(t, proxy.During(t, proxy.Config{Access: userConfig, Over: faults.Over}).Access(), "--leader-elect=false", "--concurrent-evictions=1")
	finish := sync.OnceFunc(func() { close(release) })
	t.Cleanup(finish) // before the proxy waits for the calls in flight

	taint(t, node, rig.NoExecute("gone"))
	await.Receive(t, arrived)
	p.signal(t, syscall.SIGTERM)
	await.Until(t, time.Now().Add(2*time.Second))
	if p.hasEnded() {
		t.Error("it did not wait for the call in flight")
	}
	finish()
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	await.Until(t, time.Now().Add(time.Second))
	if deletes := audit.All(t, auditlog.Deletes, auditlog.In(s.Namespace)); len(deletes) != 1 || !deletes[0].Accepted() || len(calls.All()) != 1 {
		t.Errorf("deletes %v, want the one that was in flight", deletes)
	}
	if marks := audit.All(t, auditlog.StatusPatches, auditlog.In(s.Namespace)); len(marks) != 1 {
		t.Errorf("patches %v, want that of the pod in flight", marks)
	}
	left := slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return len(audit.All(t, auditlog.Deletes, auditlog.Of(pod.UID))) > 0 })
	for _, pod := range left {
		stays(t, pod)
	}
}

func TestRevokedPermissionsAreNamedAndEvictionsContinueWhenTheyAreBack(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	p := serve(t, userConfig, "--leader-elect=false")
	giveBack := takeAwayDelete(t)

	came := taint(t, node, rig.NoExecute("gone"))
	p.says(t, "cannot delete resource")
	waitRetried(t, p, "Forbidden")
	remains(t, pod)
	giveBack()
	due := promised(t, pod, tainting{rig.NoExecute("gone"), came})
	due.latest = time.Now().Add(time.Since(came.From)) // a backoff that doubles ends after as long again
	leaves(t, pod, due)
	if p.hasEnded() {
		t.Error(errors.New("it ended because a permission was missing"))
	}
}

// takeAwayDelete takes the right to delete pods from our user until the function that it returns is
// called, or the test ends.
func takeAwayDelete(t *testing.T) (giveBack func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	original, err := admin.RbacV1().ClusterRoles().Get(ctx, "taintkeeper", metav1.GetOptions{})
	await.Must(t, err)
	setRules := func(rules []rbacv1.PolicyRule) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			role, err := admin.RbacV1().ClusterRoles().Get(ctx, "taintkeeper", metav1.GetOptions{})
			if err != nil {
				return err
			}
			role.Rules = rules
			_, err = admin.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
			return err
		})
	}
	giveBack = func() {
		if err := setRules(original.Rules); err != nil {
			t.Errorf("give the permission back: %v", err)
		}
	}
	t.Cleanup(giveBack)
	less := original.DeepCopy().Rules
	for i := range less {
		less[i].Verbs = slices.DeleteFunc(less[i].Verbs, func(verb string) bool { return verb == "delete" })
	}
	await.Must(t, setRules(less))
	await.Must(t, localcluster.AwaitRight(t.Context(), admin, authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"},
	}, false))
	return giveBack
}

func TestADryRunChangesNothing(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	due := s.pod(t, "due", node)
	soon := s.pod(t, "soon", node, rig.Tolerating("gone", 3))
	began := time.Now()
	p := serve(t, userConfig, "--leader-elect=false", "--dry-run")

	came := taint(t, node, rig.NoExecute("gone"))
	soonest := promised(t, soon, tainting{rig.NoExecute("gone"), came})
	waitEvictions(t, p, "dry_run", 2)
	if now := time.Now(); now.Before(soonest.earliest) {
		t.Errorf("according to the log, both leave %s before the second is due", soonest.earliest.Sub(now))
	}
	await.Until(t, time.Now().Add(quiet))

	for _, pod := range []*corev1.Pod{due, soon} {
		stays(t, pod)
		theEvent(t, pod, "Marking for deletion Pod "+s.Namespace+"/"+pod.Name+" (dry run)")
	}
	p.says(t, "Dry run: would evict")
	for _, c := range audit.All(t, writes, auditlog.Since(began)) {
		if c.Resource == "events" || c.Resource == "selfsubjectaccessreviews" {
			continue
		}
		t.Errorf("a dry run writes: %v", c)
	}
	found, err := admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	await.Must(t, err)
	if !slices.ContainsFunc(found.Spec.Taints, unstamped) {
		t.Errorf("taints %v: the timeAdded was written", found.Spec.Taints)
	}
	checkCounters(t, p, "taintkeeper_evictions_total", map[string]float64{"deleted": 0, "gone": 0, "replaced": 0, "cancelled": 0, "dry_run": 2})
	checkCounters(t, p, "taint_eviction_controller_pod_deletions_total", map[string]float64{"": 0})
}
