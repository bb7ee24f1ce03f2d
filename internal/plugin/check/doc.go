// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds what is wrong with how a cluster uses taints and tolerations: two controllers that evict, or none
// that does, tolerations that do not mean what they seem to, and workloads that a taint evicts unexpectedly, or never
// evicts.
//
// It is pure. Each rule is a value, and reports findings by owner, not by pod.
package check
