// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects returns the objects of a manifest, in its order.
func Objects(manifest []byte) ([]client.Object, error) {
	var objects []client.Object
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		object, ok := decoded.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T cannot be created on its own", decoded)
		}
		objects = append(objects, object)
	}
}
