// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectltaint compares kubectl taintkeeper taint with the kubectl taint command itself
// (k8s.io/kubectl/pkg/cmd/taint): what is accepted, the taints that the nodes end up with, their order, and what is
// printed. Both run in this process against an API server that holds three nodes. The words of a refusal are each
// side's own. It also compares how package taints reads and validates taints with the parser and the validation of
// Kubernetes (k8s.io/kubernetes/pkg/util/taints and pkg/apis/core/validation). It is made of tests only.
package kubectltaint
