// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the types that the commands of kubectl taintkeeper print with -o json and -o yaml: API
// group cli.taintkeeper.dev, version v1alpha1. No API server serves these kinds.
//
// Instants are in RFC 3339. Most have fractions of a second; those that Kubernetes stores in whole seconds have none.
// Taints are strings in kubectl's grammar, key=value:Effect.
//
// +kubebuilder:object:generate=true
// +groupName=cli.taintkeeper.dev
package v1alpha1
