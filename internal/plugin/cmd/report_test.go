// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
)

const served = `{
  "kind": "ShadowReport",
  "since": "2026-01-01T12:00:00Z",
  "time": "2026-01-01T13:00:00Z",
  "pods": {"late": 1, "on_time": 212},
  "overdue": 0,
  "pending": 12,
  "differences": [
    {"namespace": "default", "pod": "web-0", "node": "node-1", "time": "2026-01-01T12:04:11Z", "sentence": "evicted 41 s late: the built-in was restarted"}
  ]
}
`

func reportPod(flags ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tk", Name: "keeper", Labels: map[string]string{"app.kubernetes.io/name": "taintkeeper"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "taintkeeper", Args: flags}}},
	}
}

// guarded serves the report to callers with the token of the account.
func guarded(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "Bearer t0ken":
		w.WriteHeader(http.StatusForbidden)
	case r.URL.String() == "/shadow?format=json":
		fmt.Fprint(w, served)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// newFetcher returns a fetcher for a cluster with some pods, one of which serves the report.
func newFetcher(server *httptest.Server, token string, objects ...runtime.Object) (*fetcher, *fake.Clientset) {
	clients := fake.NewClientset(objects...)
	clients.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" || token == "" {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, account)
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}}, nil
	})
	connect := func(_ context.Context, _ *corev1.Pod, port string) (string, func(), error) {
		if port != "8443" && port != "8080" {
			return "", nil, errors.New(`pods "keeper" is forbidden: User "u" cannot create resource "pods/portforward"`)
		}
		return server.Listener.Addr().String(), func() {}, nil
	}
	return &fetcher{clients: clients, server: "https://example.com", connect: connect}, clients
}

func TestTheReportIsFetchedFromThePodInShadowMode(t *testing.T) {
	exposed, loopback := httptest.NewTLSServer(http.HandlerFunc(guarded)), httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, served) }))
	t.Cleanup(exposed.Close)
	t.Cleanup(loopback.Close)
	for name, test := range map[string]struct {
		server *httptest.Server
		token  string
		pod    *corev1.Pod
		want   string // in the error; empty if there is none
	}{
		"with a token, beyond the loopback interface": {exposed, "t0ken", reportPod("--shadow", "--metrics-bind-address=:8443"), ""},
		"on the loopback interface":                   {loopback, "", reportPod("--shadow"), ""},
		"the account has no right":                    {exposed, "other", reportPod("--shadow", "--metrics-bind-address=:8443"), "bind to it a ClusterRole that allows this, such as the chart's taintkeeper-metrics-reader (outside kube-system, taintkeeper-metrics-reader.NAMESPACE)"},
		"there is no account":                         {exposed, "", reportPod("--shadow", "--metrics-bind-address=:8443"), "there is no service account taintkeeper-report in namespace tk"},
		"the user may not connect":                    {exposed, "t0ken", reportPod("--shadow", "--metrics-bind-address=:9999"), "ask for the right to create pods/portforward in namespace tk"},
		"nothing is served":                           {exposed, "t0ken", reportPod("--shadow", "--metrics-bind-address=0"), "pod tk/keeper serves no report"},
		"enforce mode":                                {exposed, "t0ken", reportPod("--coexist"), "find a pod in shadow mode: none is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFetcher(test.server, test.token, test.pod)
			where, body, err := f.fetch(t.Context(), "")
			switch {
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want %q in it", err, test.want)
			case test.want == "" && (err != nil || where != "tk/keeper" || string(body) != served):
				t.Errorf("it fetches %q from %q, and the error is %v", body, where, err)
			}
		})
	}
}

func TestAnErrorNamesTheRightThatIsMissingToFetchTheReport(t *testing.T) {
	for right, want := range map[string]string{
		"list pods":              "ask for the right to list pods in all namespaces, or name one with -n",
		"create serviceaccounts": "ask for the right to create serviceaccounts/token in namespace tk",
	} {
		f, clients := newFetcher(nil, "t0ken", reportPod("--shadow", "--metrics-bind-address=:8443"))
		verb, resource, _ := strings.Cut(right, " ")
		clients.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
		})
		if _, _, err := f.fetch(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without the right to %s the error is %v, want %q in it", right, err, want)
		}
	}
}

func TestTheReportIsPrintedForAPersonOrAsItWasServed(t *testing.T) {
	const text = `For 60m, shadow mode in pod tk/keeper has compared the built-in's evictions with what taints and tolerations require.

   212  evicted within 2 s of their due time
     0  evicted before they were due
     1  evicted after they were due
     0  due, but not evicted
     0  evicted although they could have stayed
     0  evicted a second time
     0  not judged: the countdown began before shadow mode, the node is gone, or a watch was interrupted
     0  due and still there
    12  due later

Differences, newest first:
2026-01-01T12:04:11Z  default/web-0 on node-1
    evicted 41 s late: the built-in was restarted
`
	for format, want := range map[string]string{show.Text: text, show.JSON: served, show.YAML: "kind: ShadowReport\n"} {
		var out bytes.Buffer
		env := command.Env{IOStreams: genericiooptions.IOStreams{Out: &out}}
		o := &reportOptions{env: env, output: show.NewObjectPrinter(env)}
		o.output.Format = format
		if err := o.print("tk/keeper", []byte(served)); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("with -o %q it prints\n%s\n%v, want\n%s", format, out.String(), err, want)
		}
	}
}
