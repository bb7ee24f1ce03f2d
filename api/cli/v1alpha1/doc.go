// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the types that the commands of kubectl taintkeeper print with -o json and -o yaml: API
// group cli.taintkeeper.dev, version v1alpha1. No API server serves these kinds.
//
// Instants are in RFC 3339. Most have fractions of a second; those that Kubernetes stores in whole seconds have none.
// Taints are strings in kubectl's grammar, key=value:Effect.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of everything that the commands print.
var GroupVersion = schema.GroupVersion{Group: "cli.taintkeeper.dev", Version: "v1alpha1"}

// Type returns what every printed object begins with.
func Type(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind}
}
