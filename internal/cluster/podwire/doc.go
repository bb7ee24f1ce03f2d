// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwire makes clients that decode of a pod only what Taintkeeper reads.
//
// A pod of a real cluster is four to ten kilobytes of protobuf. Nearly all of it is containers, volumes, labels and
// managed fields, and decoding them costs more than everything else that is done with a change of a pod. This
// package cuts the fields that are not needed out of the bytes before k8s.io/api decodes what is left. So Kubernetes'
// own code decodes what is kept, and this package knows nothing but field numbers and lengths.
package podwire
