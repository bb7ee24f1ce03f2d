// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Object is one object of a manifest.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects returns the objects of a manifest, in its order.
func Objects(manifest []byte) ([]Object, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	var objects []Object
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		decoded, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		object, ok := decoded.(Object)
		if !ok {
			return nil, fmt.Errorf("%T cannot be created on its own", decoded)
		}
		objects = append(objects, object)
	}
}

// newDecoder knows what comes with Kubernetes, and the definitions of what does not.
func newDecoder() (runtime.Decoder, error) {
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), apiextensionsv1.AddToScheme(known)); err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(known).UniversalDeserializer(), nil
}
