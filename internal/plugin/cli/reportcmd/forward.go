// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package reportcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

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
