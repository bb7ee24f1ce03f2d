// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Template is the pod template of an owner.
type Template struct {
	// Kind and Name identify the owner.
	Kind, Name  string
	Tolerations []corev1.Toleration
	// Writers are the field managers that wrote the template's tolerations. They are empty if that is not recorded.
	Writers []string
}

// TemplateOf returns the pod template of a workload: spec.template.
func TemplateOf(object *unstructured.Unstructured) (*Template, error) {
	listed, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "tolerations")
	if err != nil {
		return nil, fmt.Errorf("read the template of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	var template struct {
		Tolerations []corev1.Toleration `json:"tolerations"`
	}
	fields := map[string]any{"tolerations": listed}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &template); err != nil {
		return nil, fmt.Errorf("read the template of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return &Template{
		Kind: object.GetKind(), Name: object.GetName(), Tolerations: template.Tolerations,
		Writers: WritersOf(object.GetManagedFields(), "spec", "template", "spec", "tolerations"),
	}, nil
}

// WritersOf returns the managers of a field, according to managed fields.
func WritersOf(managed []metav1.ManagedFieldsEntry, path ...string) []string {
	var writers []string
	for _, entry := range managed {
		if entry.FieldsV1 != nil && owns(entry.FieldsV1.GetRawBytes(), path) && !slices.Contains(writers, entry.Manager) {
			writers = append(writers, entry.Manager)
		}
	}
	slices.Sort(writers)
	return writers
}

// owns reports whether a set of managed fields contains a field.
func owns(fields []byte, path []string) bool {
	for _, name := range path {
		var below map[string]json.RawMessage
		if err := json.Unmarshal(fields, &below); err != nil {
			return false
		}
		found, ok := below["f:"+name]
		if !ok {
			return false
		}
		fields = found
	}
	return true
}

// String names the template's owner and who wrote its tolerations.
func (t *Template) String() string {
	words := "the template of " + t.Kind + " " + t.Name
	if len(t.Writers) > 0 {
		words += ", written by " + strings.Join(t.Writers, ", ")
	}
	return words
}
