// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Smaller returns inputs that are one thing simpler: a list without some of its elements, a pointer that is nil, a flag
// that is not set, and whatever the function makes of other values. None leads back, so a search that follows them
// ends.
func Smaller[T any](input T, other func(reflect.Value) []reflect.Value) []T {
	var all []T
	for _, simpler := range simplified(reflect.ValueOf(input), other) {
		all = append(all, simpler.Interface().(T))
	}
	return all
}

// Anything simplifies values that are no lists: a string without one of its bytes or empty, a number half as large.
func Anything(v reflect.Value) (all []reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		all = append(all, reflect.Zero(v.Type()))
		for i := range v.Len() {
			all = append(all, reflect.ValueOf(v.String()[:i]+v.String()[i+1:]).Convert(v.Type()))
		}
	case reflect.Int, reflect.Int64:
		less := v.Int() - 1
		if v.Int() < 0 {
			less = v.Int() + 1
		}
		all = append(all, reflect.ValueOf(v.Int()/2).Convert(v.Type()), reflect.ValueOf(less).Convert(v.Type()))
	}
	return all
}

func simplified(v reflect.Value, other func(reflect.Value) []reflect.Value) (all []reflect.Value) {
	if v.IsZero() {
		return nil
	}
	inside := func(parts int, part func(reflect.Value, int) reflect.Value) {
		for i := range parts {
			for _, simpler := range simplified(part(v, i), other) {
				changed := reflect.New(v.Type()).Elem()
				changed.Set(v)
				if v.Kind() == reflect.Slice {
					changed.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
				}
				part(changed, i).Set(simpler)
				all = append(all, changed)
			}
		}
	}
	switch v.Kind() {
	case reflect.Slice:
		for size := max(v.Len()/2, 1); size > 0; size /= 2 { // halves, quarters and so on
			for i := 0; i+size <= v.Len(); i += size {
				all = append(all, reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+size, v.Len())))
			}
		}
		inside(v.Len(), reflect.Value.Index)
	case reflect.Array:
		inside(v.Len(), reflect.Value.Index)
	case reflect.Struct:
		inside(v.NumField(), reflect.Value.Field)
	case reflect.Interface:
		return simplified(v.Elem(), other)
	case reflect.Pointer, reflect.Bool:
		return []reflect.Value{reflect.Zero(v.Type())}
	default:
		return other(v)
	}
	return all
}

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
