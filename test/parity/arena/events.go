// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
)

// WithEvents returns client-go's fake clientset with what the events of upstream's node-lifecycle controller need: a
// REST client. Each event is given to a function.
func WithEvents(client kubernetes.Interface, take func(*corev1.Event)) kubernetes.Interface {
	return withEvents{client, take}
}

type withEvents struct {
	kubernetes.Interface

	take func(*corev1.Event)
}

func (c withEvents) CoreV1() typedcorev1.CoreV1Interface {
	return coreWithEvents{c.Interface.CoreV1(), c.take}
}

type coreWithEvents struct {
	typedcorev1.CoreV1Interface

	take func(*corev1.Event)
}

func (c coreWithEvents) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
		VersionedAPIPath:     "/api/v1",
		Client:               restfake.CreateHTTPClient(c.create),
	}
}

// create answers the creation of an event.
func (c coreWithEvents) create(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	event := &corev1.Event{}
	if err := json.Unmarshal(body, event); err != nil {
		return nil, err
	}
	c.take(event)
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
