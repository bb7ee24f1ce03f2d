// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs a real Kubernetes control plane on the loopback interface, for the demo, the
// integration tests and the benchmarks: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
// they are released, and kwok, which simulates the nodes and their pods. On request it also runs
// bin/taintkeeper as its service account.
//
// The binaries are built by `make controlplane`, those of an older Kubernetes by `make controlplane KUBE=1.35`; the
// environment variable CONTROLPLANE=bin/controlplane-1.35 chooses them. etcd and kube-apiserver are configured by
// controller-runtime's envtest, the others here. Every cluster has its own ports, certificates and state folder, so
// that several can run at once.
//
// No process outlives the program that started it, whether that program calls [Cluster.Stop], panics, is
// interrupted or is killed: see lifeline.go. It needs a Unix with a POSIX shell.
package localcluster
