// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the resources of API group taintkeeper.dev, version v1alpha1. The manifest
// config/crd.yaml and the deep copies are generated from it.
//
// +kubebuilder:object:generate=true
// +groupName=taintkeeper.dev
package v1alpha1
