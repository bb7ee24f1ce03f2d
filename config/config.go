// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests of this folder for programs that install Taintkeeper themselves, as the demo and
// the tests do. They must not modify these variables. The manifests are rendered from charts/taintkeeper, except the
// CRD (make generate).
package config

import _ "embed"

// RBAC is rbac.yaml: the service account kube-system/taintkeeper and what it may do, as a stream
// of YAML documents.
//
//go:embed rbac.yaml
var RBAC []byte

// Viewer is viewer.yaml: the roles for users of kubectl taintkeeper, and for people on call.
//
//go:embed viewer.yaml
var Viewer []byte

// CRD is crd.yaml: the resources NodeTaintRule and EvictionPolicy. It is generated from api/v1alpha1 (make generate).
//
//go:embed crd.yaml
var CRD []byte

// Deployment is deployment.yaml: two replicas in the cluster itself, and their PodDisruptionBudget.
//
//go:embed deployment.yaml
var Deployment []byte

// Coexistence is coexistence.yaml: the eviction clock, and the admission policies that keep the built-in
// taint-eviction-controller from evicting.
//
//go:embed coexistence.yaml
var Coexistence []byte

// Policies is policies.yaml: all admission policies for tolerations. They need Kubernetes 1.36.
//
//go:embed policies.yaml
var Policies []byte
