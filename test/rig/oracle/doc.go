// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle tells tests when a pod must leave its node. It is the rule of docs/concepts.md, written a second time,
// so that no test judges package verdict with verdict's own arithmetic. It shares no code with verdict and taints.
//
// # The rule
//
// For every NoExecute taint on the node of a pod, the first toleration in list order that matches the taint counts.
// The pod must leave
//
//   - never, if that toleration sets no tolerationSeconds;
//   - at start + tolerationSeconds, if it sets them (zero or less add nothing; the last deadline is in the year 9999);
//   - at start, if no toleration matches;
//
// where start is the later of the instants from which the taint counts and at which the pod was bound. The earliest of
// these instants, over all taints, is when the pod is due. Only what holds now matters: a change of the taints or the
// tolerations before the pod has left makes another deadline.
//
// # When a taint starts to count
//
//   - A taint counts from when it was first there to be seen.
//   - A timeAdded is in whole seconds, rounded down. It makes the taint count from the end of its second, if that is
//     earlier.
//     A timeAdded in the future tells nothing.
//   - A taint continues while its key and effect stay on the node. It counts from the earliest instant that any of its
//     timeAdded told, so a later one, or none, postpones nothing.
//   - not-ready and unreachable are one cause with two names: one continues as the other, and where a node has both
//     they count from the earlier.
//   - With another value, a taint counts again: from when that value was first seen, from its timeAdded, or from when
//     it counted before if its timeAdded stays and still says so.
//   - A deadline that an earlier value has set stays as long as the pod tolerates that value and all later ones for a
//     while, and was bound before the next value counted. One that it tolerates indefinitely, or not at all, ends
//     them.
//   - What the controllers under test write to a node themselves tells nothing new.
//
// A process that starts sees everything for the first time: its taints are [Next] without any before. It may date a
// timeAdded by a clock that is behind.
//
// # Bounds
//
// Tests only know that a change happened between the call and its answer, so every instant is a [Span]. No controller
// may evict a pod before the beginning of its span, however early it saw each change, and a controller that sees each
// change at once evicts the pod by the end. In virtual time both are the same.
//
// # Policies
//
// [Policies] says whether EvictionPolicies object to the eviction of a due pod. It shares no code with internal/policy.
package oracle
