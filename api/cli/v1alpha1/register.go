// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of everything that the commands print.
var GroupVersion = schema.GroupVersion{Group: "cli.taintkeeper.dev", Version: "v1alpha1"}
