// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestWhatTheProgramSaysWhenItCannotRun wants one sentence and the exit code 1.
func TestWhatTheProgramSaysWhenItCannotRun(t *testing.T) {
	asked := func(config *rest.Config, err error) string {
		t.Helper()
		await.Must(t, err)
		path, err := cluster.Kubeconfig(fmt.Sprint("refused-", time.Now().UnixNano()), config)
		await.Must(t, err)
		return "--kubeconfig=" + path
	}
	admin := cluster.AdminConfig()
	wrong := &rest.Config{Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}, BearerToken: "wrong"}
	nobody := asked(cluster.ConfigFor("nobody"))
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"a flag that does not exist":     {[]string{"--nonsense"}, "unknown flag: --nonsense"},
		"an argument":                    {[]string{"nonsense"}, `"nonsense"`},
		"not a number":                   {[]string{"--concurrent-evictions=many"}, "--concurrent-evictions=many: it must be a whole number"},
		"a value that is not allowed":    {[]string{"--log-format=xml"}, "it must be text or json"},
		"a kubeconfig that is not there": {[]string{"--kubeconfig=/nowhere/kubeconfig"}, "/nowhere/kubeconfig"},
		"no API server at all":           {[]string{"--leader-elect=false"}, "no API server is configured: give --kubeconfig"},
		"nobody listens": {
			[]string{asked(&rest.Config{Host: "https://" + scene.FreeAddress(t)}, nil)}, "cannot reach the API server at https://127.0.0.1:",
		},
		"the credentials are wrong": {[]string{asked(wrong, nil)}, "does not accept the credentials"},
		"every permission is missing": {
			[]string{nobody, "--controllers=eviction"},
			"missing permissions: list, watch pods; get, delete pods; patch pods/status; get, list, watch nodes; create, patch events; patch nodes; " +
				"list, watch evictionpolicies.taintkeeper.dev; list, watch namespaces; list, watch poddisruptionbudgets.policy; " +
				"patch evictionpolicies.taintkeeper.dev/status; " +
				"get, create, update leases.coordination.k8s.io taintkeeper in namespace kube-system; grant them with config/rbac.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, said := runProgram(t, test.args...)
			if code != 1 || out != "" || !strings.HasPrefix(said, "taintkeeper: ") || !strings.Contains(said, test.says) || strings.Count(said, "\n") != 1 {
				t.Errorf("exit code %d, output %q, and it says %q; want 1, none, and one line with %q", code, out, said, test.says)
			}
		})
	}
	if code, out, _ := runProgram(t, "--version"); code != 0 || strings.TrimSpace(out) != "taintkeeper version "+version {
		t.Errorf("--version: exit code %d, output %q", code, out)
	}
}

// runProgram runs the program to its end.
func runProgram(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	command := exec.CommandContext(ctx, keeper, args...)
	command.Env = []string{"HOME=" + t.TempDir()} // no kubeconfig of the user's
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatal(err)
		}
	}
	return command.ProcessState.ExitCode(), out.String(), said.String()
}

// startProgram starts the program for as long as the test lasts.
func startProgram(t *testing.T, name string, args ...string) *localcluster.Taintkeeper {
	t.Helper()
	p, err := cluster.StartTaintkeeper(context.WithoutCancel(t.Context()), localcluster.TaintkeeperConfig{Binary: keeper, Name: name, Args: args})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, p.Kill()) })
	return p
}

func TestMetricsThatLeaveTheLoopbackInterfaceAreForThoseWhoMayReadThem(t *testing.T) {
	s, err := scene.New(t.Context(), onStage.Client(), "readers")
	await.Must(t, err)
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	await.Must(t, err)
	dir, trusted := t.TempDir(), x509.NewCertPool()
	await.Must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	await.Must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	trusted.AppendCertsFromPEM(cert)
	readers := []struct {
		name, token string
		want        int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"an invalid token", "wrong", http.StatusUnauthorized},
		{"an account that may not", s.Reader(t, "may-not", "/elsewhere"), http.StatusForbidden},
		{"an account that may", s.Reader(t, "may", "/metrics"), http.StatusOK},
	}
	for name, with := range map[string]struct {
		trusts *tls.Config
		args   []string
	}{
		"own":   {&tls.Config{InsecureSkipVerify: true}, nil}, // its certificate is self-signed
		"given": {&tls.Config{RootCAs: trusted, ServerName: "localhost"}, []string{"--metrics-cert-dir=" + dir}},
	} {
		t.Run(name, func(t *testing.T) {
			address := scene.GuardedAddress(t)
			startProgram(t, "guarded-"+name, append(with.args, "--metrics-bind-address="+address)...)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: with.trusts}}
			for _, reader := range readers {
				code, body := scrapeWith(t, client, "https://"+address+"/metrics", reader.token)
				if told := strings.Contains(body, "taintkeeper_tainted_nodes"); code != reader.want || told != (code == http.StatusOK) {
					t.Errorf("%s gets %d, want %d; with metrics: %t", reader.name, code, reader.want, told)
				}
			}
			if _, err := get(t.Context(), "http://"+address+"/metrics"); err == nil {
				t.Error("they are served without TLS, too")
			}
		})
	}
}

