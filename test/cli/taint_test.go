// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	plugincommand "github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// newNode adds a node for one test.
func newNode(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("n%d", time.Now().UnixNano())
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: name}))
	t.Cleanup(func() {
		await.Must(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	return name
}

// newPod binds a pod to a node.
func newPod(t *testing.T, node, name string, edits ...func(*corev1.Pod)) {
	t.Helper()
	pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
	_, err := pods.Create(t.Context(), localcluster.NewPod(node+name, node, edits...), metav1.CreateOptions{})
	await.Must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = pods.Patch(ctx, node+name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}) // it may be gone
		_ = pods.Delete(ctx, node+name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

func isThere(t *testing.T, node, name string) bool {
	t.Helper()
	_, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), node+name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		await.Must(t, err)
	}
	return err == nil
}

func tolerating(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
	}
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	await.Must(t, err)
	return node
}

func mustHave(t *testing.T, name string, want ...string) {
	t.Helper()
	got := []string{}
	for _, taint := range getNode(t, name).Spec.Taints {
		got = append(got, taints.Format(taint))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("taints of node %s (-want +got):\n%s", name, diff)
	}
}

func mustSay(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not said, but\n%s", part, text)
		}
	}
}

func mustFail(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	mustSay(t, err.Error(), parts...)
}

func TestWaitReturnsWhenTheLastPodHasLeft(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	newPod(t, node, "-now")
	newPod(t, node, "-later", tolerating(3))
	newPod(t, node, "-stays", func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	began := time.Now().Truncate(time.Second)
	out, errOut, err := run(t, kubeconfig, "taint", node, "m=1:NoExecute", "--yes", "--wait", "--timeout=1m")
	await.Must(t, err)
	mustSay(t, out, "node/"+node+" tainted\n")
	mustSay(t, errOut, "2 of 3 pods on 1 node leave, 1 at once, 1 more within 3s.", "All pods that must leave have left.\n")
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("it takes %s", took)
	}
	if isThere(t, node, "-now") || isThere(t, node, "-later") || !isThere(t, node, "-stays") {
		t.Error("other pods left than those that must")
	}
	mustHave(t, node, "m=1:NoExecute")
	if added := getNode(t, node).Spec.Taints[0].TimeAdded; added.Time.Before(began) || added.After(time.Now().Add(time.Second)) {
		t.Errorf("timeAdded is %s", added)
	}
}

func TestOnATimeoutTheObstaclesAreNamed(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	newPod(t, node, "-held", func(pod *corev1.Pod) {
		pod.Finalizers, pod.Spec.TerminationGracePeriodSeconds = []string{"example.com/f"}, new(int64(1))
	})
	newPod(t, node, "-later", tolerating(3600))
	_, _, err := run(t, kubeconfig, "taint", node, "m:NoExecute", "--yes", "--wait", "--timeout=10s")
	mustFail(t, err, "after 10s, 2 pods have not left, and the change is not undone\n",
		"-held on node "+node+": is terminating: ", "It waits for the finalizer example.com/f: the controller that set it must remove it.",
		"-later on node "+node+": is not due until ", "m:NoExecute is tolerated: m=*:NoExecute for 3600s")
	mustHave(t, node, "m:NoExecute")
}

// interferer passes on what a command sends, but taints the node before it passes on the first patch of it.
type interferer struct {
	*httputil.ReverseProxy

	node string
	done atomic.Bool
	err  error
}

func (i *interferer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPatch && !i.done.Swap(true) {
		patch := []byte(`{"spec":{"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`)
		_, i.err = admin.CoreV1().Nodes().Patch(request.Context(), i.node, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	i.ReverseProxy.ServeHTTP(w, request)
}

func TestATaintThatAnotherClientSetsAtTheSameTimeIsNotLost(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	target, err := url.Parse(cluster.AdminConfig().Host)
	await.Must(t, err)
	transport, err := rest.TransportFor(cluster.AdminConfig())
	await.Must(t, err)
	proxy := &interferer{ReverseProxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport,
	}, node: node}
	server := httptest.NewServer(proxy)
	defer server.Close()
	through, err := cluster.Kubeconfig("through-"+node, &rest.Config{Host: server.URL})
	await.Must(t, err)
	_, errOut, err := run(t, through, "taint", node, "ours:NoSchedule", "--yes")
	await.Must(t, err)
	await.Must(t, proxy.err)
	mustSay(t, errOut, "Node "+node+" has changed in the meantime, so here is a new plan.\n")
	mustHave(t, node, "ours:NoSchedule", "theirs:NoSchedule")
}

func TestTheServersDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	out, _, err := run(t, kubeconfig, "taint", node, "m:NoExecute", "--dry-run=server", "-o", "yaml")
	await.Must(t, err)
	mustSay(t, out, "kind: Node\n", "effect: NoExecute\n", "key: m\n", "timeAdded: ")
	mustHave(t, node)
}

func TestARightThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	reader := as(t, "reader-"+node, rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
	_, _, err := run(t, reader, "taint", node, "m:NoExecute", "--yes")
	mustFail(t, err, "node "+node+": ", `cannot patch resource "nodes"`, "ask for the right to patch nodes")
	mustHave(t, node)

	tainter := as(t, "tainter-"+node, rbacv1.PolicyRule{Verbs: []string{"get", "list", "patch"}, APIGroups: []string{""}, Resources: []string{"nodes"}})
	_, errOut, err := run(t, tainter, "taint", node, "m:NoExecute", "--yes")
	await.Must(t, err)
	mustSay(t, errOut, "Note: You may not list pods, so the plan cannot say which pods leave.\n")
	mustHave(t, node, "m:NoExecute")
}

// A script must not treat budgets that could not be read as budgets that are kept.
func TestAPlanThatCannotAnswerFailOnFails(t *testing.T) {
	t.Parallel()
	node := newNode(t)
	reader := as(t, "planner-"+node, rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"*"}})
	_, _, err := run(t, reader, "plan", node, "m:NoExecute", "--fail-on=lost-workload")
	await.Must(t, err)
	_, _, err = run(t, reader, "plan", node, "m:NoExecute", "--fail-on=budget")
	mustFail(t, err, "--fail-on=budget cannot be checked because you may not list poddisruptionbudgets: ask for the right")
	if found, ok := errors.AsType[plugincommand.FoundError](err); ok {
		t.Errorf("a lack of rights is a finding: %v", found)
	}
}

// as returns the kubeconfig of a user with few permissions.
func as(t *testing.T, user string, rule rbacv1.PolicyRule) string {
	t.Helper()
	config, err := cluster.ConfigFor(user)
	await.Must(t, err)
	path, err := cluster.Kubeconfig(user, config)
	await.Must(t, err)
	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	await.Must(t, localcluster.AwaitRight(t.Context(), admin, authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0]},
	}, true))
	return path
}

// TestScripts runs what needs a terminal, and what kubectl calls for completion.
func TestScripts(t *testing.T) {
	node := newNode(t)
	complete, err := filepath.Abs("../../cmd/kubectl-taintkeeper/kubectl_complete-taintkeeper")
	await.Must(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", kubeconfig)
			env.Setenv("NODE", node)
			env.Setenv("COMPLETE", complete)
			return nil
		},
	})
}
