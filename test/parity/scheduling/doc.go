// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduling compares what package taints says about scheduling with what the scheduler's own plugins
// TaintToleration and NodeUnschedulable say (k8s.io/kubernetes/pkg/scheduler/framework/plugins), on generated pods and
// nodes: which node is refused, by which taint and in which words, and how the nodes that are left are scored. It is
// made of tests only.
package scheduling
