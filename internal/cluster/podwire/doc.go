// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwire makes clients that decode only the parts of a pod that Taintkeeper reads.
//
// A pod of a real cluster is four to ten kilobytes of protobuf. Nearly all of it is containers, volumes, labels and
// managed fields, and decoding them costs more than everything else that happens with a change of a pod. This package
// cuts unneeded fields out of the bytes before k8s.io/api decodes the rest. Kubernetes' own code still decodes what is
// kept, and this package knows only field numbers and lengths.
package podwire
