// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement says where the successors of the pods that leave would go, by asking the scheduler's own plugins.
//
// It runs the filters and scores of kube-scheduler's default profile over a snapshot of the cluster with the taints as
// they are after the plan, and places the successors one after the other.
//
// It is the only package that imports k8s.io/kubernetes, and the plugin's command line the only program with it: the
// controller must not grow by it.
package placement
