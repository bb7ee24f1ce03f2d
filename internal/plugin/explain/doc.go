// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says what the taints of a node, its tolerations and EvictionPolicies mean for one pod: whether it
// leaves, when and why, where its tolerations come from, and what would keep it. It is pure.
package explain
