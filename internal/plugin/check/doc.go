// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds what is wrong with how a cluster uses taints and tolerations: controllers that both evict or
// none, tolerations that do not mean what they seem to, and workloads that a taint takes away, or never does.
//
// It is pure. Each rule is a value in a file of its own, and says of the objects of a cluster what it finds, by owner
// and not by pod.
package check
