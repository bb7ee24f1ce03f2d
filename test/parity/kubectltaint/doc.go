// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectltaint compares how package taints reads and applies taint arguments with the kubectl taint command
// itself (k8s.io/kubectl/pkg/cmd/taint), run in this process against an API server that holds one node, and with the
// parser and the validation of Kubernetes (k8s.io/kubernetes/pkg/util/taints and pkg/apis/core/validation), on
// generated arguments and nodes. It is made of tests only.
//
// It compares kubectl taintkeeper taint with kubectl taint in the same way, against an API server that holds some
// nodes.
//
// It compares what is accepted, the taints that the node ends up with, their order, and the step at which a command is
// refused. The words of a refusal are each side's own.
package kubectltaint
