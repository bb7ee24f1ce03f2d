// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Describe writes a value nearly as it is written in Go, without what is zero, and with times as they print themselves.
func Describe(value any) string { return describe(reflect.ValueOf(value)) }

func describe(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case metav1.Time:
		return value.String()
	case string:
		return fmt.Sprintf("%q", value)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return describe(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		return describeList(v)
	case reflect.Struct:
		var all []string
		for i := range v.NumField() {
			if field := v.Field(i); v.Type().Field(i).IsExported() && !field.IsZero() {
				all = append(all, v.Type().Field(i).Name+": "+describe(field))
			}
		}
		return v.Type().Name() + "{" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// describeList writes one structure on a line.
func describeList(v reflect.Value) string {
	var all []string
	for i := range v.Len() {
		all = append(all, describe(v.Index(i)))
	}
	if len(all) > 1 && v.Type().Elem().Kind() == reflect.Struct {
		return "[\n\t" + strings.Join(all, ",\n\t") + "]"
	}
	return "[" + strings.Join(all, ", ") + "]"
}
