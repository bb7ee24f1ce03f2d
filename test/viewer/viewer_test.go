// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package viewer proves on a real control plane, with Taintkeeper next to the built-in controller, that the role of
// config/viewer.yaml is enough for the commands that read, what a user of one namespace learns, and what kubectl
// taintkeeper status says about a real leader.
package viewer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	keeper  *localcluster.Taintkeeper
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

func start(ctx context.Context, shared *suite.Suite) error {
	binary, err := suite.Build(ctx, shared.Dir, "taintkeeper", "-ldflags=-X main.version=v9.8.7")
	if err != nil {
		return err
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn, Without: []localcluster.Component{localcluster.Scheduler},
	})
	if err != nil {
		return err
	}
	for _, prepare := range []func(context.Context) error{cluster.InstallResources, cluster.InstallViewer, populate} {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	keeper, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{
		Binary: binary, Coexist: true, Args: []string{"--leader-elect"},
	})
	return err
}

// populate creates a node, a pod on it, and a policy that makes commands read all that policies ask for.
func populate(ctx context.Context) error {
	if err := cluster.AddNodes(ctx, localcluster.NodeSpec{Name: "n-1"}); err != nil {
		return err
	}
	pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(ctx, localcluster.NewPod("web", "n-1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	custom, err := cluster.Client()
	if err != nil {
		return err
	}
	return custom.Create(ctx, &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "databases"},
		Spec:       v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, IfDown: v1alpha1.IfDownHold},
	})
}

// refusals are the calls that the API server refused because of a missing right.
type refusals struct {
	mu    sync.Mutex
	calls []string
}

func (r *refusals) note(response *http.Response) error {
	if response.StatusCode == http.StatusForbidden {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, response.Request.Method+" "+response.Request.URL.Path)
	}
	return nil
}

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// bound returns the kubeconfig of a user who has some ClusterRoles, and what the API server refuses that user.
func bound(t *testing.T, user string, roles ...string) (kubeconfig string, refused *refusals) {
	t.Helper()
	for _, role := range roles {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		await.Must(t, err)
	}
	// The role view gets these rights some moments later: kube-controller-manager adds them.
	await.Must(t, localcluster.AwaitRight(t.Context(), admin, authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: "coordination.k8s.io", Resource: "leases",
		},
	}, true))
	return kubeconfigOf(t, user)
}

// kubeconfigOf returns the kubeconfig of a user, and what the API server refuses that user.
func kubeconfigOf(t *testing.T, user string) (kubeconfig string, refused *refusals) {
	t.Helper()
	config, err := cluster.ConfigFor(user)
	await.Must(t, err)
	transport, err := rest.TransportFor(config)
	await.Must(t, err)
	server, err := url.Parse(config.Host)
	await.Must(t, err)
	refused = &refusals{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport, ModifyResponse: refused.note,
	})
	t.Cleanup(proxy.Close)
	kubeconfig, err = cluster.Kubeconfig(user, &rest.Config{Host: proxy.URL})
	await.Must(t, err)
	return kubeconfig, refused
}

// run runs a command, and returns what it prints.
func run(t *testing.T, kubeconfig string, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}, Clock: clock.RealClock{},
	})
	root.SetArgs(append(args, "--kubeconfig="+kubeconfig))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestTheRoleIsEnoughForEveryCommandThatReads(t *testing.T) {
	for user, role := range map[string]string{"viewer": "taintkeeper-viewer", "person": "view"} {
		t.Run(role, func(t *testing.T) {
			kubeconfig, refused := bound(t, user, role)
			for _, args := range [][]string{
				{"plan", "n-1", "m:NoExecute", "--where-to"},
				{"simulate", "--silent", "n-1", "--for", "10m"},
				{"why", "web", "-n", "default"}, {"leaving", "-A"}, {"leaving", "-A", "--since", "30m"}, {"taints"}, {"snapshot"},
				{"check", "--fail-on=never"}, {"status"},
			} {
				out, errOut, err := run(t, kubeconfig, args...)
				if err != nil || strings.Contains(out+errOut, "You may not") {
					t.Errorf("%q: %v\n%s%s", args, err, out, errOut)
				}
			}
			readBoard(t, kubeconfig)
			if calls := refused.all(); len(calls) > 0 {
				t.Errorf("the API server refused %q", calls)
			}
		})
	}
}

// The policy brake stands for one whose breaker is open: its status is written as Taintkeeper would.
func TestTheRolesOfTheViewerAndOperatorAreEnoughToPauseResumeAndTaint(t *testing.T) {
	kubeconfig, refused := bound(t, "oncall", "taintkeeper-viewer", "taintkeeper-operator")
	policies, err := cluster.Client()
	await.Must(t, err)
	stop := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "stop"},
		Spec:       v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("zone b")},
	}
	await.Must(t, policies.Create(t.Context(), stop))
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"pause", "network"}, "pause created"},
		{[]string{"pause", "network", "is", "down"}, "pause configured"},
		{[]string{"pause", "backup", "-n", "default"}, "pause-2 created"},
		{[]string{"taint", "n-1", "m=:NoSchedule", "--yes"}, "n-1"},
		{[]string{"untaint", "n-1", "m:NoSchedule", "--yes"}, "n-1"},
		{[]string{"resume", "pause-2"}, "pause-2 deleted"},
		{[]string{"resume", "--all"}, "stop resumed"},
	} {
		out, errOut, err := run(t, kubeconfig, step.args...)
		if err != nil || !strings.Contains(out, step.want) || strings.Contains(out+errOut, "You may not") || strings.Contains(errOut, "has not confirmed") {
			t.Errorf("%q: %v\n%s%s\nwant %q", step.args, err, out, errOut, step.want)
		}
	}
	if calls := refused.all(); len(calls) > 0 {
		t.Errorf("the API server refused %q", calls)
	}
}

