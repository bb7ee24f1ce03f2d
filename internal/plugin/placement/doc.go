// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement says where the successors of the pods that leave would go. It asks the scheduler's own plugins.
//
// It runs the filters and scores of kube-scheduler's default profile on a snapshot of the cluster. A [Room] follows the
// cluster: package course tells it which pods leave and which nodes change, and places successors one by one.
//
// No other package of this module imports k8s.io/kubernetes, and no program other than the plugin imports this one,
// because that would make the controller much bigger.
package placement
