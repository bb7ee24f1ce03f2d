// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// NewForConfig makes a client whose pods have only the fields that [podFields] names, if the API server answers in
// protobuf. Everything else, and JSON, is decoded as usual. It refuses to send a whole pod, because a pod that it has
// read lacks most of its fields. Patch pods instead.
func NewForConfig(config *rest.Config, labels *Labels) (kubernetes.Interface, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the HTTP client: %w", err)
	}
	all, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = codecs{scheme.Codecs.WithoutConversion(), objectFields(labels)}
	core, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make the client of pods: %w", err)
	}
	return client{Interface: all, core: typedcorev1.New(core)}, nil
}

type client struct {
	kubernetes.Interface

	core typedcorev1.CoreV1Interface
}

// CoreV1 implements kubernetes.Interface.
func (c client) CoreV1() typedcorev1.CoreV1Interface { return c.core }

// codecs are client-go's, except for protobuf.
type codecs struct {
	runtime.NegotiatedSerializer

	object *message
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c codecs) SupportedMediaTypes() []runtime.SerializerInfo {
	supported := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range supported {
		info := &supported[i]
		if info.MediaType != runtime.ContentTypeProtobuf || info.StreamSerializer == nil {
			continue
		}
		info.Serializer = trimming{Serializer: info.Serializer, as: c.object}
		stream := *info.StreamSerializer
		stream.Serializer = trimming{Serializer: stream.Serializer, as: eventFields(c.object)}
		stream.Framer = buffering{stream.Framer}
		info.StreamSerializer = &stream
	}
	return supported
}

// buffering reads a stream in pieces that are as large as possible. Otherwise each frame takes two small reads, and
// after every few kilobytes HTTP/2 tells the API server that it may send more.
type buffering struct{ runtime.Framer }

// streamBuffer is how much is read at once.
const streamBuffer = 64 << 10

// NewFrameReader implements runtime.Framer.
func (b buffering) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return b.Framer.NewFrameReader(bufferedReader{Reader: bufio.NewReaderSize(r, streamBuffer), Closer: r})
}

type bufferedReader struct {
	io.Reader
	io.Closer
}

// trimming decodes what is kept of a message.
type trimming struct {
	runtime.Serializer

	as *message
}

// Decode implements runtime.Decoder. Data that is not understood, and objects that are not pods, go to the ordinary
// decoder as they are.
func (t trimming) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	kept, err := appendKept((*buffer)[:0], data, t.as)
	if err == nil && len(kept) > 0 { // no bytes do not mean the same as an empty message
		*buffer, data = kept, kept
	}
	return t.Serializer.Decode(data, defaults, into)
}

// buffers are reused, because the decoders of protobuf copy what they keep.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

var errIncomplete = errors.New("a pod that this client has read lacks most of its fields and cannot be sent; patch it instead")

// Encode implements runtime.Encoder.
func (t trimming) Encode(object runtime.Object, w io.Writer) error {
	if _, ok := object.(*corev1.Pod); ok {
		return errIncomplete
	}
	return t.Serializer.Encode(object, w)
}