// scrapeWith asks for metrics with a token, or without one. Making a certificate takes the program a moment.
func scrapeWith(t *testing.T, client *http.Client, url, token string) (code int, body string) {
	t.Helper()
	await.Eventually(t, "it answers", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		await.Must(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var read bytes.Buffer
		_, err = read.ReadFrom(response.Body)
		code, body = response.StatusCode, read.String()
		return err
	})
	return code, body
}

// TestALeaseThatAStrangerHoldsIsReportedAndTakenWhenItIsDeleted plays a client that takes the Lease for an hour. The
// process's pod has the name of this machine. In the end the process gives the Lease back.
func TestALeaseThatAStrangerHoldsIsReportedAndTakenWhenItIsDeleted(t *testing.T) {
	host, err := os.Hostname()
	await.Must(t, err)
	if testing.Short() || len(validation.IsDNS1123Subdomain(host)) > 0 {
		t.Skipf("it takes long, or no pod can have the name of this machine, %s", host)
	}
	admin := onStage.Client()
	s, err := scene.New(t.Context(), admin, "stranger")
	await.Must(t, err)
	node, err := s.Node(t.Context(), "of-the-replica", Ready)
	await.Must(t, err)
	system := scene.Scene{Admin: admin, Namespace: metav1.NamespaceSystem}
	_, err = system.Pod(t.Context(), host, node, gracePeriod(0))
	await.Must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		await.Must(t, errors.Join(system.Remove(ctx, host), s.Clear(ctx)))
	})
	now, leases := metav1.NowMicro(), admin.CoordinationV1().Leases(metav1.NamespaceSystem)
	_ = leases.Delete(t.Context(), lease, metav1.DeleteOptions{}) // an earlier process may have left one
	_, err = leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("made-up_1"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{})
	await.Must(t, err)

	p := startProgram(t, "next-to-a-stranger", append([]string{"--leader-elect=true"}, quickElection...)...)
	becomes := func(metric string, want float64) {
		t.Helper()
		await.Eventually(t, fmt.Sprintf("%s is %v", metric, want), func(ctx context.Context) error {
			families, err := scraped(ctx, p)
			if err != nil {
				return err
			}
			if got := families[metric].GetMetric(); len(got) != 1 || got[0].GetGauge().GetValue() != want {
				return fmt.Errorf("it is %v", got)
			}
			return nil
		})
	}
	becomes("taintkeeper_lease_holder_unknown", 1)
	await.Eventually(t, "an event on the Lease", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=LeaseHolderUnknown,involvedObject.name=taintkeeper,type=Warning",
		})
		if err == nil && len(events.Items) != 1 {
			err = fmt.Errorf("there are %d", len(events.Items))
		}
		return err
	})
	await.Must(t, leases.Delete(t.Context(), lease, metav1.DeleteOptions{}))
	becomes("taintkeeper_leading", 1)
	becomes("leader_election_master_status", 1)
	becomes("taintkeeper_lease_holder_unknown", 0)
	for _, path := range []string{"/healthz", "/readyz"} {
		_, err := get(t.Context(), strings.Replace(p.ReadyURL(), "/readyz", path, 1))
		await.Must(t, err)
	}
	await.Must(t, p.Stop())
	if found, err := leases.Get(t.Context(), lease, metav1.GetOptions{}); err != nil || *found.Spec.HolderIdentity != "" {
		t.Errorf("a standby must wait for the end of the Lease: %v, %v", found, err)
	}
}

func scraped(ctx context.Context, p *localcluster.Taintkeeper) (map[string]*dto.MetricFamily, error) {
	text, err := get(ctx, p.MetricsURL())
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// TestDryRun plays a dry run of all controllers.
func TestDryRun(t *testing.T) {
	play(t, cast{without: onlyOurs, replicas: 1, args: []string{"--controllers=*", "--dry-run"}}, Scenario{
		Name: "a dry run says what would happen and changes nothing",
		Given: []Step{
			Alone("due"), On("due", "soon", scene.Tolerating("gone", 3)),
			On("due", "later", scene.Tolerating("gone", 600)), // for it, a timeAdded would be written
		},
		When:     []Step{Taint("due", "gone"), keeperSays("Dry run: would evict"), After(5 * time.Second)},
		Promised: []Check{wouldEvict("due", "soon"), onlyEventsSince("due"), Stays("due"), Stays("soon"), servesThePage, hasUpstreamsBuckets},
		Watched:  time.Second,
		Alone:    true,
		Long:     true,
	})
}

// wouldEvict wants an event that says so on each of the pods, and all metrics to count them.
func wouldEvict(names ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		found := Finding{Right: true}
		for _, name := range names {
			said, err := p.Events(ctx, name, "Marking for deletion Pod "+p.Namespace+"/"+name+" (dry run)")
			if found = found.And(finding(len(said) == 1, "%s has the events %v", name, said)); err != nil {
				return found, err
			}
		}
		families, err := scraped(ctx, stageOf(p).replicas[0])
		for _, metric := range families["taintkeeper_evictions_total"].GetMetric() {
			result, count := metric.GetLabel()[0].GetValue(), int(metric.GetCounter().GetValue())
			right := count == map[string]int{"dry_run": len(names)}[result]
			found = found.And(finding(right, "%s: %d", result, count))
		}
		return found, err
	}
}

