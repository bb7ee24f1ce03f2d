// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster runs a real Kubernetes control plane on the loopback interface, for the demo,
// tests and benchmarks: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
// they are released, and kwok, which simulates the nodes and their pods. On request it also runs
// bin/taintkeeper as its service account.
//
// It does not use kwokctl or envtest, because what these start survives a killed test, and because tests kill, freeze
// and restart single components. envtest has only two of them, and kwokctl detaches them.
//
// The binaries are built by `make controlplane`, those of an older Kubernetes by `make controlplane KUBE=1.35`; the
// environment variable CONTROLPLANE=bin/controlplane-1.35 chooses them. Every cluster has its own ports, certificates
// and state folder, so that several can run at once.
//
// No process outlives the program that started it: see package process. It needs a Unix with a POSIX shell.
package localcluster
