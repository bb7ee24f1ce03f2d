// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwire makes clients that decode only the parts of a pod that Taintkeeper reads.
//
// A pod of a real cluster is four to ten kilobytes of protobuf. Nearly all of it is containers, volumes, labels and
// managed fields, and decoding them costs more than everything else that happens with a change of a pod. This package
// cuts unneeded fields out of the bytes before k8s.io/api decodes the rest. Kubernetes' own code still decodes what is
// kept, and this package knows only field numbers and lengths.
package podwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// message says what is kept of a message on the wire.
type message struct {
	fields []*message      // by number; nil if not kept
	keys   func() []string // if set, the message is the entry of a map, kept only with one of these keys
	kinds  *kinds          // if set, the message is an object in its envelope
}

// kinds says what is kept of an object, by kind. An object is sent with a prefix, in a message that has its kind and
// its encoding.
type kinds struct{ pod, list *message }

func (m *message) field(number protowire.Number) *message {
	if int(number) >= len(m.fields) {
		return nil
	}
	return m.fields[number]
}

// Labels are the keys of the labels that a client decodes. The zero value has none. It is safe for concurrent use.
type Labels struct{ keys atomic.Pointer[[]string] }

// Keep sets the keys. They apply to what the API server sends from then on.
func (l *Labels) Keep(keys []string) { l.keys.Store(&keys) }

func (l *Labels) kept() []string {
	if keys := l.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// annotations are those that mark mirror pods, and the bookmark that ends a streamed list.
func annotations() []string {
	return []string{corev1.MirrorPodAnnotationKey, metav1.InitialEventsAnnotationKey}
}

var whole = &message{} // is kept as it is

// podFields returns what is kept of a pod; the numbers are from k8s.io/api/core/v1/generated.proto.
func podFields(labels *Labels) *message {
	return &message{fields: []*message{
		1: {fields: []*message{ // metadata
			1:  whole, // name
			3:  whole, // namespace
			5:  whole, // uid
			6:  whole, // resourceVersion
			7:  whole, // generation
			8:  whole, // creationTimestamp
			9:  whole, // deletionTimestamp
			10: whole, // deletionGracePeriodSeconds
			11: {keys: labels.kept},
			12: {keys: annotations},
		}},
		2: {fields: []*message{ // spec
			10: whole, // nodeName
			22: whole, // tolerations
			25: whole, // priority
		}},
		3: {fields: []*message{ // status
			1: whole, // phase
			2: whole, // conditions
		}},
	}}
}

// objectFields returns what is kept of an object.
func objectFields(labels *Labels) *message {
	pod := podFields(labels)
	return &message{kinds: &kinds{
		pod: enveloped(pod),
		list: enveloped(&message{fields: []*message{
			1: whole, // metadata
			2: pod,   // items
		}}),
	}}
}

// eventFields returns what is kept of an event of a watch.
func eventFields(object *message) *message {
	return &message{fields: []*message{
		1: whole, // type
		2: {fields: []*message{ // object
			1: object, // raw
		}},
	}}
}

func enveloped(object *message) *message {
	return &message{fields: []*message{
		1: whole,  // typeMeta
		2: object, // raw
	}}
}

// envelopePrefix precedes every object that is not embedded in another; see the serializer of apimachinery.
var envelopePrefix = []byte{'k', '8', 's', 0}

var (
	errNoPod   = errors.New("neither a pod nor a list of pods")
	errUnusual = errors.New("not as the API server writes it")
)

// appendKept appends what is kept of a message, or fails if it cannot tell. Fields stay in their order, so that
// k8s.io/api decides which of two values counts.
func appendKept(to, data []byte, as *message) ([]byte, error) {
	if as.kinds != nil {
		return appendObject(to, data, as.kinds)
	}
	for len(data) > 0 {
		f, rest, err := next(data)
		if err != nil {
			return nil, err
		}
		if to, err = appendField(to, f, as.field(f.number)); err != nil {
			return nil, err
		}
		data = rest
	}
	return to, nil
}

// appendField appends what is kept of a field. A message that is not encoded as one stays as it is, and is an error
// when it is decoded.
func appendField(to []byte, f field, as *message) ([]byte, error) {
	switch {
	case as == nil:
		return to, nil
	case as == whole || f.wire != protowire.BytesType:
		return append(to, f.encoded...), nil
	case as.keys != nil:
		return appendEntry(to, f, as.keys())
	}
	begin := len(to)
	to, err := appendKept(to, f.value, as)
	if err != nil {
		return nil, err
	}
	var header [2 * binary.MaxVarintLen64]byte
	head := protowire.AppendTag(header[:0], f.number, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(to)-begin))
	return slices.Insert(to, begin, head...), nil
}

// appendEntry appends the entry of a map if it has one of the keys.
func appendEntry(to []byte, entry field, keys []string) ([]byte, error) {
	if len(keys) == 0 {
		return to, nil
	}
	var key []byte
	for data := entry.value; len(data) > 0; {
		f, rest, err := next(data)
		if err != nil {
			return nil, err
		}
		if f.number <= 2 && f.wire != protowire.BytesType { // the key is 1, the value 2
			return nil, errUnusual
		}
		if f.number == 1 {
			key = f.value
		}
		data = rest
	}
	if !slices.ContainsFunc(keys, func(kept string) bool { return kept == string(key) }) {
		return to, nil
	}
	return append(to, entry.encoded...), nil
}

// appendObject appends what is kept of an object in its envelope.
func appendObject(to, data []byte, by *kinds) ([]byte, error) {
	data, ok := bytes.CutPrefix(data, envelopePrefix)
	if !ok {
		return nil, errUnusual
	}
	as, err := by.contents(data)
	if err != nil {
		return nil, err
	}
	return appendKept(append(to, envelopePrefix...), data, as)
}

// contents says what is kept of an envelope, depending on the kind of its object.
func (k *kinds) contents(envelope []byte) (*message, error) {
	var typeMeta []byte
	for len(envelope) > 0 {
		f, rest, err := next(envelope)
		if err != nil {
			return nil, err
		}
		if f.number == 1 {
			if typeMeta != nil { // two are merged
				return nil, errUnusual
			}
			typeMeta = f.value
		}
		envelope = rest
	}
	switch string(typeMeta) {
	case podType:
		return k.pod, nil
	case podListType:
		return k.list, nil
	}
	return nil, errNoPod
}

// What the API server writes as the type of a pod and of a list of pods.
var (
	podType     = encodedType("Pod")
	podListType = encodedType("PodList")
)

func encodedType(kind string) string {
	encoded := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), corev1.SchemeGroupVersion.String())
	return string(protowire.AppendString(protowire.AppendTag(encoded, 2, protowire.BytesType), kind))
}

// next returns the first field of a message and what comes after it.
func next(data []byte) (f field, rest []byte, err error) {
	number, wire, tag := protowire.ConsumeTag(data)
	if tag < 0 {
		return field{}, nil, protowire.ParseError(tag)
	}
	size := protowire.ConsumeFieldValue(number, wire, data[tag:])
	if size < 0 {
		return field{}, nil, protowire.ParseError(size)
	}
	f = field{number: number, wire: wire, encoded: data[:tag+size]}
	if wire == protowire.BytesType {
		f.value, _ = protowire.ConsumeBytes(data[tag:])
	}
	return f, data[tag+size:], nil
}

// field is a field as it is on the wire.
type field struct {
	number  protowire.Number
	wire    protowire.Type
	encoded []byte // with its tag
	value   []byte // of the type for bytes, strings and messages
}