// onlyEventsSince wants nothing to have been written since a node was tainted but events, and the Lease with which a
// dry run of node health finds out whether Leases arrive.
func onlyEventsSince(node string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		writes, err := p.Calls(auditlog.Since(p.History(node)[0].At.From), func(c auditlog.Event) bool {
			reads := slices.Contains([]string{"get", "list", "watch"}, c.Verb)
			return !reads && c.Resource != "events" && c.Name != "dry-run.taintkeeper.dev"
		})
		return finding(len(writes) == 0, "it wrote %v", writes), err
	}
}

// hasUpstreamsBuckets wants dashboards and alerts that were made for the built-in to work.
func hasUpstreamsBuckets(ctx context.Context, p *Play) (Finding, error) {
	families, err := scraped(ctx, stageOf(p).replicas[0])
	if err != nil {
		return Finding{}, err
	}
	var bounds []float64
	for _, bucket := range families["taint_eviction_controller_pod_deletion_duration_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, bucket.GetUpperBound())
	}
	upstreams := []float64{.005, .025, .1, .5, 1, 2.5, 10, 30, 60, 120, 180, 240, math.Inf(1)}
	return finding(slices.Equal(bounds, upstreams), "the buckets are %v", bounds), nil
}

// metricsOfShadow is played in shadow mode, which has metrics of its own.
var metricsOfShadow = Scenario{
	Name: "the metrics of shadow mode match the page", Given: []Step{Alone("pod")}, Promised: []Check{servesThePage}, Alone: true, Long: true,
}

var (
	// documentedMetric is a row of a table of docs/metrics.md: a metric, its labels, its type and what it means.
	documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z,]+)\\})?` \\| (counter|gauge|histogram) \\| (.*) \\|$")
	// ourMetric matches the metrics of Taintkeeper, whether they have upstream's names or its own.
	ourMetric = regexp.MustCompile(`^(taintkeeper|taint_eviction_controller|node_collector)_`)
)

// servesThePage compares the metrics that are served with docs/metrics.md: labels, types and, if they are ours, what
// they mean. A vector without a series, such as that of retries, is not served. promtool checks all that is.
func servesThePage(ctx context.Context, p *Play) (Finding, error) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		return Finding{}, err
	}
	text, err := get(ctx, stageOf(p).replicas[0].MetricsURL())
	if err != nil {
		return Finding{}, err
	}
	families, err := scraped(ctx, stageOf(p).replicas[0])
	if err != nil {
		return Finding{}, err
	}
	found := Finding{Right: true}
	wrong := func(what string, of ...any) { found = found.And(Finding{Seen: fmt.Sprintf(what, of...)}) }
	rows := map[string][]string{}
	for _, row := range documentedMetric.FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2:]
		if !ourMetric.MatchString(row[1]) && families[row[1]] == nil {
			wrong("the page has %s, which is not served", row[1])
		}
	}
	for name, family := range families {
		if row := rows[name]; row != nil || ourMetric.MatchString(name) {
			found = found.And(isAsDocumented(row, family))
		}
	}
	command := exec.CommandContext(ctx, "../../bin/promtool", "check", "metrics")
	command.Stdin = bytes.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		wrong("promtool check metrics (make bin/promtool builds it): %v\n%s", err, output)
	}
	return found, nil
}

// isAsDocumented compares a metric with its row: labels, type and meaning.
func isAsDocumented(row []string, family *dto.MetricFamily) Finding {
	name := family.GetName()
	if row == nil {
		return Finding{Seen: name + " is not on the page"}
	}
	kind := strings.ToLower(family.GetType().String())
	if kind != row[1] || ourMetric.MatchString(name) && family.GetHelp() != row[2] {
		return finding(false, "%s is a %s with the help %q", name, kind, family.GetHelp())
	}
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if !slices.Contains(strings.Split(row[0], ","), label.GetName()) {
				return finding(false, "%s has the label %s", name, label.GetName())
			}
		}
	}
	return Finding{Right: true}
}
