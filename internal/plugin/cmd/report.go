// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/commandline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// reportOptions are the options of kubectl taintkeeper report.
type reportOptions struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	output show.Printer
}

// newReport returns the command report.
func newReport(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &reportOptions{env: env, config: config, output: show.NewObjectPrinter(env)}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print the report of shadow mode",
		Long: `Print the report of shadow mode: how many pods the built-in controller evicted on time, early, late or not at all, and
what it did that differs from what taints and tolerations require, with the reason.

The command fetches the report from Taintkeeper's pod through the API server, as kubectl port-forward does. You need the
rights to list pods, to create pods/portforward, and to create a token for the service account taintkeeper-report, which
the chart creates in shadow mode. The command does not send your own credentials to the pod.`,
		Example: `  # What would Taintkeeper do better here?
  kubectl taintkeeper report

  # All differences, from the release in one namespace
  kubectl taintkeeper report -n taintkeeper -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Usagef("%q: report takes no arguments: see %s --help", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.output.AddOutput(cmd, "text")
	return cmd
}

func (o *reportOptions) run(ctx context.Context) error {
	config, err := source.RESTConfigOf(o.config)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	if config.Timeout == 0 {
		config.Timeout = source.Patience
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	f := &fetcher{clients: clients, server: config.Host, connect: forwardTo(config)}
	where, body, err := f.fetch(ctx, *o.config.Namespace)
	if err != nil {
		return err
	}
	return o.print(where, body)
}

// print prints the report as it was served, or for people.
func (o *reportOptions) print(where string, body []byte) error {
	switch o.output.Format {
	case show.JSON:
		_, err := o.env.Out.Write(body)
		return err
	case show.YAML:
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("print as YAML: %w", err)
		}
		_, err = o.env.Out.Write(text)
		return err
	}
	var served report
	if err := json.Unmarshal(body, &served); err != nil {
		return fmt.Errorf("read the report of pod %s: %w", where, err)
	}
	served.print(&o.output, where)
	return nil
}

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

// forwardTo connects to ports of pods as kubectl port-forward does, using WebSocket or, with older API servers, SPDY.
func forwardTo(config *rest.Config) connector {
	return func(ctx context.Context, pod *corev1.Pod, port string) (string, func(), error) {
		dialer, err := dialerTo(config, pod)
		if err != nil {
			return "", nil, err
		}
		stopped, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.NewOnAddressesForStreaming(
			dialer, []string{"127.0.0.1"}, []string{"0:" + port}, stopped, ready, io.Discard, io.Discard)
		if err != nil {
			return "", nil, err
		}
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		stop := sync.OnceFunc(func() { close(stopped) })
		select {
		case <-ready:
		case err := <-ended:
			if err == nil {
				err = errors.New("the connection ended")
			}
			return "", nil, err
		case <-ctx.Done():
			stop()
			return "", nil, ctx.Err()
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			stop()
			return "", nil, err
		}
		return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
	}
}

func dialerTo(config *rest.Config, pod *corev1.Pod) (httpstream.Dialer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // it would end the connection
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	url := clients.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
