// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// The first and the last line of a snapshot.
var (
	snapshotKind    = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "Snapshot"}
	snapshotEndKind = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "SnapshotEnd"}
)

// follow counts the lines of a snapshot, and refuses one that is not whole.
func (c *collector) follow(next decoded) error {
	objects, begun := c.snapshots[next.source]
	object, _ := next.object.(*unstructured.Unstructured)
	switch next.object.GetObjectKind().GroupVersionKind().GroupKind() {
	case snapshotKind:
		if begun {
			return cutOff(next.source, objects)
		}
		line := &cliv1alpha1.Snapshot{}
		if err := convert(object.Object, line); err != nil {
			return fmt.Errorf("%s: %w", next.source, err)
		}
		if line.At.After(c.cluster.At) {
			c.cluster.At = line.At.Time
		}
		c.snapshots[next.source] = 0
	case snapshotEndKind:
		line := &cliv1alpha1.SnapshotEnd{}
		if err := convert(object.Object, line); err != nil {
			return fmt.Errorf("%s: %w", next.source, err)
		}
		delete(c.snapshots, next.source)
		switch {
		case !begun:
			return fmt.Errorf("%s: the snapshot has no first line: it is cut off, take it again", next.source)
		case objects != line.Objects:
			return fmt.Errorf("%s: the snapshot holds %d of %d objects: it is damaged, take it again",
				next.source, objects, line.Objects)
		}
	default:
		if begun {
			c.snapshots[next.source]++
		}
	}
	return nil
}

// unended returns an error for each snapshot whose last line has not come.
func (c *collector) unended() (all []error) {
	for _, source := range slices.Sorted(maps.Keys(c.snapshots)) {
		all = append(all, cutOff(source, c.snapshots[source]))
	}
	return all
}

func cutOff(source string, objects int) error {
	return fmt.Errorf("%s: the snapshot ends after %d objects without its last line: it is cut off, take it again",
		source, objects)
}
