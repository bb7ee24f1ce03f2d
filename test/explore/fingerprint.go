// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Fingerprint identifies a state.
type Fingerprint [md5.Size]byte

// Alike says which differences between two worlds nothing can tell apart.
type Alike struct {
	// Recent is how far the rules of the world look back. Of earlier instants only their order counts.
	Recent time.Duration
	// Skip reports whether a field of a struct makes no difference.
	Skip func(field string) bool
	// Most has fields, by name, of which all larger values are alike.
	Most map[string]int64
	// Set returns the name of the only field of a struct that counts, a slice whose order makes no difference; empty for
	// other structs. It may be nil.
	Set func(of reflect.Type) (field string)
}

// fingerprinter writes a value so that equal states, and only these, are written alike. It reads fields that are not
// exported, too. Instants are written relative to now, pointers by what they point to, and UIDs by who has the same.
type fingerprinter struct {
	Alike

	now  time.Time
	out  bytes.Buffer
	seen map[place]int
	at   []time.Duration // the instants, relative to now
	uids map[string]int  // in the order in which they were written; nil writes them as they are
}

// FingerprintOf returns the fingerprint of some values at an instant.
func FingerprintOf(now time.Time, alike Alike, values ...any) Fingerprint {
	f := &fingerprinter{Alike: alike, now: now, seen: map[place]int{}, uids: map[string]int{}}
	for _, value := range values {
		f.write(reflect.ValueOf(value))
	}
	old := slices.DeleteFunc(slices.Clone(f.at), func(at time.Duration) bool { return at >= -f.Recent })
	slices.Sort(old)
	old = slices.Compact(old)
	for _, at := range f.at {
		if at < -f.Recent {
			rank, _ := slices.BinarySearch(old, at)
			at = -f.Recent - time.Duration(len(old)-rank)
		}
		f.number(int64(at))
	}
	return md5.Sum(f.out.Bytes())
}

// place is where a pointer points. A struct and its first field are at the same address.
type place struct {
	at uintptr
	of reflect.Type
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	uidType     = reflect.TypeFor[types.UID]()
	limiterType = reflect.TypeFor[*rate.Limiter]()
)

func (f *fingerprinter) write(v reflect.Value) {
	f.out.WriteByte(byte(v.Kind()))
	switch v.Kind() {
	case reflect.String:
		if v.Type() == uidType {
			f.uid(v.String())
		} else {
			f.text(v.String())
		}
	case reflect.Struct:
		f.structure(v)
	case reflect.Pointer:
		f.pointer(v)
	case reflect.Interface:
		if !v.IsNil() {
			f.text(v.Elem().Type().String())
		}
		f.write(v.Elem())
	case reflect.Slice, reflect.Array:
		f.number(int64(v.Len()))
		for i := range v.Len() {
			f.write(v.Index(i))
		}
	case reflect.Map:
		f.entries(v)
	case reflect.Invalid, reflect.Func, reflect.Chan:
	default:
		f.simple(v)
	}
}

// simple writes a number or a truth value.
func (f *fingerprinter) simple(v reflect.Value) {
	switch {
	case v.CanInt():
		f.number(v.Int())
	case v.CanUint():
		f.number(int64(v.Uint()))
	case v.CanFloat():
		f.number(int64(v.Float() * 1e6))
	case v.Bool():
		f.number(1)
	default:
		f.number(0)
	}
}

func (f *fingerprinter) number(n int64) { f.out.Write(binary.AppendVarint(nil, n)) }

func (f *fingerprinter) text(s string) {
	f.number(int64(len(s)))
	f.out.WriteString(s)
}

func (f *fingerprinter) uid(uid string) {
	if f.uids == nil {
		f.text(uid)
		return
	}
	if _, known := f.uids[uid]; !known && uid != "" {
		f.uids[uid] = len(f.uids) + 1
	}
	f.number(int64(f.uids[uid]))
}

func (f *fingerprinter) structure(v reflect.Value) {
	if v.Type() == timeType {
		f.instant(v)
		return
	}
	if f.Set != nil {
		if elements := f.Set(v.Type()); elements != "" {
			f.set(v.FieldByName(elements))
			return
		}
	}
	for i := range v.NumField() {
		field := v.Field(i)
		name := v.Type().Field(i).Name
		most, bounded := f.Most[name]
		switch {
		case f.Skip(name):
		case bounded && field.CanInt():
			f.number(min(field.Int(), most))
		default:
			f.write(field)
		}
	}
}

// instant writes an instant without a monotonic clock, from the fields of time.Time: nanoseconds, and seconds since the
// year 1.
func (f *fingerprinter) instant(v reflect.Value) {
	nanoseconds, seconds := v.Field(0).Uint(), v.Field(1).Int()
	if nanoseconds>>63 != 0 {
		panic("an instant of a real clock")
	}
	if nanoseconds == 0 && seconds == 0 {
		f.number(1)
		return
	}
	const untilUnix = 62135596800
	at := time.Unix(seconds-untilUnix, int64(nanoseconds))
	f.number(0)
	f.at = append(f.at, at.Sub(f.now))
}

func (f *fingerprinter) pointer(v reflect.Value) {
	if v.IsNil() {
		f.number(-1)
		return
	}
	to := place{v.Pointer(), v.Type()}
	if number, again := f.seen[to]; again {
		f.number(int64(number))
		return
	}
	f.seen[to] = len(f.seen)
	if v.Type() == limiterType {
		f.limiter((*rate.Limiter)(v.UnsafePointer()))
		return
	}
	f.write(v.Elem())
}

// limiter writes what a limiter will allow: its rate, and how much of it is there now.
func (f *fingerprinter) limiter(is *rate.Limiter) {
	f.number(int64(float64(is.Limit()) * 1e6))
	f.number(int64(is.TokensAt(f.now) * 1e6))
}

// entries writes a map, in the order of its keys.
func (f *fingerprinter) entries(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(f.key(a), f.key(b)) })
	f.number(int64(len(keys)))
	for _, key := range keys {
		f.write(key)
		f.write(v.MapIndex(key))
	}
}

// key identifies a key of a map, or an element of a set.
func (f *fingerprinter) key(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Pointer:
		if id := v.Elem().FieldByName("UID"); id.IsValid() {
			return id.String()
		}
		if name := v.Elem().FieldByName("name"); name.IsValid() {
			return name.String()
		}
	}
	return string(f.alone(v))
}

// set writes the elements of a slice, in an order that does not depend on the slice.
func (f *fingerprinter) set(v reflect.Value) {
	order := make([]int, v.Len())
	keys := make([]string, v.Len())
	for i := range order {
		order[i], keys[i] = i, f.key(v.Index(i))
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	for _, i := range order {
		f.write(v.Index(i))
	}
}

// alone returns what is written of a value if nothing was written before.
func (f *fingerprinter) alone(v reflect.Value) []byte {
	other := &fingerprinter{Alike: f.Alike, now: f.now, seen: map[place]int{}}
	maps.Copy(other.seen, f.seen)
	other.write(v)
	for _, at := range other.at {
		other.number(int64(max(at, -f.Recent)))
	}
	return other.out.Bytes()
}
