// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"reflect"
	"strings"
)

// fields are the fields of a type that are kept, by index. A field without fields of its own is kept as a whole.
type fields []field

type field struct {
	index []int
	inner fields
}

// fieldsOf finds fields by their paths, as in spec.containers[].name. It panics if the type has no such field.
func fieldsOf(of reflect.Type, paths []string) (all fields) {
	var names []string
	below := map[string][]string{}
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".")
		name = strings.TrimSuffix(name, "[]")
		if _, known := below[name]; !known {
			names = append(names, name)
			below[name] = nil
		}
		if rest != "" {
			below[name] = append(below[name], rest)
		}
	}
	for _, name := range names {
		found, ok := fieldNamed(of, name)
		if !ok {
			panic(fmt.Sprintf("%s has no field %s", of, name))
		}
		one := field{index: found.Index}
		if paths := below[name]; len(paths) > 0 {
			inner := found.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			one.inner = fieldsOf(inner, paths)
		}
		all = append(all, one)
	}
	return all
}

// fieldNamed finds a field by its name in JSON, also in a struct that is embedded.
func fieldNamed(of reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(of) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (f field) of(of reflect.Value) reflect.Value {
	for _, i := range f.index {
		of = of.Field(i)
	}
	return of
}

// copyTo copies the fields from one struct to an empty one. What is kept as a whole is shared.
func (all fields) copyTo(to, from reflect.Value) {
	for _, f := range all {
		to, from := f.of(to), f.of(from)
		switch {
		case f.inner == nil:
			to.Set(from)
		case from.Kind() == reflect.Struct:
			f.inner.copyTo(to, from)
		case from.IsNil():
		case from.Kind() == reflect.Pointer:
			to.Set(reflect.New(from.Type().Elem()))
			f.inner.copyTo(to.Elem(), from.Elem())
		case from.Len() > 0:
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				f.inner.copyTo(to.Index(i), from.Index(i))
			}
		}
	}
}
