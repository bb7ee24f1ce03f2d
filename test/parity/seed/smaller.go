// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import "reflect"

// smaller returns inputs that are one thing simpler: a list without one of its elements, a string without one of its
// bytes or empty, a pointer that is nil, a number half as large. None leads back, so a search that follows them ends.
func smaller[T any](input T) []T {
	var all []T
	for _, simpler := range simplified(reflect.ValueOf(input)) {
		all = append(all, simpler.Interface().(T))
	}
	return all
}

func simplified(v reflect.Value) (all []reflect.Value) {
	if v.IsZero() {
		return nil
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			without := reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len()))
			all = append(all, without)
		}
		return append(all, inside(v, v.Len(), reflect.Value.Index)...)
	case reflect.Array:
		return inside(v, v.Len(), reflect.Value.Index)
	case reflect.Struct:
		return inside(v, v.NumField(), reflect.Value.Field)
	case reflect.String:
		all = append(all, reflect.Zero(v.Type()))
		for i := range v.Len() {
			all = append(all, reflect.ValueOf(v.String()[:i]+v.String()[i+1:]).Convert(v.Type()))
		}
		return all
	case reflect.Int, reflect.Int64:
		half, less := reflect.ValueOf(v.Int()/2), reflect.ValueOf(v.Int()-sign(v.Int()))
		return []reflect.Value{half.Convert(v.Type()), less.Convert(v.Type())}
	}
	return []reflect.Value{reflect.Zero(v.Type())}
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}

// inside simplifies one of the parts of a value.
func inside(v reflect.Value, parts int, part func(reflect.Value, int) reflect.Value) (all []reflect.Value) {
	for i := range parts {
		for _, simpler := range simplified(part(v, i)) {
			changed := reflect.New(v.Type()).Elem()
			changed.Set(v)
			if v.Kind() == reflect.Slice {
				changed.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
			}
			part(changed, i).Set(simpler)
			all = append(all, changed)
		}
	}
	return all
}
