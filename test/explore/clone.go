// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"reflect"
	"sync"
	"unsafe"
)

// cloner copies values with everything that they lead to, fields that are not exported included. Pointers to the same
// value stay pointers to the same value. Functions are shared, as are the types that are never modified.
type cloner struct {
	shared map[reflect.Type]bool   // what pointers to are shared
	field  func(reflect.Type) bool // whether pointers to a type point to a field of another value; nil means never
	copies map[uintptr]reflect.Value
	// inner are copied pointers to fields: the structs to which the fields belong may not have been copied yet.
	inner []reflect.Value
}

// Clone returns a copy of what a pointer points to. Pointers to values of the types that are shared stay as they are.
// Pointers to values of the types for which field returns true point to fields of other values; nil means that there
// are none.
func Clone[T any](value *T, shared map[reflect.Type]bool, field func(reflect.Type) bool) *T {
	c := &cloner{shared: shared, field: field, copies: map[uintptr]reflect.Value{}}
	copied := c.pointer(reflect.ValueOf(value)).Interface().(*T)
	for _, v := range c.inner {
		if !v.IsNil() {
			c.redirect(v)
		}
	}
	return copied
}

// redirect makes a pointer to a field point to the copy of that field.
func (c *cloner) redirect(v reflect.Value) {
	for at, copied := range c.copies {
		if offset := v.Pointer() - at; v.Pointer() >= at && offset < copied.Type().Elem().Size() {
			v.Set(reflect.NewAt(v.Type().Elem(), unsafe.Add(copied.UnsafePointer(), offset)))
			return
		}
	}
	panic("a pointer to a field of nothing that was copied")
}

func (c *cloner) pointer(v reflect.Value) reflect.Value {
	if v.IsNil() || c.shared[v.Type().Elem()] {
		return v
	}
	if known, again := c.copies[v.Pointer()]; again {
		return known
	}
	fresh := reflect.New(v.Type().Elem())
	c.copies[v.Pointer()] = fresh
	fresh.Elem().Set(v.Elem())
	c.detach(fresh.Elem())
	return fresh
}

// detach replaces what a copied value shares with the original. The value is addressable.
func (c *cloner) detach(v reflect.Value) {
	if !refers(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			c.detach(reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			c.detach(v.Index(i))
		}
	case reflect.Pointer:
		c.detachPointer(v)
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(c.value(v.Elem()))
		}
	case reflect.Slice:
		c.detachSlice(v)
	case reflect.Map:
		c.detachMap(v)
	}
}

func (c *cloner) detachPointer(v reflect.Value) {
	if c.field != nil && c.field(v.Type().Elem()) {
		c.inner = append(c.inner, v)
		return
	}
	v.Set(c.pointer(v))
}

func (c *cloner) detachSlice(v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(fresh, v)
	for i := range fresh.Len() {
		c.detach(fresh.Index(i))
	}
	v.Set(fresh)
}

func (c *cloner) detachMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		fresh.SetMapIndex(c.value(entries.Key()), c.value(entries.Value()))
	}
	v.Set(fresh)
}

// value returns a copy of a value that is not addressable.
func (c *cloner) value(v reflect.Value) reflect.Value {
	if !refers(v.Type()) {
		return v
	}
	fresh := reflect.New(v.Type()).Elem()
	fresh.Set(v)
	c.detach(fresh)
	return fresh
}

var referring sync.Map // reflect.Type to bool: what refers knows

// refers reports whether copies of a type can share something that may be modified.
func refers(t reflect.Type) bool {
	if known, ok := referring.Load(t); ok {
		return known.(bool)
	}
	does := false
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		does = true
	case reflect.Array:
		does = refers(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			does = does || refers(field.Type)
		}
		does = does && t != timeType
	}
	referring.Store(t, does)
	return does
}
