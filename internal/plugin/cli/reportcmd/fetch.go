// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package reportcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/commandline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

const (
	// account is the service account that may read the report. charts/taintkeeper/templates/metrics.yaml creates it.
	account = "taintkeeper-report"
	// loopback is the address on which a pod serves the report if --metrics-bind-address is not set.
	loopback = "127.0.0.1:8080"
)

// connector connects to a port of a pod. It returns a local address that works until stop is called.
type connector func(ctx context.Context, pod *corev1.Pod, port string) (address string, stop func(), err error)

// fetcher fetches the report from the pod that runs in shadow mode.
type fetcher struct {
	clients kubernetes.Interface
	server  string
	connect connector
}

// fetch returns the report as JSON, and the pod that served it.
func (f *fetcher) fetch(ctx context.Context, namespace string) (where string, body []byte, err error) {
	pod, err := f.shadow(ctx, namespace)
	if err != nil {
		return "", nil, err
	}
	where = pod.Namespace + "/" + pod.Name
	host, port, err := net.SplitHostPort(commandline.ValueOf("--metrics-bind-address", commandline.Of(pod), loopback))
	if err != nil {
		return "", nil, fmt.Errorf("pod %s serves no report: remove --metrics-bind-address=0", where)
	}
	scheme, token := "http", ""
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		scheme = "https"
		if token, err = f.token(ctx, pod.Namespace); err != nil {
			return "", nil, err
		}
	}
	address, stop, err := f.connect(ctx, pod, port)
	if err != nil {
		return "", nil, f.explain(ctx, "connect to pod "+where, "create pods/portforward", pod.Namespace, err)
	}
	defer stop()
	body, err = get(ctx, scheme+"://"+address+"/shadow?format=json", token)
	if err != nil {
		return "", nil, fmt.Errorf("read the report of pod %s: %w", where, err)
	}
	return where, body, nil
}

// shadow finds the pod that runs in shadow mode, in one namespace or in all.
func (f *fetcher) shadow(ctx context.Context, namespace string) (*corev1.Pod, error) {
	ours := metav1.ListOptions{LabelSelector: v1alpha1.SelectTaintkeeper().String()}
	list, err := f.clients.CoreV1().Pods(namespace).List(ctx, ours)
	if err != nil {
		return nil, f.explain(ctx, "look for Taintkeeper's pods", "list pods", namespace, err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; state.IsReady(pod) && commandline.IsOn("--shadow", commandline.Of(pod)) {
			return pod, nil
		}
	}
	const advice = "only shadow mode writes a report; 'kubectl taintkeeper status' says which mode Taintkeeper is in"
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("find a pod of Taintkeeper: none has the label %s: %s", ours.LabelSelector, advice)
	}
	return nil, fmt.Errorf("find a pod in shadow mode: none is ready: %s", advice)
}

// token creates a token that is valid for ten minutes, and only for the report and metrics.
func (f *fetcher) token(ctx context.Context, namespace string) (string, error) {
	const seconds = 600
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = new(int64(seconds))
	made, err := f.clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("create a token for the report: there is no service account %s in namespace %s: upgrade the chart, which creates it in shadow mode, or see docs/shadow-mode.md", account, namespace)
	case err != nil:
		return "", f.explain(ctx, "create a token for the report", "create serviceaccounts/token", namespace, err)
	}
	return made.Status.Token, nil
}

// explain says why something failed, and which right is missing, if any.
func (f *fetcher) explain(ctx context.Context, doing, right, namespace string, err error) error {
	if !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "forbidden") { // port-forward has no typed errors
		return source.Probed(ctx, f.server, doing, "", err)
	}
	where := "in namespace " + namespace
	if namespace == "" {
		where = "in all namespaces, or name one with -n"
	}
	return fmt.Errorf("%s: %w: ask for the right to %s %s", doing, err, right, where)
}

// get reads a URL of the pod. Taintkeeper signs its certificate itself. get does not verify the certificate, because
// the connection goes to that pod through the API server.
func get(ctx context.Context, url, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: source.Patience}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusForbidden:
		return nil, errors.New("service account " + account + " may not get the URL /shadow: bind to it a ClusterRole that allows this, such as the chart's taintkeeper-metrics-reader (outside kube-system, taintkeeper-metrics-reader.NAMESPACE)")
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it returned %s", response.Status)
	}
	return body, nil
}
