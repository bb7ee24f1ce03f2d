// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"iter"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// keptLabels are the kept labels of a pod, in a form that is small and comparable. The zero value has none. No label
// contains a comma or an equals sign.
type keptLabels struct {
	keys   *[]string // shared by all pods that were recorded with these keys
	values string    // in the order of the keys, "=value" or nothing for each, with commas between them
}

var _ labels.Labels = &keptLabels{}

// labelsOf returns the labels of a pod with some keys.
func labelsOf(pod *corev1.Pod, keys *[]string) keptLabels {
	var values strings.Builder
	found := false
	for i, key := range *keys {
		if i > 0 {
			values.WriteByte(',')
		}
		if value, ok := pod.Labels[key]; ok {
			values.WriteString("=" + value)
			found = true
		}
	}
	if !found {
		return keptLabels{}
	}
	return keptLabels{keys: keys, values: strings.Clone(values.String())}
}

// all yields the labels by key.
func (l *keptLabels) all() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		if l.keys == nil {
			return
		}
		rest := l.values
		for _, key := range *l.keys {
			var value string
			value, rest, _ = strings.Cut(rest, ",")
			if value, ok := strings.CutPrefix(value, "="); ok && !yield(key, value) {
				return
			}
		}
	}
}

// Lookup implements [labels.Labels].
func (l *keptLabels) Lookup(label string) (value string, exists bool) {
	for key, value := range l.all() {
		if key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements [labels.Labels].
func (l *keptLabels) Has(label string) bool {
	_, exists := l.Lookup(label)
	return exists
}

// Get implements [labels.Labels].
func (l *keptLabels) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}

// equal compares the kept labels of two pods. It is expensive only for pods that were recorded with different keys.
func (l keptLabels) equal(other keptLabels) bool {
	return l == other || maps.Equal(l.set(), other.set())
}

func (l keptLabels) set() labels.Set { return maps.Collect(l.all()) }
