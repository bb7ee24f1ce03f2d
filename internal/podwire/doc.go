// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwire makes clients that do not decode what nobody reads of a pod.
//
// A pod of a real cluster is four to ten kilobytes of protobuf, nearly all of it containers, volumes, labels and
// managed fields, and decoding them costs more than everything else that is done with a change of a pod. Here the
// fields that are not needed are cut out of the bytes before k8s.io/api decodes what is left. So what is kept
// is decoded by Kubernetes' own code, and this package knows nothing but field numbers and lengths.
package podwire
