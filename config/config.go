// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests of this folder for programs that install Taintkeeper themselves, as the demo and
// the tests do.
package config

import _ "embed"

// RBAC is rbac.yaml: the service account kube-system/taintkeeper and what it may do, as a stream of YAML documents.
// It must not be modified.
//
//go:embed rbac.yaml
var RBAC []byte
