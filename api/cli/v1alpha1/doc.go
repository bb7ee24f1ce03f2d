// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the types that the commands of kubectl taintkeeper print with -o json and -o yaml: API
// group cli.taintkeeper.dev, version v1alpha1. No API server serves these kinds.
//
// Instants are RFC 3339 with fractions of a second. Taints are strings in kubectl's grammar, key=value:Effect.
//
// +kubebuilder:object:generate=true
// +groupName=cli.taintkeeper.dev
package v1alpha1