// What commands need of nodes they cannot know, and they say so.
func TestAUserOfOneNamespaceGetsAnswersAboutThatNamespace(t *testing.T) {
	const user = "developer"
	_, err := admin.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	await.Must(t, localcluster.AwaitRight(t.Context(), admin, authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: metav1.NamespaceDefault, Verb: "list", Resource: "pods",
		},
	}, true))
	kubeconfig, _ := kubeconfigOf(t, user)
	for _, ask := range []struct {
		args []string
		want string // in the answer
		code int
	}{
		{[]string{"why", "web"}, "You may not get nodes, so the taints of the pod's node are not known.", cmd.ExitOK},
		{[]string{"leaving"}, "You may not list nodes, so this lists only the pods that were evicted and still exist.", cmd.ExitOK},
		{[]string{"leaving", "--since", "30m"}, "0 pods were evicted in the last 30m", cmd.ExitOK},
		{[]string{"check", "--fail-on=never"}, "You may list pods only in namespace default, so the answer is about that namespace.", cmd.ExitOK},
		{[]string{"status"}, "You may not list leases", cmd.ExitFailed},
		{[]string{"plan", "n-1", "m:NoExecute"}, "ask for the right to list them, which the ClusterRole", cmd.ExitFailed},
	} {
		out, errOut, err := run(t, kubeconfig, ask.args...)
		var said bytes.Buffer
		code := cmd.Fail(&said, err)
		all := strings.Join(strings.Fields(out+errOut+said.String()), " ")
		if code != ask.code || !strings.Contains(all, ask.want) {
			t.Errorf("%q: exit code %d: %s\nwant %d, and %q", ask.args, code, all, ask.code, ask.want)
		}
	}
}

// readBoard opens a board and waits until all that it shows is current.
func readBoard(t *testing.T, kubeconfig string) {
	t.Helper()
	address, end, err := web.Serve(t.Context(), "--kubeconfig="+kubeconfig)
	await.Must(t, err)
	defer func() { await.Must(t, end()) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"events", http.NoBody)
	await.Must(t, err)
	response, err := http.DefaultClient.Do(request)
	await.Must(t, err)
	defer response.Body.Close()
	missing := []string{"nodes", "pods", "events", "configmaps", "nodetaintrules", "evictionpolicies"}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for len(missing) > 0 && lines.Scan() {
		if strings.Contains(lines.Text(), `"state":"denied"`) {
			t.Fatalf("the board says %s", lines.Text())
		}
		missing = slices.DeleteFunc(missing, func(kind string) bool {
			return strings.Contains(lines.Text(), fmt.Sprintf(`{"id":%q,"state":"current"`, kind))
		})
	}
	await.Must(t, lines.Err())
}

// statusOf returns what status says, and its exit code.
func statusOf(t *testing.T, kubeconfig string) (report cliv1alpha1.StatusReport, code int) {
	t.Helper()
	out, _, err := run(t, kubeconfig, "status", "-o", "json")
	await.Must(t, json.Unmarshal([]byte(out), &report))
	return report, cmd.Fail(&bytes.Buffer{}, err)
}

func TestStatusSaysHowARealLeaderDoes(t *testing.T) {
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.AdminConfig())
	await.Must(t, err)
	await.Eventually(t, "the leader sets the eviction clock", func(ctx context.Context) error {
		account, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, coexist.ServiceAccount, metav1.GetOptions{})
		if err == nil && account.Annotations[coexist.Annotation] == "" {
			err = errors.New("it is not set")
		}
		return err
	})
	report, code := statusOf(t, kubeconfig)
	if code != cmd.ExitOK || report.Health != cliv1alpha1.Healthy || report.Mode != cliv1alpha1.ModeEnforce {
		t.Errorf("exit code %d: %+v, want it to evict", code, report)
	}
	if l := report.Leader; report.Version != "v9.8.7" || l == nil || l.Lease != "kube-system/taintkeeper" || l.Since.IsZero() {
		t.Errorf("the leader is %+v of version %s", l, report.Version)
	}
	if clock := report.EvictionClock; clock == nil || clock.State != cliv1alpha1.ClockFresh {
		t.Errorf("the eviction clock is %+v", clock)
	}
}

func TestStatusAndPendingSayThatALeaderHasEnded(t *testing.T) {
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.AdminConfig())
	await.Must(t, err)
	await.Must(t, keeper.Stop()) // it hands the evictions back, and releases its Lease
	if report, code := statusOf(t, kubeconfig); code != cmd.ExitDown || report.Health != cliv1alpha1.NotRunning {
		t.Errorf("after its end: exit code %d: %+v", code, report)
	}
	_, errOut, err := run(t, kubeconfig, "leaving", "-A")
	await.Must(t, err)
	const want = "Taintkeeper is not running (no replica holds Lease kube-system/taintkeeper), so EvictionPolicies hold no pod"
	if !strings.Contains(errOut, want) {
		t.Errorf("leaving says %q, want %q", errOut, want)
	}
}
