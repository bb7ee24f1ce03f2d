// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package matching compares package taints with Kubernetes' own code, on generated pods and nodes: which toleration
// matches which taint (k8s.io/api/core/v1, k8s.io/component-helpers/scheduling/corev1 and
// k8s.io/kubernetes/pkg/apis/core/v1/helper), and what follows from that for scheduling, with the scheduler's plugins
// TaintToleration and NodeUnschedulable: which node is refused, by which taint and in which words, and how the nodes
// that are left are scored. It is made of tests only.
//
// Package taints calls Toleration.ToleratesTaint of k8s.io/api itself, so a comparison with that function alone would
// pass whatever a later Kubernetes makes of it. The documented rule is therefore written down a second time, and the
// test fails when upstream's code departs from it.
package matching
