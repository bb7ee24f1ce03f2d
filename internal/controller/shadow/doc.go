// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow compares, pod by pod, when a pod must leave, according to taints and tolerations, with what
// Kubernetes' built-in taint eviction does, and changes nothing.
//
// When a pod must leave comes from package eviction, which decides the same way when it evicts. What the built-in
// does is read from the pods: it sets the condition DisruptionTarget with the reason DeletionByTaintManager, and then
// deletes. A pod that leaves without that mark was deleted by another client, and says nothing about the built-in.
//
//	promises   one record for each pod that must leave, by UID: when, why, and what happened to it
//	examine    keyed by node: what to report about a promise now, and when to look again
//	why        the sentence that explains a difference, from what was seen
//	report     counters, the last thousand differences, as metrics, JSON and a page
//
// Both clocks are read to the second, so a difference of up to [Tolerance] does not count.
package shadow
