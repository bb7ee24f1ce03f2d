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
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// The first line of a snapshot, and the last.
var (
	snapshotKind    = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "Snapshot"}
	snapshotEndKind = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "SnapshotEnd"}
)

// follow counts the lines of a snapshot, and rejects an incomplete one.
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
		c.learn(line)
	case snapshotEndKind:
		line := &cliv1alpha1.SnapshotEnd{}
		if err := convert(object.Object, line); err != nil {
			return fmt.Errorf("%s: %w", next.source, err)
		}
		delete(c.snapshots, next.source)
		switch {
		case !begun:
			return fmt.Errorf("%s: the snapshot has no first line: it is incomplete; take it again", next.source)
		case objects != line.Objects:
			return fmt.Errorf("%s: the snapshot contains %d of %d objects: it is damaged; take it again",
				next.source, objects, line.Objects)
		}
	default:
		if begun {
			c.snapshots[next.source]++
		}
	}
	return nil
}

// learn finds out from the first line of a snapshot which kinds it contains.
func (c *collector) learn(line *cliv1alpha1.Snapshot) {
	read := func(kind string) bool { return !slices.Contains(line.Unread, kind) }
	signs := &c.cluster.Signs
	signs.LeasesKnown = signs.LeasesKnown || read("leases")
	signs.EvictionClocksKnown = signs.EvictionClocksKnown || read("serviceaccounts")
	for _, resource := range []string{state.Budgets.Resource, state.Policies.Resource} {
		if read(resource) {
			continue
		}
		unknown := state.Unknown{Resource: resource}
		if resource == state.Policies.Resource && c.wants.Policies {
			unknown.Says = "EvictionPolicies could not be read when the snapshot was taken, so they are not taken into account."
		}
		c.cluster.Unknown = append(c.cluster.Unknown, unknown)
	}
}

// UnreadOf returns the kinds that are missing from a snapshot of a cluster because they could not be read.
func UnreadOf(cluster *state.Cluster) (unread []string) {
	for _, kind := range []struct {
		name  string
		known bool
	}{
		{"leases", cluster.Signs.LeasesKnown},
		{"serviceaccounts", cluster.Signs.EvictionClocksKnown},
		{state.Budgets.Resource, cluster.Knows(state.Budgets.Resource)},
		{state.Policies.Resource, cluster.Knows(state.Policies.Resource)},
	} {
		if !kind.known {
			unread = append(unread, kind.name)
		}
	}
	return unread
}

// unended returns an error for each snapshot without a last line.
func (c *collector) unended() (all []error) {
	for _, source := range slices.Sorted(maps.Keys(c.snapshots)) {
		all = append(all, cutOff(source, c.snapshots[source]))
	}
	return all
}

func cutOff(source string, objects int) error {
	return fmt.Errorf("%s: the snapshot has no last line (objects read: %d): it is incomplete; take it again",
		source, objects)
}
