// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evictions is a small world in which pods must leave nodes, of which package explore walks every history.
//
// The packages verdict, policy, backlog and builtin decide in it, and the admission policy of config/coexistence.yaml
// is evaluated with the API server's own CEL.
//
//	world.go         the world, its size and its promises
//	steps.go         what happens by itself
//	disturbances.go  what users and failures do
//	cluster.go       what the API server has
//	admission.go     the admission policy
//	replica.go       a process of Taintkeeper
//	kcm.go           the taint-eviction-controller of kube-controller-manager
//
// A history that breaks a promise is printed as a timeline. That of each gap in docs/coexistence.md is in testdata.
package evictions
